//! `foreach`: the same steps for each item of a list.

use semel_model::EffectId;
use serde::Serialize;

use super::body::Lowering;
use super::descriptor::{Docs, Holds, ResultOrigin, StepKind, no_link, waits_for_nobody};
use super::{Action, ActionKind, ControlStep, FindConnection, ReleasedStep, RenderError, StepWork};
use crate::expr::{Expr, Scope};
use crate::grammar::{FieldType, MapSchema, Place, field};
use crate::shapes::{ValueKind, ValueShape, value};
use crate::types::of_shape;

/// The kind.
pub(crate) static KIND: StepKind = StepKind {
    kind: ActionKind::Foreach,
    about: "Runs the same steps for each item of a list.",
    summary: "the same steps for each item of a list",
    docs: Docs::Control,
    article: "a",
    takes: FieldType::Map(&SCHEMA),
    effect: None,
    undoable: false,
    connection: &[],
    check: None,
    lower: |step| lower(step).map(Box::new).map(Action::Foreach),
    response: |_| of_shape(&RESULT),
    result: |_| of_shape(&RESULT),
    takes_result: false,
    takes_external_id: false,
    origin: ResultOrigin::Items,
    holds: Some(Holds::Items),
    pauses: false,
    shapes: &[&RESULT, &FAILURE],
    ends_run: false,
    has_link: no_link,
    waits_for: waits_for_nobody,
};

static SCHEMA: MapSchema = MapSchema::new(
    ("`foreach`", "foreach"),
    "The same steps for each item of a list.",
    &[
        field("in", FieldType::Expr(Place::Step), "The list.").needed("input.items"),
        field("as", FieldType::StepName, "The name of the item in expressions.").default("item"),
        field(
            "key",
            FieldType::Expr(Place::ItemKey),
            "What identifies an item, whatever its position in the list.",
        )
        .names_item(),
        field(
            "parallel",
            FieldType::Whole(1, 1_000),
            "How many items run at once.",
        )
        .default("1"),
        field(
            "on_error",
            FieldType::Word(&["stop", "continue", "collect"]),
            "If an item fails: start no more and fail; finish the others and succeed; or finish the others, then fail.",
        )
        .default("stop"),
        field("steps", FieldType::Steps, "The steps for each item.")
            .needed("[…]")
            .names_item(),
    ],
);

/// What came of a list.
static RESULT: ValueShape = ValueShape {
    name: "foreach result",
    about: "result of a `foreach` step",
    fields: &[
        value("count", ValueKind::Int, "The number of items."),
        value("succeeded", ValueKind::Int, "How many succeeded."),
        value(
            "failed",
            ValueKind::Int,
            "How many failed or were cancelled.",
        ),
        value(
            "results",
            ValueKind::List,
            "The result of each item's last step; null for more than 1,000 items or 64 KiB.",
        )
        .or_null(),
        value(
            "failures",
            ValueKind::ListOf(&FAILURE),
            "The first 20 that failed.",
        ),
    ],
};

static FAILURE: ValueShape = ValueShape {
    name: "failure of an item",
    about: "an item of `failures` of a `foreach` result",
    fields: &[
        value("index", ValueKind::Int, "Its position in the list."),
        value("key", ValueKind::Text, "Its key."),
        value("run", ValueKind::Text, "Its run."),
        value("code", ValueKind::Text, "The fault's code.").or_null(),
        value("message", ValueKind::Text, "The fault's message.").or_null(),
    ],
};

fn lower(step: &Lowering<'_>) -> Option<Foreach> {
    let body = step.body?;
    Some(Foreach {
        items: body.expr("in")?.expr.clone(),
        name: body.word("as").unwrap_or("item").to_owned(),
        key: body.expr("key").map(|placed| placed.expr.clone()),
        parallel: u32::try_from(body.whole("parallel").unwrap_or(1)).ok()?,
        on_error: match body.word("on_error") {
            Some("continue") => OnError::Continue,
            Some("collect") => OnError::Collect,
            Some(_) | None => OnError::Stop,
        },
        first: (step.first)(0),
    })
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
    /// What identifies an item; its place by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Expr>,
    /// How many items are active together.
    pub parallel: u32,
    /// What happens to the others where one fails.
    pub on_error: OnError,
    /// Where the steps of an item begin.
    pub first: Option<usize>,
}

/// What happens to the other items, and to the step, if one fails.
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

impl ReleasedStep for Foreach {
    fn exprs(&self) -> Vec<&Expr> {
        std::iter::once(&self.items).chain(&self.key).collect()
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
        Ok(StepWork::Control(ControlStep::Foreach(self)))
    }
}
