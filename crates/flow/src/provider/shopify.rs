//! Shopify's webhooks over HTTPS.

use super::{Encoding, PresetOrder, PresetScheme, PresetSignature, Provider, Source, hours};

/// The preset.
pub(super) const PRESET: Provider = Provider {
    name: "shopify",
    title: "Shopify",
    key: r#"headers["x-shopify-webhook-id"]"#,
    key_source: Source::Header("x-shopify-webhook-id"),
    signature: Some(PresetSignature::over_body(
        "x-shopify-hmac-sha256",
        &[PresetScheme::sha256("", Encoding::Base64)],
    )),
    covers_headers: &[],
    // Four hours since September 2024, two days before.
    redelivery: Some(hours(48)),
    order: Some(PresetOrder {
        object: "input.id",
        version: "input.updated_at",
    }),
    clock_fields: &[],
    challenge: None,
};
