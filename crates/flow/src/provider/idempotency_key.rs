//! A caller that sends `Idempotency-Key`.

use super::{Provider, Source, days};

/// The preset.
pub(super) const PRESET: Provider = Provider {
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
    challenge: None,
};
