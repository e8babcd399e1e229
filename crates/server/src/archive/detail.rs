//! What a row says of a run: the run as the API shows it, and which items and branches it had. Each of those has
//! a row of its own, in the same file; the list is what finds them.

use semel_api::types::{ChildRun, RunDetail};
use semel_model::RunId;
use serde::{Deserialize, Serialize};

#[derive(Serialize)]
struct Written<'a> {
    #[serde(flatten)]
    detail: &'a RunDetail,
    #[serde(skip_serializing_if = "is_empty")]
    items: &'a [ChildRun],
}

fn is_empty(items: &&[ChildRun]) -> bool {
    items.is_empty()
}

/// A run and its items, as JSON. The caller leaves out the results of items: the row of each has its own.
pub(crate) fn write(detail: &RunDetail, items: &[ChildRun]) -> serde_json::Result<String> {
    serde_json::to_string(&Written { detail, items })
}

/// The part of it that lists items, and the run that it is about.
#[derive(Deserialize)]
pub(crate) struct ListedItems {
    /// The run.
    #[serde(rename = "run")]
    pub(crate) id: RunId,
    /// Its items and branches, in order.
    #[serde(default)]
    pub(crate) items: Vec<ChildRun>,
}

/// Reads which items a run had.
pub(crate) fn read_items(text: &str) -> serde_json::Result<ListedItems> {
    serde_json::from_str(text)
}
