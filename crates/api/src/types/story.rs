//! What was done under a key: the one answer that pages, commands and messages give.

use jiff::Timestamp;
use semel_model::{NamedEffectState, RunId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// What was done under a key, each change once, by what is true of it now: in runs, branches and items, under
/// business keys, and by `semel once`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyStory {
    /// By step, in the order in which they began.
    pub steps: Vec<StepStory>,
    /// The named effects whose key it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<NameStory>,
    /// Whether nothing is left out. Otherwise there is more than is counted, or a part of the history was
    /// deleted, and every count is a least one.
    pub is_whole: bool,
}

/// What became of the changes that were meant at one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StepStory {
    /// The step's path.
    pub step: String,
    /// The kind of step, e.g. http.
    pub kind: String,
    /// Whether it is a step of items or branches.
    pub in_children: bool,
    /// How many changes, by what is true of them now.
    pub counts: StoryCounts,
    /// What destinations call what was made or found, the first three.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub external_ids: Vec<String>,
    /// The runs that performed it, the first three.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<schema::RunId>)]
    pub runs: Vec<RunId>,
    /// The holders of business keys that had made it already, the first three: runs, or processes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub met_by: Vec<String>,
    /// When the first of the changes was meant.
    pub first_at: Timestamp,
    /// When the latest of them was meant.
    pub last_at: Timestamp,
}

/// Changes by what is true of them now. What was performed is in one of `done`, `undone`, `undo_in_doubt` and
/// `undo_under_way`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoryCounts {
    /// Performed, and stands.
    pub done: u64,
    /// Performed, and undone.
    pub undone: u64,
    /// Performed; whether it was undone is unknown.
    pub undo_in_doubt: u64,
    /// Performed, and being undone.
    pub undo_under_way: u64,
    /// Of those that stand: undoing it was tried, and did not happen.
    pub undo_not_done: u64,
    /// Another holder of its business key had made it: nothing was sent.
    pub met: u64,
    /// It was at its destination before: nothing was sent.
    pub found: u64,
    /// Whether it happened is unknown.
    pub in_doubt: u64,
    /// Not settled yet.
    pub under_way: u64,
    /// Known not to have happened.
    pub not_done: u64,
    /// In how many runs, items and branches it was performed; the later runs of a key count as one. More
    /// performed changes than that are a second time.
    pub places: u64,
}

/// What is true of a named effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NameStory {
    /// Its scope: `shared`, `once/NAME`, `flow/NAME` or `flow/NAME/STEP`.
    pub scope: String,
    /// Its state.
    #[schema(value_type = schema::NamedEffectState)]
    pub state: NamedEffectState,
    /// Its latest holder, where that is a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::RunId>)]
    pub run: Option<RunId>,
    /// Its latest holder, where that is a process: host and process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder_name: Option<String>,
    /// What the destination calls what was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
    /// How many others asked for it and got its result.
    pub reuse_count: u32,
}

impl StoryCounts {
    /// How many changes were performed, whatever became of them.
    #[must_use]
    pub fn performed(&self) -> u64 {
        self.done + self.undone + self.undo_in_doubt + self.undo_under_way
    }

    /// How many are unknown: whether they happened, or whether they were undone.
    #[must_use]
    pub fn doubts(&self) -> u64 {
        self.in_doubt + self.undo_in_doubt
    }
}

impl KeyStory {
    /// Whether anything of it is in doubt.
    #[must_use]
    pub fn is_in_doubt(&self) -> bool {
        let in_doubt = NamedEffectState::InDoubt;
        self.steps.iter().any(|step| step.counts.doubts() > 0)
            || self.names.iter().any(|name| name.state == in_doubt)
    }
}
