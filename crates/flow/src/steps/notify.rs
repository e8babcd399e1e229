//! `notify`: one message to people.

use semel_model::request::{ExternalRequest, Message};
use semel_model::{EffectId, Guard, Span};
use serde::Serialize;

use super::body::{CONNECTION, Lowering, list_of_texts, text};
use super::descriptor::{Docs, ResultOrigin, StepKind, no_link, waits_for_nobody};
use super::effect::{EffectKind, EffectRule, always, no_verb, review};
use super::{Action, ActionKind, FindConnection, ReleasedStep, RenderError, StepWork};
use crate::expr::{EvalError, Expr, Scope};
use crate::grammar::{FieldType, MapSchema, field};
use crate::shapes::{ValueKind, ValueShape, value};
use crate::template::TextTemplate;
use crate::types::of_shape;

/// The kind.
pub(crate) static KIND: StepKind = StepKind {
    kind: ActionKind::Notify,
    about: "Sends a message.",
    summary: "one message",
    docs: Docs::Page(include_str!("../../../../docs/steps/notify.md")),
    article: "a",
    takes: FieldType::Map(&SCHEMA),
    effect: Some(EffectRule {
        changes: always,
        verb: no_verb,
        effect_kind: |_| EffectKind::Notify,
        guards: &[Guard::Review, Guard::Key, Guard::Repeat],
        default_guard: review,
        asks_connection: true,
        review_is_usual: true,
        commits_here: false,
    }),
    undoable: true,
    connection: &["smtp", "slack", "webhook"],
    check: None,
    lower: |step| lower(step).map(Box::new).map(Action::Notify),
    response: |_| of_shape(&ANSWER),
    result: |_| of_shape(&ANSWER),
    takes_result: false,
    takes_external_id: true,
    origin: ResultOrigin::World,
    holds: None,
    pauses: false,
    shapes: &[&ANSWER],
    ends_run: false,
    has_link: no_link,
    waits_for: waits_for_nobody,
};

static SCHEMA: MapSchema = MapSchema::new(
    ("`notify`", "notify"),
    "One message, with a stable message id.",
    &[
        CONNECTION.needed("mail"),
        field(
            "to",
            FieldType::Either(&[FieldType::Holes, FieldType::List(&FieldType::Holes)]),
            "The recipients.",
        )
        .needed("\"${{ input.email }}\""),
        field("subject", FieldType::Holes, "The subject."),
        field("text", FieldType::Holes, "The message.").needed("…"),
        field("html", FieldType::Holes, "The message as HTML."),
    ],
);

/// What carried a message.
static ANSWER: ValueShape = ValueShape {
    name: "notify answer",
    about: "`response` and result of a `notify` step: the first two with `smtp`, the others with `slack` and `webhook`",
    fields: &[
        value("message_id", ValueKind::Text, "The mail's id.").maybe(),
        value("reply", ValueKind::Text, "The mail server's reply.").maybe(),
        value("status", ValueKind::Int, "The HTTP status.").maybe(),
        value(
            "headers",
            ValueKind::Map,
            "The headers, by lower-case name.",
        )
        .maybe(),
        value("json", ValueKind::Any, "The body, if it is JSON.").maybe(),
        value("text", ValueKind::Text, "The body as text.").maybe(),
    ],
};

/// How long sending a message may take.
const TIMEOUT: Span = Span::from_const_secs(60);

fn lower(step: &Lowering<'_>) -> Option<NotifyStep> {
    let body = step.body?;
    let to = match text(body, "to") {
        Some(to) => vec![to],
        None => list_of_texts(body, "to")?,
    };
    Some(NotifyStep {
        connection: body.text("connection")?.to_owned(),
        to,
        subject: text(body, "subject"),
        text: text(body, "text")?,
        html: text(body, "html"),
    })
}

/// One message to people.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NotifyStep {
    /// The connection.
    pub connection: String,
    /// Whom it goes to.
    pub to: Vec<TextTemplate>,
    /// The subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<TextTemplate>,
    /// The message.
    pub text: TextTemplate,
    /// The message as HTML.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub html: Option<TextTemplate>,
}

impl NotifyStep {
    /// The message with every hole evaluated.
    ///
    /// # Errors
    ///
    /// If a hole cannot be evaluated.
    pub fn render(&self, scope: &Scope<'_>) -> Result<Message, EvalError> {
        let text =
            |text: &Option<TextTemplate>| text.as_ref().map(|it| it.render(scope)).transpose();
        let to = self.to.iter().map(|to| to.render(scope));
        Ok(Message {
            connection: self.connection.clone(),
            to: to.collect::<Result<_, _>>()?,
            subject: text(&self.subject)?,
            text: self.text.render(scope)?,
            html: text(&self.html)?,
            timeout: TIMEOUT,
        })
    }
}

impl ReleasedStep for NotifyStep {
    fn exprs(&self) -> Vec<&Expr> {
        let texts = self.to.iter().chain(&self.subject);
        let texts = texts.chain([&self.text]).chain(&self.html);
        texts.flat_map(TextTemplate::exprs).collect()
    }

    fn connection(&self) -> Option<&str> {
        Some(&self.connection)
    }

    fn work(
        &self,
        scope: &Scope<'_>,
        _: FindConnection<'_>,
        _: Option<EffectId>,
    ) -> Result<StepWork<'_>, RenderError> {
        Ok(StepWork::request(ExternalRequest::Notify(
            self.render(scope)?,
        )))
    }
}
