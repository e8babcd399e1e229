//! Standard Webhooks 1.0.

use super::signature::FIVE_MINUTES;
use super::{
    Algorithm, Encoding, PresetPart, PresetScheme, PresetSent, PresetSentAt, PresetSignature,
    Provider, SecretEncoding, Source, Unit, days,
};

/// The preset.
pub(super) const PRESET: Provider = Provider {
    name: "standard-webhooks",
    title: "Standard Webhooks",
    key: r#"headers["webhook-id"]"#,
    key_source: Source::Header("webhook-id"),
    signature: Some(PresetSignature {
        header: "webhook-signature",
        separator: Some(' '),
        schemes: &[
            PresetScheme {
                prefix: "v1,",
                algorithm: Algorithm::HmacSha256,
                encoding: Encoding::Base64,
                secret: SecretEncoding::Base64("whsec_"),
            },
            PresetScheme {
                prefix: "v1a,",
                algorithm: Algorithm::Ed25519,
                encoding: Encoding::Base64,
                secret: SecretEncoding::Base64("whpk_"),
            },
        ],
        signed: &[
            PresetPart::Id,
            PresetPart::Text("."),
            PresetPart::Sent,
            PresetPart::Text("."),
            PresetPart::Body,
        ],
        id_header: Some("webhook-id"),
        sent: Some(PresetSent {
            at: PresetSentAt::Header("webhook-timestamp"),
            unit: Unit::Seconds,
            tolerance: FIVE_MINUTES,
        }),
    }),
    covers_headers: &["webhook-id", "webhook-timestamp"],
    // The recommended schedule ends after a little more than three days; replays by hand are
    // encouraged and have no limit.
    redelivery: Some(days(7)),
    order: None,
    clock_fields: &[],
    challenge: None,
};
