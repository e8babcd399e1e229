//! Typeform's webhooks.

use super::{Encoding, PresetScheme, PresetSignature, Provider, Source, days};

/// The preset.
pub(super) const PRESET: Provider = Provider {
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
    challenge: None,
};
