//! `switch`: one of several branches.

use semel_model::EffectId;
use serde::Serialize;

use super::body::Lowering;
use super::descriptor::{Docs, Holds, ResultOrigin, StepKind, anything, no_link, waits_for_nobody};
use super::{Action, ActionKind, ControlStep, FindConnection, ReleasedStep, RenderError, StepWork};
use crate::expr::{Expr, Scope};
use crate::grammar::{FieldType, MapSchema, Place, field};

/// The kind.
pub(crate) static KIND: StepKind = StepKind {
    kind: ActionKind::Switch,
    about: "Runs the steps of one of several cases.",
    summary: "one of several cases",
    docs: Docs::Control,
    article: "a",
    takes: FieldType::Map(&SCHEMA),
    effect: None,
    undoable: false,
    connection: &[],
    check: None,
    lower: |step| lower(step).map(Action::Switch),
    response: anything,
    result: anything,
    takes_result: false,
    takes_external_id: false,
    origin: ResultOrigin::World,
    holds: Some(Holds::OneList),
    pauses: false,
    shapes: &[],
    ends_run: false,
    has_link: no_link,
    waits_for: waits_for_nobody,
};

static SCHEMA: MapSchema = MapSchema::new(
    ("`switch`", "switch"),
    "The steps of the first case that is true.",
    &[
        field("cases", FieldType::Maps(&CASE), "The cases, in order.")
            .needed("[{ when: …, steps: […] }]"),
        field("default", FieldType::Steps, "The steps if no case is true."),
    ],
);

static CASE: MapSchema = MapSchema::new(
    ("a case", "case"),
    "One case of a `switch`.",
    &[
        field(
            "when",
            FieldType::Condition(Place::Step),
            "Whether to take this case.",
        )
        .needed("input.kind == \"a\""),
        field("steps", FieldType::Steps, "The steps of the case.").needed("[…]"),
    ],
);

/// The lists are those of the cases, and behind them that of `default`.
fn lower(step: &Lowering<'_>) -> Option<Switch> {
    let body = step.body?;
    let to = |list| (step.first)(list).or(step.after);
    let cases = body.maps("cases").enumerate().map(|(list, case)| {
        let when = case.expr("when")?.expr.clone();
        Some(Case { when, to: to(list) })
    });
    Some(Switch {
        cases: cases.collect::<Option<_>>()?,
        otherwise: to(body.maps("cases").count()),
    })
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

impl ReleasedStep for Switch {
    fn exprs(&self) -> Vec<&Expr> {
        self.cases.iter().map(|case| &case.when).collect()
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
        Ok(StepWork::Control(ControlStep::Switch(self)))
    }
}
