//! `function`: a computed value.

use semel_model::EffectId;
use serde::Serialize;

use super::descriptor::{Docs, ResultOrigin, StepKind, anything, no_link, waits_for_nobody};
use super::{Action, ActionKind, ControlStep, FindConnection, ReleasedStep, RenderError, StepWork};
use crate::expr::{Expr, Scope};
use crate::grammar::{FieldType, Place};

/// The kind.
pub(crate) static KIND: StepKind = StepKind {
    kind: ActionKind::Function,
    about: "Computes a value.",
    summary: "a computed value",
    docs: Docs::Page(include_str!("../../../../docs/steps/function.md")),
    article: "a",
    takes: FieldType::Expr(Place::Step),
    effect: None,
    undoable: false,
    connection: &[],
    check: None,
    lower: |step| {
        let placed = step.step.expr("function")?;
        Some(Action::Function(FunctionStep(placed.expr.clone())))
    },
    response: anything,
    result: anything,
    takes_result: false,
    takes_external_id: false,
    origin: ResultOrigin::Expression,
    holds: None,
    pauses: false,
    shapes: &[],
    ends_run: false,
    has_link: no_link,
    waits_for: waits_for_nobody,
};

/// The expression that a step computes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FunctionStep(pub Expr);

impl ReleasedStep for FunctionStep {
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
        Ok(StepWork::Control(ControlStep::Function(self)))
    }
}
