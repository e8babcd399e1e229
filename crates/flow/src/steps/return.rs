//! `return`: the end of a run, with a result.

use semel_model::EffectId;
use serde::Serialize;

use super::descriptor::{Docs, ResultOrigin, StepKind, anything, no_link, waits_for_nobody};
use super::{Action, ActionKind, ControlStep, FindConnection, ReleasedStep, RenderError, StepWork};
use crate::expr::{Expr, Scope};
use crate::grammar::{FieldType, Place};

/// The kind.
pub(crate) static KIND: StepKind = StepKind {
    kind: ActionKind::Return,
    about: "Ends the run with this result.",
    summary: "the end of a run, with a result",
    docs: Docs::Control,
    article: "a",
    takes: FieldType::Expr(Place::Step),
    effect: None,
    undoable: false,
    connection: &[],
    check: None,
    lower: |step| {
        let placed = step.step.expr("return")?;
        Some(Action::Return(ReturnStep(placed.expr.clone())))
    },
    response: anything,
    result: anything,
    takes_result: false,
    takes_external_id: false,
    origin: ResultOrigin::World,
    holds: None,
    pauses: false,
    shapes: &[],
    ends_run: true,
    has_link: no_link,
    waits_for: waits_for_nobody,
};

/// The result that a run ends with.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReturnStep(pub Expr);

impl ReleasedStep for ReturnStep {
    fn exprs(&self) -> Vec<&Expr> {
        vec![&self.0]
    }

    fn connection(&self) -> Option<&str> {
        None
    }

    fn work(
        &self,
        _: &Scope<'_>,
        _: FindConnection<'_>,
        _: Option<EffectId>,
    ) -> Result<StepWork<'_>, RenderError> {
        Ok(StepWork::Control(ControlStep::Return(self)))
    }
}
