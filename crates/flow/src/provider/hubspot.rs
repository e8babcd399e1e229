//! HubSpot's webhooks API: one delivery carries up to a hundred events.

use super::signature::FIVE_MINUTES;
use super::{
    Encoding, PresetPart, PresetScheme, PresetSent, PresetSentAt, PresetSignature, Provider,
    Source, Unit, days,
};

/// The preset.
pub(super) const PRESET: Provider = Provider {
    name: "hubspot",
    title: "HubSpot",
    // An event's id alone is not guaranteed to be unique. `occurredAt` is when the change was made,
    // which no retry alters.
    key: concat!(
        r#"fingerprint(input.map(event, string(event.portalId) + "/" + "#,
        r#"string(event.subscriptionId) + "/" + string(event.eventId) + "/" + "#,
        r#"string(default(event.objectId, 0)) + "/" + string(event.occurredAt)))"#,
    ),
    key_source: Source::Body,
    signature: Some(PresetSignature {
        header: "x-hubspot-signature-v3",
        separator: None,
        schemes: &[PresetScheme::sha256("", Encoding::Base64)],
        signed: &[
            PresetPart::Method,
            PresetPart::UrlDecoded,
            PresetPart::Body,
            PresetPart::Sent,
        ],
        id_header: None,
        sent: Some(PresetSent {
            at: PresetSentAt::Header("x-hubspot-request-timestamp"),
            unit: Unit::Millis,
            tolerance: FIVE_MINUTES,
        }),
    }),
    covers_headers: &["x-hubspot-request-timestamp"],
    // Ten retries over a day are documented; other pages speak of three days.
    redelivery: Some(days(3)),
    // One delivery is about many objects.
    order: None,
    clock_fields: &["*.attemptNumber"],
    challenge: None,
};
