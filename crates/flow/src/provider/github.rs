//! GitHub's webhooks, of repositories, organisations and apps.

use super::{Encoding, PresetScheme, PresetSignature, Provider, Source, days};

/// The preset.
pub(super) const PRESET: Provider = Provider {
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
    challenge: None,
};
