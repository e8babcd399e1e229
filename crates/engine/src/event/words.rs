//! Words that the sentences of several events share.

use jiff::Timestamp;
use semel_model::{Fault, Resource};
use serde::Deserialize as _;
use serde_json::Value;

/// The most characters of a value that a sentence shows.
const VALUE_CHARS_MAX: usize = 100;

/// A value on one line. One that is kept by reference is shown by its name, size and type.
pub(super) fn value(value: &Value) -> String {
    match Resource::deserialize(value) {
        Ok(kept) => format!(
            "{} ({} bytes of {})",
            kept.resource, kept.bytes, kept.media_type
        ),
        Err(_) => shortened(&value.to_string()),
    }
}

/// The beginning of a text, with a mark where some was left out.
fn shortened(text: &str) -> String {
    if text.chars().nth(VALUE_CHARS_MAX).is_none() {
        return text.to_owned();
    }
    let kept: String = text.chars().take(VALUE_CHARS_MAX - 1).collect();
    kept + "…"
}

/// A fault: its code, and what happened.
pub(super) fn fault(fault: &Fault) -> String {
    format!("({}): {}", fault.code, fault.message)
}

/// When the next try is.
pub(super) fn retry(retry_at: Option<Timestamp>) -> String {
    match retry_at {
        Some(at) => format!("; retry at {at}"),
        None => "; no retry".to_owned(),
    }
}

/// Until when, where there is an end.
pub(super) fn until(until: Option<Timestamp>) -> String {
    until.map_or_else(String::new, |at| format!(", until {at}"))
}
