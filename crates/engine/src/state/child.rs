//! The place of a child run in its parent, and the step whose child runs are running.

use semel_model::{Fault, RunId};
use serde_json::Value;

/// The place of a child run in its parent.
#[derive(Clone, Debug)]
pub struct ChildPosition {
    /// The run.
    pub parent: RunId,
    /// The step of that run.
    pub step: String,
    /// Its place among the child runs of that step.
    pub index: u32,
    /// What expressions call the item, where it is one, and the item.
    pub item: Option<(String, Value)>,
    /// Its ancestors, from the outermost run to the nearest.
    pub around: Vec<EnclosingRun>,
}

/// One ancestor of a child run, and the child's place in it.
#[derive(Clone, Debug)]
pub struct EnclosingRun {
    /// The run.
    pub run: RunId,
    /// The run at the same place of the first run of the key.
    pub first: RunId,
    /// The step of it.
    pub step: String,
    /// The place among the child runs of that step.
    pub index: u32,
}

/// A step whose child runs are running.
#[derive(Clone, Debug, Default)]
pub struct Fan {
    /// How many child runs there are, once all of them are recorded.
    pub count: Option<u32>,
    /// How many items had the key of an earlier one.
    pub repeats: u32,
    /// Why no further child run begins, and whether those that have begun are asked to end.
    pub stopped: Option<(Option<Fault>, bool)>,
}
