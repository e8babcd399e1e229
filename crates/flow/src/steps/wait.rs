//! `wait`: a durable pause.

mod topic;

pub use topic::EventTopic;

use semel_model::{EffectId, Span};
use serde::Serialize;

use super::body::{BodyCheck, Lowering};
use super::descriptor::{Docs, ResultOrigin, StepKind, anything};
use super::{Action, ActionKind, ControlStep, FindConnection, ReleasedStep, RenderError, StepWork};
use crate::diagnostic::Code;
use crate::expr::{Expr, Scope};
use crate::grammar::{Field, FieldType, MapSchema, OneOf, Place, YEAR, field};
use crate::tree::Record;

/// The kind.
pub(crate) static KIND: StepKind = StepKind {
    kind: ActionKind::Wait,
    about: "Pauses the run.",
    summary: "a durable pause",
    docs: Docs::Page(include_str!("../../../../docs/steps/wait.md")),
    article: "a",
    takes: FieldType::Map(&SCHEMA),
    effect: None,
    undoable: false,
    connection: &[],
    check: Some(check),
    lower: |step| lower(step).map(Action::Wait),
    response: anything,
    result: anything,
    takes_result: false,
    takes_external_id: false,
    origin: ResultOrigin::World,
    holds: None,
    pauses: true,
    shapes: &[],
    ends_run: false,
    has_link: |body| body.has("callback"),
    waits_for,
};

static SCHEMA: MapSchema = MapSchema::new(("`wait`", "wait"), "A durable pause.", WAIT_FIELDS)
    .one_of(&OneOf {
        fields: &["for", "until", "callback", "event"],
        none: (
            "`wait` does not say what to wait for",
            "write `for: 1h`, or `callback: true` and `within: 7d`",
        ),
        many: (
            "a step waits for one thing: a time, a callback or an event",
            "split it into two steps",
        ),
    });

const WAIT_FIELDS: &[Field] = &[
    field("for", FieldType::Span(1, YEAR), "The duration."),
    field(
        "until",
        FieldType::Expr(Place::Step),
        "A point in time, as RFC 3339 text.",
    ),
    field(
        "callback",
        FieldType::Truth,
        "Waits for a call to `waits.ID.url`; its payload is the step's result.",
    ),
    field(
        "event",
        FieldType::Text,
        "Waits for an event of that name; its data is the step's result.",
    ),
    field(
        "match",
        FieldType::Condition(Place::Event),
        "Which event to wait for, from `event`.",
    ),
    field(
        "within",
        FieldType::Span(1, YEAR),
        "The maximum time to wait for a callback or an event.",
    ),
    field(
        "on_timeout",
        FieldType::Word(&["fail", "continue"]),
        "What happens if nothing arrives in time; with `continue`, the result is null.",
    )
    .default("fail"),
];

fn waits_for(body: &Record) -> Option<(&'static str, &'static str)> {
    if body.has("callback") {
        Some(("a callback", "7d"))
    } else if body.has("event") {
        Some(("an event", "7d"))
    } else {
        None
    }
}

fn check(check: &mut BodyCheck<'_, '_>, body: &Record) {
    if body.truth("callback") == Some(false) {
        let help = "write `callback: true`, or `for: 1h`";
        let span = body.value_span("callback");
        check.add(Code::WrongValue, span, "`callback` can only be true", help);
    }
    let timed = body.has("for") || body.has("until");
    for field in ["within", "on_timeout"] {
        if timed && body.has(field) && !body.has("callback") && !body.has("event") {
            let message = format!("`{field}` is only for a callback or an event");
            let help = "leave it out: the wait ends by itself";
            check.add(Code::FieldConflict, body.name_span(field), &message, help);
        }
    }
    if body.has("match") && !body.has("event") {
        let span = body.name_span("match");
        let message = "`match` is only for an event";
        check.add(Code::FieldConflict, span, message, "leave it out");
    }
}

fn lower(step: &Lowering<'_>) -> Option<WaitStep> {
    let body = step.body?;
    let goes_on = body.word("on_timeout") == Some("continue");
    let within = body.span_of("within");
    match body.which(&["for", "until", "event", "callback"])? {
        "for" => Some(WaitStep::Timer(body.span_of("for")?)),
        "until" => Some(WaitStep::Until(body.expr("until")?.expr.clone())),
        "event" => {
            let matching = body.expr("match").map(|placed| placed.expr.clone());
            Some(WaitStep::Event {
                name: body.text("event")?.to_owned(),
                topic: matching.as_ref().and_then(EventTopic::of),
                matching,
                within,
                goes_on,
            })
        }
        "callback" => Some(WaitStep::Callback {
            within: within?,
            goes_on,
        }),
        _ => None,
    }
}

/// What a sleeping run waits for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitStep {
    /// Time to pass.
    #[serde(rename = "for")]
    Timer(Span),
    /// A call to the wait's address; its payload is the step's result.
    Callback {
        /// How long at the most.
        within: Span,
        /// Whether the run continues if no call came in time; it fails otherwise.
        #[serde(skip_serializing_if = "is_false")]
        goes_on: bool,
    },
    /// A point in time.
    Until(Expr),
    /// An event of this name; its data is the step's result.
    Event {
        /// The event.
        name: String,
        /// Which one is meant, over `event`.
        #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
        matching: Option<Expr>,
        /// What that one is found by.
        #[serde(skip)]
        topic: Option<EventTopic>,
        /// How long at the most.
        #[serde(skip_serializing_if = "Option::is_none")]
        within: Option<Span>,
        /// Whether the run continues if none came in time; it fails otherwise.
        #[serde(skip_serializing_if = "is_false")]
        goes_on: bool,
    },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_false(truth: &bool) -> bool {
    !truth
}

impl ReleasedStep for WaitStep {
    fn exprs(&self) -> Vec<&Expr> {
        match self {
            Self::Until(at) => vec![at],
            Self::Event { matching, .. } => matching.iter().collect(),
            Self::Timer(_) | Self::Callback { .. } => Vec::new(),
        }
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
        Ok(StepWork::Control(ControlStep::Wait(self)))
    }
}
