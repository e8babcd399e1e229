//! How things look to people: tables of runs and effects, and a run's timeline.

pub(crate) mod effect;
pub(crate) mod resource;
pub(crate) mod run;
pub(crate) mod timeline;

use jiff::Timestamp;
use serde_json::Value;

use crate::text::{ago, printable, shortened};

/// The most characters of a value that a line shows.
const VALUE_CHARS_MAX: usize = 100;

/// A value on one line.
pub(crate) fn value(value: &Value) -> String {
    printable(&shortened(&value.to_string(), VALUE_CHARS_MAX))
}

/// An instant that may not have come.
pub(crate) fn maybe_ago(at: Option<Timestamp>) -> String {
    at.map_or_else(|| "-".to_owned(), ago)
}
