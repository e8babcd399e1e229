//! What a run is a part of, and the step whose parts are running.

use semel_model::{Fault, RunId};
use serde_json::Value;

/// What a run is a part of.
#[derive(Clone, Debug)]
pub struct Part {
    /// The run.
    pub parent: RunId,
    /// The step of that run.
    pub step: String,
    /// Its place among the parts of that step.
    pub index: u32,
    /// What expressions call the item, where it is one, and the item.
    pub item: Option<(String, Value)>,
    /// What is around it, from the outermost run to the nearest.
    pub around: Vec<Around>,
}

/// One run around a part, and where the part is in it.
#[derive(Clone, Debug)]
pub struct Around {
    /// The run.
    pub run: RunId,
    /// The step of it.
    pub step: String,
    /// The place among the parts of that step.
    pub index: u32,
}

/// A step whose parts are running.
#[derive(Clone, Debug, Default)]
pub struct Fan {
    /// How many parts there are, once all of them are recorded.
    pub count: Option<u32>,
    /// How many items had the key of an earlier one.
    pub repeats: u32,
    /// Why no further part begins, and whether those that run are asked to end.
    pub stopped: Option<(Option<Fault>, bool)>,
}
