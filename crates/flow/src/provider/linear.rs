//! Linear's webhooks.

use super::{
    Encoding, PresetOrder, PresetPart, PresetScheme, PresetSent, PresetSentAt, PresetSignature,
    Provider, Source, Unit, days, hours,
};

/// The preset.
pub(super) const PRESET: Provider = Provider {
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
    challenge: None,
};
