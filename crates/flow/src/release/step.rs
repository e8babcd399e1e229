//! Steps, checked.

use semel_model::{Guard, RetryPolicy, Span, StepId};
use serde::Serialize;

use super::http::HttpStep;
use super::kv::KvStep;
use crate::expr::Expr;

/// One step of a flow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// What its author calls it.
    pub id: StepId,
    /// The step is skipped where this is false.
    #[serde(rename = "if", skip_serializing_if = "Option::is_none")]
    pub condition: Option<Expr>,
    /// What it does.
    #[serde(flatten)]
    pub action: Action,
    /// How often a failed attempt is made again; the flow's policy where the step says nothing.
    pub retry: RetryPolicy,
}

impl Step {
    /// How its effect is made safe, where it has one.
    #[must_use]
    pub fn guard(&self) -> Option<Guard> {
        match &self.action {
            Action::Http(http) => http.guard.guard(),
            Action::Kv(kv) => kv.guard(),
            Action::Function(_) | Action::Wait(_) => None,
        }
    }
}

/// What a step does.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Sends one HTTP request.
    Http(Box<HttpStep>),
    /// Works out a value.
    Function(Expr),
    /// Reads or changes an entry of the namespace's key-value table.
    Kv(KvStep),
    /// Parks the run.
    Wait(Wait),
}

/// What a parked run waits for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// Time to pass.
    #[serde(rename = "for")]
    Timer(Span),
    /// A call to the wait's address; its payload is the step's result.
    Callback {
        /// After this long without a call the run fails.
        within: Span,
    },
}
