//! `task`: work for a program of your own.

use semel_model::request::TaskRequest;
use semel_model::{EffectId, Guard, Span};
use serde::Serialize;

use super::body::{Lowering, template};
use super::descriptor::{Docs, ResultOrigin, StepKind, anything, no_link};
use super::effect::{EffectKind, EffectRule, always, no_verb, review};
use super::{Action, ActionKind, FindConnection, ReleasedStep, RenderError, StepWork};
use crate::expr::{EvalError, Expr, Scope};
use crate::grammar::{FieldType, MapSchema, YEAR, field};
use crate::template::Template;

/// The kind.
pub(crate) static KIND: StepKind = StepKind {
    kind: ActionKind::Task,
    about: "Hands work to your own program.",
    summary: "work for your own program",
    docs: Docs::Page(include_str!("../../../../docs/steps/task.md")),
    article: "a",
    takes: FieldType::Map(&SCHEMA),
    effect: Some(EffectRule {
        changes: always,
        verb: no_verb,
        effect_kind: |_| EffectKind::Create,
        guards: &[
            Guard::Review,
            Guard::Key,
            Guard::Natural,
            Guard::Probe,
            Guard::Repeat,
        ],
        default_guard: review,
        asks_connection: false,
        review_is_usual: false,
        commits_here: false,
    }),
    undoable: false,
    connection: &[],
    check: None,
    lower: |step| lower(step).map(Box::new).map(Action::Task),
    response: anything,
    result: anything,
    takes_result: true,
    takes_external_id: true,
    origin: ResultOrigin::World,
    holds: None,
    pauses: false,
    shapes: &[],
    ends_run: false,
    has_link: no_link,
    waits_for: |_| Some(("a worker", "1h")),
};

static SCHEMA: MapSchema = MapSchema::new(
    ("`task`", "task"),
    "Work for your own program, in any language, which claims it from a queue.",
    &[
        field("queue", FieldType::Label, "The queue.").needed("resize"),
        field("input", FieldType::Value, "The input of the worker."),
        field(
            "within",
            FieldType::Span(1_000, YEAR),
            "The maximum time in total.",
        ),
        field(
            "lease",
            FieldType::Span(1_000, YEAR),
            "How long a worker may be silent before it counts as lost.",
        )
        .default("1m"),
    ],
);

fn lower(step: &Lowering<'_>) -> Option<TaskStep> {
    let body = step.body?;
    Some(TaskStep {
        queue: body.text("queue")?.to_owned(),
        input: template(body, "input"),
        lease: body.span_of("lease")?,
        within: body.span_of("within"),
    })
}

/// Work for a program outside.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskStep {
    /// The queue that workers take it from.
    pub queue: String,
    /// What the worker gets; null if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Template>,
    /// How long a worker may be silent.
    pub lease: Span,
    /// How long it may take in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<Span>,
}

impl TaskStep {
    /// The task with every hole evaluated. The engine sets its deadline when it opens the task.
    ///
    /// # Errors
    ///
    /// If a hole cannot be evaluated.
    pub fn render(&self, scope: &Scope<'_>) -> Result<TaskRequest, EvalError> {
        let input = self.input.as_ref().map(|it| it.render(scope));
        Ok(TaskRequest {
            queue: self.queue.clone(),
            input: input.transpose()?.unwrap_or_default(),
            lease: self.lease,
            until: None,
        })
    }
}

impl ReleasedStep for TaskStep {
    fn exprs(&self) -> Vec<&Expr> {
        self.input.iter().flat_map(Template::exprs).collect()
    }

    fn connection(&self) -> Option<&str> {
        None
    }

    fn work(
        &self,
        scope: &Scope<'_>,
        _: FindConnection<'_>,
        _: Option<EffectId>,
    ) -> Result<StepWork<'_>, RenderError> {
        Ok(StepWork::request(self.render(scope)?))
    }
}
