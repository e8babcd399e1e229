//! Sources that collect people: Typeform and HubSpot.

use super::signature::FIVE_MINUTES;
use super::{
    Encoding, PresetPart, PresetScheme, PresetSent, PresetSentAt, PresetSignature, Provider,
    Source, Unit, days,
};

/// Typeform's webhooks.
pub(super) const TYPEFORM: Provider = Provider {
    name: "typeform",
    title: "Typeform",
    // The token names the submission. A partial one has the same token and another type.
    key: r#"input.event_type + "/" + input.form_response.token"#,
    key_source: Source::Body,
    signature: Some(PresetSignature::over_body(
        "typeform-signature",
        &[PresetScheme::sha256("sha256=", Encoding::Base64)],
    )),
    covers_headers: &[],
    // Its retries end within hours; a person can send a delivery again later.
    redelivery: Some(days(3)),
    order: None,
    clock_fields: &[],
};

/// HubSpot's webhooks API: one delivery carries up to a hundred events.
pub(super) const HUBSPOT: Provider = Provider {
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
};
