//! Steps that programs or people outside take part in.

use semel_model::approval::{OnReject, OnTimeout};

use super::step::template;
use crate::release::{ApprovalStep, TaskStep};
use crate::tree::Record;

pub(super) fn task(body: &Record) -> Option<TaskStep> {
    Some(TaskStep {
        queue: body.text("queue")?.to_owned(),
        input: template(body, "input"),
        lease: body.span_of("lease")?,
        within: body.span_of("within"),
    })
}

pub(super) fn approval(body: &Record) -> ApprovalStep {
    let not_starter = body.truth("not_starter") == Some(true);
    ApprovalStep {
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
    }
}

/// The plain texts of a list.
fn words(body: &Record, field: &str) -> Vec<String> {
    let items = body.list(field).iter();
    let texts = items.filter_map(|item| item.value.as_text());
    texts.map(str::to_owned).collect()
}
