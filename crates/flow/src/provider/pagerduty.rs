//! PagerDuty's webhooks, version 3.

use super::{
    Encoding, PresetOrder, PresetPart, PresetScheme, PresetSignature, Provider, Source, days,
};

/// The preset.
pub(super) const PRESET: Provider = Provider {
    name: "pagerduty",
    title: "PagerDuty",
    key: "input.event.id",
    key_source: Source::Body,
    signature: Some(PresetSignature {
        header: "x-pagerduty-signature",
        separator: Some(','),
        schemes: &[PresetScheme::sha256("v1=", Encoding::Hex)],
        signed: &[PresetPart::Body],
        id_header: None,
        sent: None,
    }),
    covers_headers: &[],
    // It retries for two days.
    redelivery: Some(days(2)),
    order: Some(PresetOrder {
        // Notes, responders and status updates name their incident; an incident is itself.
        object: "default(input.event.data.incident.id, input.event.data.id)",
        version: "input.event.occurred_at",
    }),
    clock_fields: &[],
    challenge: None,
};
