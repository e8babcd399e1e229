//! How things look to people: tables of runs and effects, and a run's timeline.

pub(crate) mod approval;
pub(crate) mod child_run;
pub(crate) mod delivery;
pub(crate) mod duplicate;
pub(crate) mod effect;
pub(crate) mod entry;
pub(crate) mod once;
pub(crate) mod pause;
pub(crate) mod reconcile;
pub(crate) mod replay;
pub(crate) mod replay_plan;
pub(crate) mod resource;
pub(crate) mod run;
pub(crate) mod schedule;
pub(crate) mod task;
pub(crate) mod timeline;

use jiff::Timestamp;
use semel_model::Resource;
use serde_json::Value;

use crate::text::{ago, printable, shortened};

/// The most characters of a value that a line shows.
const VALUE_CHARS_MAX: usize = 100;

/// How much of a value is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// What fits a line, with a mark where some was left out.
    Line,
    /// All of it.
    Whole,
}

impl Extent {
    /// What `--full` asks for.
    pub(crate) const fn of(full: bool) -> Self {
        match full {
            true => Self::Whole,
            false => Self::Line,
        }
    }
}

/// A value, as much of it as is wanted; where some was left out, it is said how to see it.
pub(crate) fn shown(of: &Value, extent: Extent) -> String {
    match extent {
        Extent::Whole => printable(&of.to_string()),
        Extent::Line => {
            let line = value(of);
            match line.ends_with('…') {
                true => format!("{line} (--full shows all of it)"),
                false => line,
            }
        }
    }
}

/// A fault as its code and message, or whatever it is.
pub(crate) fn fault_text(fault: &Value) -> String {
    match (fault["code"].as_str(), fault["message"].as_str()) {
        (Some(code), Some(message)) => printable(&format!("{code}: {message}")),
        _ => value(fault),
    }
}

/// A value on one line. One that is kept elsewhere is shown by its name, size and type.
pub(crate) fn value(value: &Value) -> String {
    match serde_json::from_value::<Resource>(value.clone()) {
        Ok(kept) => format!(
            "{} ({} bytes of {})",
            kept.resource,
            kept.bytes,
            printable(&kept.media_type)
        ),
        Err(_) => printable(&shortened(&value.to_string(), VALUE_CHARS_MAX)),
    }
}

/// An instant that may not have come.
pub(crate) fn maybe_ago(at: Option<Timestamp>) -> String {
    at.map_or_else(|| "-".to_owned(), ago)
}
