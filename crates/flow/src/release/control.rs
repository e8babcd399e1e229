//! Steps that lead elsewhere: another way, several ways, another flow, the end.
//!
//! The steps of a flow are one row, those inside of others included. A step that holds others names
//! the place in the row where they begin; each of them knows what comes after it.

use semel_model::FlowName;
use semel_model::request::RunStart;
use serde::Serialize;
use serde_json::Value;

use crate::expr::{EvalError, Expr, Scope};
use crate::template::{Template, TextTemplate};

/// What comes after a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Follow {
    /// The next one in the row.
    #[default]
    Next,
    /// The one at this place.
    At(usize),
    /// Nothing: the list that it is in is over.
    End,
}

impl Follow {
    pub(super) fn is_next(&self) -> bool {
        *self == Self::Next
    }
}

/// One way of a switch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Case {
    /// Whether this is the way.
    pub when: Expr,
    /// Where it leads; nowhere, where the list that the switch is in is over behind it.
    pub to: Option<usize>,
}

/// One of several ways.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Switch {
    /// The ways, from the first to the last.
    pub cases: Vec<Case>,
    /// Where no case is true.
    pub otherwise: Option<usize>,
}

/// The same steps for each item of a list. Each item is a run of its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Foreach {
    /// The list: its items, or a resource that holds them.
    #[serde(rename = "in")]
    pub items: Expr,
    /// What expressions call the item.
    #[serde(rename = "as")]
    pub name: String,
    /// What tells one item from another; its place, where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Expr>,
    /// How many items are under way together.
    pub parallel: u32,
    /// What becomes of the others where one fails.
    pub on_error: OnError,
    /// Where the steps of an item begin.
    pub first: Option<usize>,
}

/// What becomes of the other items, and of the step, where one fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// No further item begins, and the step fails.
    Stop,
    /// All are tried, and the step succeeds.
    Continue,
    /// All are tried, and then the step fails; resuming tries again only those that failed.
    Collect,
}

/// Several ways together. Each branch is a run of its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parallel {
    /// Where each branch begins.
    pub branches: Vec<Option<usize>>,
    /// Which of them must end.
    pub join: Join,
}

/// Which branches must end before the run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Join {
    /// All of them.
    All,
    /// The first that succeeds; the others are cancelled.
    First,
}

/// A run of another flow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallStep {
    /// The flow.
    pub flow: FlowName,
    /// Its input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Template>,
    /// Whether to wait for its end.
    pub wait: bool,
}

/// The end of the run, as failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FailStep {
    /// A stable word for programs.
    pub code: String,
    /// What people read.
    pub message: TextTemplate,
}

impl CallStep {
    /// The start that is asked for.
    pub(super) fn render(&self, scope: &Scope<'_>) -> Result<RunStart, EvalError> {
        let input = match &self.input {
            Some(input) => input.render(scope)?,
            None => Value::Null,
        };
        Ok(RunStart {
            flow: self.flow.clone(),
            input,
            wait: self.wait,
        })
    }
}
