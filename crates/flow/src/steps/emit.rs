//! `emit`: an event for other flows.

use semel_model::request::{Emission, LocalChange};
use semel_model::{EffectId, Guard};
use serde::Serialize;

use super::body::{BodyCheck, Lowering, template};
use super::descriptor::{Docs, ResultOrigin, StepKind, no_link, waits_for_nobody};
use super::effect::{EffectKind, EffectRule, always, no_verb, transaction};
use super::{Action, ActionKind, FindConnection, ReleasedStep, RenderError, StepWork};
use crate::diagnostic::Code;
use crate::expr::{EvalError, Expr, Scope};
use crate::grammar::{FieldType, MapSchema, field};
use crate::shapes::{ValueKind, ValueShape, value};
use crate::template::Template;
use crate::tree::Record;
use crate::types::of_shape;

/// The kind.
pub(crate) static KIND: StepKind = StepKind {
    kind: ActionKind::Emit,
    about: "Emits an event for other flows.",
    summary: "an event for other flows",
    docs: Docs::Page(include_str!("../../../../docs/steps/emit.md")),
    article: "an",
    takes: FieldType::Map(&SCHEMA),
    effect: Some(EffectRule {
        changes: always,
        verb: no_verb,
        effect_kind: |_| EffectKind::Notify,
        guards: &[Guard::Transaction],
        default_guard: transaction,
        asks_connection: false,
        review_is_usual: false,
        commits_here: true,
    }),
    undoable: true,
    connection: &[],
    check: Some(check),
    lower: |step| lower(step).map(Action::Emit),
    response: |_| of_shape(&RESULT),
    result: |_| of_shape(&RESULT),
    takes_result: false,
    takes_external_id: false,
    origin: ResultOrigin::World,
    holds: None,
    pauses: false,
    shapes: &[&RESULT],
    ends_run: false,
    has_link: no_link,
    waits_for: waits_for_nobody,
};

static SCHEMA: MapSchema = MapSchema::new(
    ("`emit`", "emit"),
    "An event that commits with the run and is dispatched under a delivery key.",
    &[
        field("event", FieldType::Text, "The event.").needed("order.paid"),
        field("data", FieldType::Value, "The data of the event."),
    ],
);

/// The result of an `emit` step.
static RESULT: ValueShape = ValueShape {
    name: "emit result",
    about: "result of an `emit` step",
    fields: &[value(
        "id",
        ValueKind::Text,
        "The event's id, which is the effect's.",
    )],
};

/// What the names of Semel's own events begin with.
const OWN_EVENTS: &str = "semel.";

/// An event that could be taken for one of Semel's own.
fn check(check: &mut BodyCheck<'_, '_>, body: &Record) {
    let name = body.text("event").unwrap_or_default();
    if let Some(other) = name.strip_prefix(OWN_EVENTS) {
        let message = "names that begin with `semel.` are for events that Semel itself emits";
        let help = format!("write another name, e.g. `{other}`");
        check.add(Code::WrongValue, body.value_span("event"), message, &help);
    }
}

fn lower(step: &Lowering<'_>) -> Option<EmitStep> {
    let body = step.body?;
    Some(EmitStep {
        event: body.text("event")?.to_owned(),
        data: template(body, "data"),
    })
}

/// An event for other flows and for subscribed webhooks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EmitStep {
    /// The event.
    pub event: String,
    /// What it carries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Template>,
}

impl EmitStep {
    /// The event with every hole evaluated.
    ///
    /// # Errors
    ///
    /// If a hole cannot be evaluated.
    pub fn render(&self, scope: &Scope<'_>) -> Result<Emission, EvalError> {
        let data = self.data.as_ref().map(|it| it.render(scope));
        Ok(Emission {
            event: self.event.clone(),
            data: data.transpose()?.unwrap_or_default(),
        })
    }
}

impl ReleasedStep for EmitStep {
    fn exprs(&self) -> Vec<&Expr> {
        self.data.iter().flat_map(Template::exprs).collect()
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
        Ok(StepWork::request(LocalChange::Emit(self.render(scope)?)))
    }
}
