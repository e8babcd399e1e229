//! Dropping a key: its next delivery starts a run of its own.

use std::collections::BTreeSet;

use axum::response::{IntoResponse, Redirect};
use semel_api::types::{DropKey, Dropped, FoundKey};
use semel_model::Right;
use url::form_urlencoded;

use super::super::forms::{self, folded, offer};
use super::super::markup::Markup;
use super::super::shell::status_of;
use super::super::visit::{Form, Visit};
use super::super::words;
use super::show_key;
use crate::answer::Answered;
use crate::error::ApiError;

/// `POST /console/{namespace}/keys/drop`.
pub(in super::super) async fn carry_out(visit: Visit, form: Form) -> Answered {
    // The form's own key is another one.
    let (flow, key) = (form.get("flow"), decoded(form.get("subject")));
    let key = key.as_str();
    let path = format!("/v1/keys/{}/drop", words::encoded(flow));
    let address = words::address(&path, &[("key", key)]);
    let ask = DropKey {
        reason: form.get("reason").to_owned(),
        new_intent: form.get("new_intent") == "yes",
    };
    let done: Result<Dropped, ApiError> = visit.post(&address, &form, &ask).await;
    match done {
        Ok(_) => {
            let page = words::address(&visit.page("/keys"), &[("key", key)]);
            Ok(Redirect::to(&page).into_response())
        }
        Err(error) => {
            let at = (status_of(&error), Some(error.into()));
            let typed = TypedDrop {
                flow: form.get("flow"),
                reason: form.get("reason"),
            };
            show_key(&visit, key, at, typed).await
        }
    }
}

/// A text that a form carried as a piece of an address.
fn decoded(text: &str) -> String {
    let pair = format!("subject={text}");
    let mut pairs = form_urlencoded::parse(pair.as_bytes());
    pairs
        .next()
        .map_or_else(String::new, |(_, value)| value.into_owned())
}

/// What was typed into a form that is shown again.
#[derive(Clone, Copy, Default)]
pub(super) struct TypedDrop<'a> {
    pub(super) flow: &'a str,
    pub(super) reason: &'a str,
}

/// The form, where a run answers for the key.
pub(super) fn section(
    visit: &Visit,
    found: &FoundKey,
    (typed, is_open): (TypedDrop<'_>, bool),
) -> Result<Option<Markup>, ApiError> {
    let flows: BTreeSet<&str> = found.runs.iter().map(|run| run.flow.as_str()).collect();
    if flows.is_empty() {
        return Ok(None);
    }
    let flows: Vec<(&str, &str)> = flows.into_iter().map(|flow| (flow, flow)).collect();
    let first = flows.first().map_or("", |(flow, _)| flow);
    let is_known = flows.iter().any(|(flow, _)| *flow == typed.flow);
    let chosen = if is_known { typed.flow } else { first };
    let help = "The next delivery under this key starts a run of its own. What was done stays done: each effect \
                keeps its key, so that a destination that honours keys does not act again. A run that has not ended keeps its key.";
    let fields = vec![
        Markup::text(help).within("p", "help"),
        // A key may hold what is not seen, or turns text round.
        forms::carried("subject", &words::encoded(&found.key)),
        forms::select("flow", "The flow whose key it is", chosen, &flows),
        forms::check(
            "new_intent",
            "It is a new intent: effects get new keys, and may happen again (needs the right override)",
        ),
        forms::reason("drop", typed.reason),
    ];
    let of = (visit.page("/keys/drop"), Right::Operate);
    let form = offer(visit, of, fields, ("Drop the key", "danger"))?;
    let form = folded("Drop the key", is_open, &form).within("div", "acts");
    Ok(Some(forms::section("acts", "Acts", &form)))
}
