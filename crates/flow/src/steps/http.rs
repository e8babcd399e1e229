//! `http`: one HTTP request.

mod check;
mod lower;
mod request;
mod schema;

pub use request::{HttpStep, Method, PartTemplate, RequestBody};

pub(crate) use check::is_header_name;
pub(crate) use schema::SCHEMA;

use semel_model::Guard;

use super::descriptor::{Docs, ResultOrigin, StepKind, anything, no_link, waits_for_nobody};
use super::effect::{EffectKind, EffectRule};
use super::{Action, ActionKind};
use crate::grammar::FieldType;
use crate::shapes::{RESOURCE, ValueKind, ValueShape, value};
use crate::tree::Record;
use crate::types::of_shape;

/// The kind.
pub(crate) static KIND: StepKind = StepKind {
    kind: ActionKind::Http,
    about: "Sends one HTTP request.",
    summary: "one HTTP request",
    docs: Docs::Page(include_str!("../../../../docs/steps/http.md")),
    article: "an",
    takes: FieldType::Map(&SCHEMA),
    effect: Some(EffectRule {
        changes: |body| method(body).map(|method| !method.is_read()),
        verb: |body| method(body).map(Method::field),
        effect_kind,
        guards: &[
            Guard::Review,
            Guard::Key,
            Guard::Natural,
            Guard::Probe,
            Guard::Repeat,
        ],
        default_guard,
        asks_connection: true,
        review_is_usual: false,
        commits_here: false,
    }),
    undoable: true,
    connection: &["http"],
    check: Some(check::check),
    lower: |step| {
        let request = HttpStep::of(step.body?, step.env)?;
        Some(Action::Http(Box::new(request)))
    },
    response: |_| of_shape(&ANSWER),
    result: anything,
    takes_result: true,
    takes_external_id: true,
    origin: ResultOrigin::World,
    holds: None,
    pauses: false,
    shapes: &[&ANSWER],
    ends_run: false,
    has_link: no_link,
    waits_for: waits_for_nobody,
};

/// What an HTTP destination answered.
pub(crate) static ANSWER: ValueShape = ValueShape {
    name: "http answer",
    about: "`response` of an `http` step, and `probe` if the probe uses `http`",
    fields: &[
        value("status", ValueKind::Int, "The HTTP status."),
        value(
            "headers",
            ValueKind::Map,
            "The headers, by lower-case name.",
        ),
        value(
            "json",
            ValueKind::Any,
            "The body, if it is JSON; otherwise null.",
        ),
        value("text", ValueKind::Text, "The body as text."),
        value(
            "resource",
            ValueKind::Of(&RESOURCE),
            "The body, if it is over 1 MiB.",
        )
        .maybe(),
        value("truncated", ValueKind::Bool, "True if the body was cut.").maybe(),
        value(
            "next",
            ValueKind::Text,
            "The address of the next page, if there were more pages than `most`.",
        )
        .maybe(),
        value(
            "too_deep",
            ValueKind::Bool,
            "True if the body is JSON that nests too deep to be kept as `json`.",
        )
        .maybe(),
    ],
};

/// The method that a map asks for.
pub(crate) fn method(body: &Record) -> Option<Method> {
    let mut methods = Method::ALL.into_iter();
    methods.find(|method| body.has(method.field()))
}

/// A `post` asks for something new.
fn effect_kind(body: &Record) -> EffectKind {
    match method(body) {
        Some(Method::Post) => EffectKind::Create,
        Some(Method::Get | Method::Head | Method::Put | Method::Patch | Method::Delete) | None => {
            EffectKind::Update
        }
    }
}

/// What replaces or removes may be repeated, and so may what changes only what it knows.
fn default_guard(body: &Record) -> Guard {
    let replaces = matches!(method(body), Some(Method::Put | Method::Delete));
    match replaces || body.has("if_match") {
        true => Guard::Natural,
        false => Guard::Review,
    }
}
