//! CloudEvents 1.0 in structured mode: the envelope is the body.

use super::{Challenge, Provider, Source, days};

/// The preset.
pub(super) const PRESET: Provider = Provider {
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
    challenge: Some(Challenge::RequestOrigin),
};
