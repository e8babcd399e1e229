//! The beginning of a child run.

use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::RunId;

/// A child run began: an item of a `foreach`, or a branch of a `parallel`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChildBegun {
    /// Its parent run.
    pub parent: RunId,
    /// The partition of that run's journal.
    pub partition_date: Date,
    /// The row of that journal up to which it knows what happened.
    pub seq: i32,
    /// The step of that run that it belongs to.
    pub step: String,
    /// Its place among the child runs of that step.
    pub index: u32,
    /// The item, where it is one.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub item: Value,
    /// The child run at the same place of the first run of the key, where this is a later one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<RunId>,
    /// The last child run at this place before this one, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<RunId>,
}
