//! `approval`: a person's yes or no, to exactly what is shown.

use jiff::Timestamp;
use semel_model::approval::{ApprovalRequest, Digest, OnReject, OnTimeout};
use semel_model::{EffectId, Span};
use serde::Serialize;

use super::body::{BodyCheck, Lowering, template, words};
use super::descriptor::{Docs, ResultOrigin, StepKind};
use super::{Action, ActionKind, ControlStep, FindConnection, ReleasedStep, RenderError, StepWork};
use crate::diagnostic::Code;
use crate::expr::{EvalError, Expr, Scope};
use crate::grammar::{FieldType, MapSchema, YEAR, field};
use crate::shapes::{ValueKind, ValueShape, value};
use crate::template::Template;
use crate::tree::Record;
use crate::types::of_shape;

/// The kind.
pub(crate) static KIND: StepKind = StepKind {
    kind: ActionKind::Approval,
    about: "Asks approvers for a decision.",
    summary: "a decision by an approver",
    docs: Docs::Page(include_str!("../../../../docs/steps/approval.md")),
    article: "an",
    takes: FieldType::Map(&SCHEMA),
    effect: None,
    undoable: false,
    connection: &[],
    check: Some(check),
    lower: |step| lower(step).map(Box::new).map(Action::Approval),
    response: |_| of_shape(&DECISION),
    result: |_| of_shape(&DECISION),
    takes_result: false,
    takes_external_id: false,
    origin: ResultOrigin::World,
    holds: None,
    pauses: true,
    shapes: &[&DECISION],
    ends_run: false,
    has_link: |_| true,
    waits_for: |_| Some(("an approver", "2d")),
};

static SCHEMA: MapSchema = MapSchema::new(
    ("`approval`", "approval"),
    "A decision by an approver, about exactly what is shown.",
    &[
        field(
            "from",
            FieldType::List(&FieldType::Text),
            "Who may decide: names or groups of tokens.",
        )
        .needed("[finance]"),
        field(
            "show",
            FieldType::Value,
            "What is approved; the decision is bound to its digest.",
        ),
        field(
            "within",
            FieldType::Span(1_000, YEAR),
            "The maximum time.",
        ),
        field(
            "escalate",
            FieldType::List(&FieldType::Text),
            "Who else may decide after half of the time.",
        ),
        field(
            "on_timeout",
            FieldType::Word(&["reject", "fail", "continue"]),
            "What applies if there is no decision in time.",
        )
        .default("reject"),
        field(
            "remind",
            FieldType::Span(60_000, YEAR),
            "How often Semel emits a reminder while there is no decision.",
        ),
        field(
            "on_reject",
            FieldType::Word(&["fail", "continue"]),
            "What a rejection does to the run; with `continue`, `steps.ID.result.approved` is false.",
        )
        .default("fail"),
        field(
            "login",
            FieldType::Truth,
            "Whether deciding takes a token; if false, anyone with the link can decide.",
        )
        .default("true"),
        field(
            "not_starter",
            FieldType::Truth,
            "Whether the token that started the run may not decide; deciding then always takes a token.",
        )
        .default("false"),
    ],
);

/// What was decided.
static DECISION: ValueShape = ValueShape {
    name: "approval result",
    about: "result of an `approval` step",
    fields: &[
        value(
            "approved",
            ValueKind::Bool,
            "Whether it was approved; null after a timeout with `on_timeout: continue`.",
        )
        .or_null(),
        value("by", ValueKind::Text, "Who decided.").or_null(),
        value("comment", ValueKind::Text, "The approver's comment.").or_null(),
        value("at", ValueKind::Text, "When.").or_null(),
    ],
};

fn check(check: &mut BodyCheck<'_, '_>, body: &Record) {
    if body.has("from") && body.list("from").is_empty() {
        let message = "no approver is named";
        let help = "name approvers or groups, e.g. `from: [finance]`";
        check.add(Code::WrongValue, body.value_span("from"), message, help);
    }
    if body.has("escalate") && !body.has("within") {
        let message = "`escalate` applies after half of `within`, and `within` is missing";
        let help = "add `within: 2d`, or leave it out";
        let span = body.name_span("escalate");
        check.add(Code::FieldConflict, span, message, help);
    }
    if body.truth("not_starter") == Some(true) && body.truth("login") == Some(false) {
        let message = "a link does not identify the approver";
        let help = "leave `login` out: with `not_starter` the link alone is not enough";
        let span = body.name_span("login");
        check.add(Code::FieldConflict, span, message, help);
    }
}

fn lower(step: &Lowering<'_>) -> Option<ApprovalStep> {
    let body = step.body?;
    let not_starter = body.truth("not_starter") == Some(true);
    Some(ApprovalStep {
        from: words(body, "from"),
        escalate: words(body, "escalate"),
        show: template(body, "show"),
        within: body.span_of("within"),
        remind: body.span_of("remind"),
        on_timeout: match body.word("on_timeout") {
            Some("fail") => OnTimeout::Fail,
            Some("continue") => OnTimeout::Continue,
            Some(_) | None => OnTimeout::Reject,
        },
        on_reject: match body.word("on_reject") {
            Some("continue") => OnReject::Continue,
            Some(_) | None => OnReject::Fail,
        },
        // A link does not say who follows it: it decides only where the author says so.
        login: not_starter || body.truth("login") != Some(false),
        not_starter,
    })
}

/// A question to people.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ApprovalStep {
    /// Who may decide: people or groups.
    pub from: Vec<String>,
    /// Who else may, once half of the time is over.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub escalate: Vec<String>,
    /// What is decided about; null if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub show: Option<Template>,
    /// How long there is to decide.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<Span>,
    /// How often people are reminded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remind: Option<Span>,
    /// What holds if there is no decision in time.
    pub on_timeout: OnTimeout,
    /// What a rejection means for the run.
    #[serde(skip_serializing_if = "OnReject::is_default")]
    pub on_reject: OnReject,
    /// Whether the link alone is not enough.
    pub login: bool,
    /// Whether the person who started the run is excluded from deciding.
    pub not_starter: bool,
}

impl ApprovalStep {
    /// What people are asked, with every hole evaluated. `now` is when, `starter` who started the
    /// run, where that is known.
    ///
    /// # Errors
    ///
    /// If a hole cannot be evaluated.
    pub fn render(
        &self,
        scope: &Scope<'_>,
        now: Timestamp,
        starter: Option<&str>,
    ) -> Result<ApprovalRequest, EvalError> {
        let shown = self.show.as_ref().map(|it| it.render(scope));
        let shown = shown.transpose()?.unwrap_or_default();
        let half = self.within.map(|within| within.to_duration() / 2);
        Ok(ApprovalRequest {
            from: self.from.clone(),
            escalate: self.escalate.clone(),
            escalate_at: half
                .filter(|_| !self.escalate.is_empty())
                .map(|half| now + half),
            digest: Digest::of(&shown),
            shown,
            login: self.login,
            not_by: starter.filter(|_| self.not_starter).map(str::to_owned),
            remind: self.remind,
            remind_at: self.remind.map(|remind| now + remind.to_duration()),
            on_timeout: self.on_timeout,
            on_reject: self.on_reject,
            round: 0,
        })
    }
}

impl ReleasedStep for ApprovalStep {
    fn exprs(&self) -> Vec<&Expr> {
        self.show.iter().flat_map(Template::exprs).collect()
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
        Ok(StepWork::Control(ControlStep::Approval(self)))
    }
}
