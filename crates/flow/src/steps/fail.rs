//! `fail`: the end of a run, as failed.

use semel_model::EffectId;
use serde::Serialize;

use super::body::{Lowering, text};
use super::descriptor::{Docs, ResultOrigin, StepKind, anything, no_link, waits_for_nobody};
use super::{Action, ActionKind, ControlStep, FindConnection, ReleasedStep, RenderError, StepWork};
use crate::expr::{Expr, Scope};
use crate::grammar::{FieldType, MapSchema, field};
use crate::template::TextTemplate;

/// The kind.
pub(crate) static KIND: StepKind = StepKind {
    kind: ActionKind::Fail,
    about: "Ends the run as failed.",
    summary: "the end of a run, as failed",
    docs: Docs::Control,
    article: "a",
    takes: FieldType::Map(&SCHEMA),
    effect: None,
    undoable: false,
    connection: &[],
    check: None,
    lower: |step| lower(step).map(Action::Fail),
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

static SCHEMA: MapSchema = MapSchema::new(
    ("`fail`", "fail"),
    "Ends the run as failed.",
    &[
        field("code", FieldType::Label, "A stable code for programs.").default("failed"),
        field("message", FieldType::Holes, "The message for people.").needed("what went wrong"),
    ],
);

fn lower(step: &Lowering<'_>) -> Option<FailStep> {
    let body = step.body?;
    Some(FailStep {
        code: body.text("code").unwrap_or("failed").to_owned(),
        message: text(body, "message")?,
    })
}

/// The end of the run, as failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FailStep {
    /// A stable word for programs.
    pub code: String,
    /// What people read.
    pub message: TextTemplate,
}

impl ReleasedStep for FailStep {
    fn exprs(&self) -> Vec<&Expr> {
        self.message.exprs().collect()
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
        Ok(StepWork::Control(ControlStep::Fail(self)))
    }
}
