//! Sources that engineers work with: GitHub, Linear and PagerDuty.

use super::{
    Encoding, PresetOrder, PresetPart, PresetScheme, PresetSent, PresetSentAt, PresetSignature,
    Provider, Source, Unit, days, hours,
};

/// GitHub's webhooks, of repositories, organisations and apps.
pub(super) const GITHUB: Provider = Provider {
    name: "github",
    title: "GitHub",
    key: r#"headers["x-github-delivery"]"#,
    key_source: Source::Header("x-github-delivery"),
    signature: Some(PresetSignature::over_body(
        "x-hub-signature-256",
        &[PresetScheme::sha256("sha256=", Encoding::Hex)],
    )),
    covers_headers: &[],
    // A person can send a delivery again for three days, on an Enterprise Server for seven.
    redelivery: Some(days(7)),
    // What an event is about stands elsewhere in each kind of event.
    order: None,
    clock_fields: &[],
};

/// Linear's webhooks.
pub(super) const LINEAR: Provider = Provider {
    name: "linear",
    title: "Linear",
    key: r#"headers["linear-delivery"]"#,
    key_source: Source::Header("linear-delivery"),
    signature: Some(PresetSignature {
        header: "linear-signature",
        separator: None,
        schemes: &[PresetScheme::sha256("", Encoding::Hex)],
        signed: &[PresetPart::Body],
        id_header: None,
        // The last retry comes after seven hours, and may carry the time of the first attempt.
        sent: Some(PresetSent {
            at: PresetSentAt::Body("webhookTimestamp"),
            unit: Unit::Millis,
            tolerance: hours(8),
        }),
    }),
    covers_headers: &[],
    // Retries come after a minute, an hour and six hours.
    redelivery: Some(days(1)),
    order: Some(PresetOrder {
        object: "input.data.id",
        version: "input.createdAt",
    }),
    clock_fields: &["webhookTimestamp"],
};

/// PagerDuty's webhooks, version 3.
pub(super) const PAGERDUTY: Provider = Provider {
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
};
