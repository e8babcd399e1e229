//! `parallel`: several branches together.

use semel_model::EffectId;
use serde::Serialize;

use super::body::Lowering;
use super::descriptor::{Docs, Holds, ResultOrigin, StepKind, anything, no_link, waits_for_nobody};
use super::{Action, ActionKind, ControlStep, FindConnection, ReleasedStep, RenderError, StepWork};
use crate::expr::{Expr, Scope};
use crate::grammar::{FieldType, MapSchema, field};

/// The kind.
pub(crate) static KIND: StepKind = StepKind {
    kind: ActionKind::Parallel,
    about: "Runs branches at the same time.",
    summary: "branches at the same time",
    docs: Docs::Control,
    article: "a",
    takes: FieldType::Map(&SCHEMA),
    effect: None,
    undoable: false,
    connection: &[],
    check: None,
    lower: |step| lower(step).map(Action::Parallel),
    response: anything,
    result: anything,
    takes_result: false,
    takes_external_id: false,
    origin: ResultOrigin::World,
    holds: Some(Holds::Branches),
    pauses: false,
    shapes: &[],
    ends_run: false,
    has_link: no_link,
    waits_for: waits_for_nobody,
};

static SCHEMA: MapSchema = MapSchema::new(
    ("`parallel`", "parallel"),
    "Branches that run at the same time.",
    &[
        field("branches", FieldType::Maps(&BRANCH), "The branches.").needed("[{ steps: […] }]"),
        field(
            "join",
            FieldType::Word(&["all", "first"]),
            "Which branches must end: all, or the first that succeeds, which cancels the others.",
        )
        .default("all"),
    ],
);

static BRANCH: MapSchema = MapSchema::new(
    ("a branch", "branch"),
    "One branch.",
    &[field("steps", FieldType::Steps, "The steps of the branch.").needed("[…]")],
);

fn lower(step: &Lowering<'_>) -> Option<Parallel> {
    let body = step.body?;
    let lists = 0..body.maps("branches").count();
    Some(Parallel {
        branches: lists.map(step.first).collect(),
        join: match body.word("join") {
            Some("first") => Join::First,
            Some(_) | None => Join::All,
        },
    })
}

/// Several ways together. Each branch is a run of its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parallel {
    /// Where each branch begins.
    pub branches: Vec<Option<usize>>,
    /// Which of them must end.
    pub join: Join,
}

/// Which branches must end before the run continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Join {
    /// All of them.
    All,
    /// The first that succeeds; the others are cancelled.
    First,
}

impl ReleasedStep for Parallel {
    fn exprs(&self) -> Vec<&Expr> {
        Vec::new()
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
        Ok(StepWork::Control(ControlStep::Parallel(self)))
    }
}
