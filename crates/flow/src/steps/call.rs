//! `call`: a run of another flow.

use semel_model::request::{LocalChange, RunStart};
use semel_model::{EffectId, FlowName, Guard};
use serde::Serialize;

use super::body::{Lowering, template};
use super::descriptor::{Docs, ResultOrigin, StepKind, no_link, waits_for_nobody};
use super::effect::{EffectKind, EffectRule, always, no_verb, transaction};
use super::{Action, ActionKind, FindConnection, ReleasedStep, RenderError, StepWork};
use crate::expr::{EvalError, Expr, Scope};
use crate::grammar::{FieldType, MapSchema, field};
use crate::shapes::{ValueKind, ValueShape, value};
use crate::template::Template;
use crate::tree::Record;
use crate::types::{Type, of_shape};

/// The kind.
pub(crate) static KIND: StepKind = StepKind {
    kind: ActionKind::Call,
    about: "Runs another flow.",
    summary: "a run of another flow",
    docs: Docs::Control,
    article: "a",
    takes: FieldType::Map(&SCHEMA),
    effect: Some(EffectRule {
        changes: always,
        verb: no_verb,
        effect_kind: |_| EffectKind::Create,
        guards: &[Guard::Transaction],
        default_guard: transaction,
        asks_connection: false,
        review_is_usual: false,
        commits_here: true,
    }),
    undoable: false,
    connection: &[],
    check: None,
    lower: |step| lower(step).map(Action::Call),
    response: result,
    result,
    takes_result: true,
    takes_external_id: true,
    origin: ResultOrigin::World,
    holds: None,
    pauses: false,
    shapes: &[&STARTED],
    ends_run: false,
    has_link: no_link,
    waits_for: waits_for_nobody,
};

static SCHEMA: MapSchema = MapSchema::new(
    ("`call`", "call"),
    "A run of another flow, under a key derived from this one.",
    &[
        field("flow", FieldType::FlowName, "The flow.").needed("other-flow"),
        field("input", FieldType::Value, "Its input."),
        field(
            "wait",
            FieldType::Truth,
            "Whether to wait for the run to end; its result is then this step's.",
        )
        .default("true"),
    ],
);

/// What a call that does not wait gives.
static STARTED: ValueShape = ValueShape {
    name: "call result without `wait`",
    about: "result of a `call` step with `wait: false`; otherwise the result is the other run's",
    fields: &[value("run", ValueKind::Text, "The run that was started.")],
};

/// The other run's result, which is that flow's to say; the run where nothing waits for it.
fn result(body: Option<&Record>) -> Type {
    match body.and_then(|body| body.truth("wait")) {
        Some(false) => of_shape(&STARTED),
        Some(true) | None => Type::Any,
    }
}

fn lower(step: &Lowering<'_>) -> Option<CallStep> {
    let body = step.body?;
    Some(CallStep {
        flow: body.text("flow")?.parse().ok()?,
        input: template(body, "input"),
        wait: body.truth("wait").unwrap_or(true),
    })
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

impl CallStep {
    /// The start that is asked for.
    fn render(&self, scope: &Scope<'_>) -> Result<RunStart, EvalError> {
        let input = self.input.as_ref().map(|input| input.render(scope));
        Ok(RunStart {
            flow: self.flow.clone(),
            input: input.transpose()?.unwrap_or_default(),
            wait: self.wait,
        })
    }
}

impl ReleasedStep for CallStep {
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
        Ok(StepWork::request(LocalChange::Start(self.render(scope)?)))
    }
}
