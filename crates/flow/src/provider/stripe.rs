//! Stripe's events, as snapshots.

use super::signature::FIVE_MINUTES;
use super::{
    Encoding, PresetOrder, PresetPart, PresetScheme, PresetSent, PresetSentAt, PresetSignature,
    Provider, Source, Unit, days,
};

/// The preset.
pub(super) const PRESET: Provider = Provider {
    name: "stripe",
    title: "Stripe",
    key: "input.id",
    key_source: Source::Body,
    signature: Some(PresetSignature {
        header: "stripe-signature",
        separator: Some(','),
        schemes: &[PresetScheme::sha256("v1=", Encoding::Hex)],
        signed: &[PresetPart::Sent, PresetPart::Text("."), PresetPart::Body],
        id_header: None,
        sent: Some(PresetSent {
            at: PresetSentAt::Beside("t="),
            unit: Unit::Seconds,
            tolerance: FIVE_MINUTES,
        }),
    }),
    covers_headers: &[],
    // It tries for three days by itself; a person can send an event again for thirty.
    redelivery: Some(days(30)),
    order: Some(PresetOrder {
        object: "input.data.object.id",
        version: "input.created",
    }),
    // How many endpoints have not answered yet: it falls from one delivery to the next.
    clock_fields: &["pending_webhooks"],
    challenge: None,
};
