//! Sources that sell: Stripe and Shopify.

use super::signature::FIVE_MINUTES;
use super::{
    Encoding, PresetOrder, PresetPart, PresetScheme, PresetSent, PresetSentAt, PresetSignature,
    Provider, Source, Unit,
};
use super::{days, hours};

/// Stripe's events, as snapshots.
pub(super) const STRIPE: Provider = Provider {
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
};

/// Shopify's webhooks over HTTPS.
pub(super) const SHOPIFY: Provider = Provider {
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
};
