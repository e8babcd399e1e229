//! Conventions that many sources follow: Standard Webhooks, CloudEvents and `Idempotency-Key`.

use super::signature::FIVE_MINUTES;
use super::{
    Algorithm, Encoding, PresetPart, PresetScheme, PresetSent, PresetSentAt, PresetSignature,
    Provider, SecretEncoding, Source, Unit, days,
};

/// Standard Webhooks 1.0.
pub(super) const STANDARD_WEBHOOKS: Provider = Provider {
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
};

/// CloudEvents 1.0 in structured mode: the envelope is the body.
pub(super) const CLOUDEVENTS: Provider = Provider {
    name: "cloudevents",
    title: "CloudEvents",
    // A source is a URI reference, which holds no space: the two parts cannot run together.
    key: r#"input.source + " " + input.id"#,
    key_source: Source::Body,
    signature: None,
    covers_headers: &[],
    // Nothing is said of it.
    redelivery: Some(days(7)),
    order: None,
    clock_fields: &[],
};

/// A caller that sends `Idempotency-Key`.
pub(super) const IDEMPOTENCY_KEY: Provider = Provider {
    name: "idempotency-key",
    title: "Idempotency-Key",
    key: r#"headers["idempotency-key"]"#,
    key_source: Source::Header("idempotency-key"),
    signature: None,
    covers_headers: &[],
    // The caller decides for how long it repeats itself; a day is the custom.
    redelivery: Some(days(1)),
    order: None,
    clock_fields: &[],
};
