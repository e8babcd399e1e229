//! What the engine does for a step: a request, or a move of the run itself.

use semel_model::request::StepRequest;

use super::{
    ApprovalStep, FailStep, Foreach, FunctionStep, Parallel, ReturnStep, Switch, WaitStep,
};

/// What the engine does for a step.
#[derive(Clone, Debug, PartialEq)]
pub enum StepWork<'a> {
    /// The step asks for this, with every hole worked out.
    Request(Box<StepRequest>),
    /// The run itself moves: nothing is asked of anything outside it.
    Control(ControlStep<'a>),
}

/// A step that moves the run itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ControlStep<'a> {
    /// Works out a value.
    Function(&'a FunctionStep),
    /// Pauses the run.
    Wait(&'a WaitStep),
    /// Asks people.
    Approval(&'a ApprovalStep),
    /// Takes one of several branches.
    Switch(&'a Switch),
    /// Does the same for each item of a list.
    Foreach(&'a Foreach),
    /// Runs several branches together.
    Parallel(&'a Parallel),
    /// Ends the run as failed.
    Fail(&'a FailStep),
    /// Ends the run with this result.
    Return(&'a ReturnStep),
}

impl StepWork<'_> {
    /// A request of any destiny.
    pub(super) fn request(request: impl Into<StepRequest>) -> Self {
        Self::Request(Box::new(request.into()))
    }
}
