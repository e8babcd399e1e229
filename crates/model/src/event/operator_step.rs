//! One step that an operator has performed after the end of its run.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::outcome::Fault;
use crate::run::EndState;

/// An operator has one done effect of an ended run undone or performed again. The run then ends as
/// it had ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperatorStep {
    /// What is done.
    pub verb: StepVerb,
    /// The step whose effect it is.
    pub step: String,
    /// Who asked for it.
    pub by: String,
    /// Why, in the operator's words.
    pub reason: String,
    /// How the run had ended.
    pub state: EndState,
    /// Its result, where it had succeeded.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub result: Value,
    /// What was wrong, where it had not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
}

/// What an operator has done with one effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepVerb {
    /// What the step declares under `undo` is performed.
    Undo,
    /// The effect is performed again, under a new key.
    Redo,
}

impl StepVerb {
    /// The verb, as commands spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Undo => "undo",
            Self::Redo => "redo",
        }
    }
}
