//! `persist`: a value that is kept by reference.

use semel_model::request::{LocalChange, PersistRequest};
use semel_model::{EffectId, Guard, Span};
use serde::Serialize;

use super::body::{Lowering, template, text};
use super::descriptor::{Docs, ResultOrigin, StepKind, no_link, waits_for_nobody};
use super::effect::{EffectKind, EffectRule, always, no_verb, transaction};
use super::{Action, ActionKind, FindConnection, ReleasedStep, RenderError, StepWork};
use crate::expr::{EvalError, Expr, Scope};
use crate::grammar::{FieldType, MINUTE, MapSchema, YEAR, field};
use crate::shapes::RESOURCE;
use crate::template::{Template, TextTemplate};
use crate::types::of_shape;

/// The kind.
pub(crate) static KIND: StepKind = StepKind {
    kind: ActionKind::Persist,
    about: "Stores a large value by reference.",
    summary: "a large value, stored by reference",
    docs: Docs::Page(include_str!("../../../../docs/steps/persist.md")),
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
        commits_here: false,
    }),
    undoable: false,
    connection: &[],
    check: None,
    lower: |step| lower(step).map(Box::new).map(Action::Persist),
    response: |_| of_shape(&RESOURCE),
    result: |_| of_shape(&RESOURCE),
    takes_result: false,
    takes_external_id: false,
    origin: ResultOrigin::World,
    holds: None,
    pauses: false,
    shapes: &[&RESOURCE],
    ends_run: false,
    has_link: no_link,
    waits_for: waits_for_nobody,
};

static SCHEMA: MapSchema = MapSchema::new(
    ("`persist`", "persist"),
    "A value stored by reference, as `res://…`.",
    &[
        field("value", FieldType::Value, "The value.").needed("\"${{ steps.a.result }}\""),
        field("name", FieldType::Holes, "A name for people."),
        field("type", FieldType::Text, "Its media type.").default("application/json"),
        field(
            "keep",
            FieldType::Span(MINUTE, YEAR),
            "How long Semel keeps it.",
        )
        .default("30d"),
    ],
);

fn lower(step: &Lowering<'_>) -> Option<PersistStep> {
    let body = step.body?;
    Some(PersistStep {
        value: template(body, "value")?,
        name: text(body, "name"),
        media_type: body.word("type")?.to_owned(),
        keep: body.span_of("keep")?,
    })
}

/// A value that is kept by reference.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PersistStep {
    /// The value.
    pub value: Template,
    /// Its name, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<TextTemplate>,
    /// Its media type.
    #[serde(rename = "type")]
    pub media_type: String,
    /// How long it is kept.
    pub keep: Span,
}

impl PersistStep {
    /// The value with every hole evaluated.
    ///
    /// # Errors
    ///
    /// If a hole cannot be evaluated.
    pub fn render(&self, scope: &Scope<'_>) -> Result<PersistRequest, EvalError> {
        let name = self.name.as_ref().map(|it| it.render(scope));
        Ok(PersistRequest {
            value: self.value.render(scope)?,
            name: name.transpose()?,
            media_type: self.media_type.clone(),
            keep: self.keep,
        })
    }
}

impl ReleasedStep for PersistStep {
    fn exprs(&self) -> Vec<&Expr> {
        let mut exprs: Vec<&Expr> = self.value.exprs();
        exprs.extend(self.name.iter().flat_map(TextTemplate::exprs));
        exprs
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
        Ok(StepWork::request(LocalChange::Persist(self.render(scope)?)))
    }
}
