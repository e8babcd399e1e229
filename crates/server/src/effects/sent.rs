//! What an effect sends, as people see it: from the call that was pinned with its intent.

use std::collections::BTreeMap;

use semel_api::types::{Effect, Sent, Source};
use semel_model::request::{Call, HttpRequest};
use semel_model::{EffectId, Event, RunId};
use semel_store::effects::EffectView;
use semel_store::runs::RunView;
use semel_store::{journal, runs};
use serde::Serialize;

use super::sources::source;
use super::view;
use crate::access::Caller;
use crate::app::App;
use crate::refusal::Refusal;

/// The most characters of a body that are shown.
const BODY_CHARS_MAX: usize = 4_000;

/// The most effects of one answer that are shown with what they send: a journal is read for each.
const DETAILED_MAX: usize = 50;

/// Effects with the flow and the key that they come from, and with what they send.
pub(super) async fn detailed(
    app: &App,
    caller: &Caller,
    found: &[EffectView],
) -> Result<Vec<Effect>, Refusal> {
    let ids: Vec<RunId> = found.iter().map(|effect| effect.run).collect();
    let known = runs::find_many(app.cell(), caller.namespace_id, &ids).await?;
    let known: BTreeMap<RunId, &RunView> = known.iter().map(|run| (run.id, run)).collect();
    let looked_at = found.iter().take(DETAILED_MAX);
    let wanted: Vec<_> = looked_at.map(|effect| (effect.run, effect.born)).collect();
    let lines = journal::read_many(app.cell(), &wanted).await?;
    let sources = |run: &RunId| -> Option<Source> { known.get(run).map(|run| source(run)) };
    let items = found.iter().map(|effect| Effect {
        source: sources(&effect.run),
        sent: lines
            .get(&effect.run)
            .and_then(|lines| pinned(lines, effect.id))
            .map(|call| sent(&call)),
        ..view(effect)
    });
    Ok(items.collect())
}

/// The call that was pinned with an effect's first intent.
fn pinned(lines: &[journal::Line], wanted: EffectId) -> Option<Call> {
    let events = lines.iter().filter_map(|line| line.read().ok()).flatten();
    let mut calls = events.filter_map(|event| match event {
        Event::Intended {
            effect,
            call: Some(call),
            ..
        } if effect == wanted => Some(*call),
        _ => None,
    });
    calls.next()
}

fn sent(call: &Call) -> Sent {
    let (what, body) = match call {
        Call::Http(request) => (
            format!("{} {}", request.method, request.url),
            http_body(request),
        ),
        Call::Db(request) => (request.statement.clone(), Some(text(&request.values))),
        Call::Ssh(request) => (request.command.join(" "), request.stdin.clone()),
        Call::Notify(message) => {
            let subject = message.subject.as_deref().unwrap_or_default();
            (
                format!("to {}: {subject}", message.to.join(", ")),
                Some(message.text.clone()),
            )
        }
        Call::Llm(request) => (
            request.model.clone().unwrap_or_default(),
            Some(request.prompt.clone()),
        ),
        Call::Persist(request) => (
            request.name.clone().unwrap_or_default(),
            Some(text(&request.value)),
        ),
        Call::Emit(emission) => (emission.event.clone(), Some(text(&emission.data))),
        Call::Start(start) => (start.flow.to_string(), Some(text(&start.input))),
        Call::Task(task) => (task.queue.clone(), Some(text(&task.input))),
        Call::Kv(operation) => (operation.entry.clone(), Some(text(operation))),
    };
    let cut = |body: &String| body.chars().nth(BODY_CHARS_MAX).is_some();
    Sent {
        connection: call.connection().map(str::to_owned),
        what,
        cut: body.as_ref().is_some_and(cut),
        body: body.map(|body| body.chars().take(BODY_CHARS_MAX).collect()),
    }
}

fn http_body(request: &HttpRequest) -> Option<String> {
    match (&request.body, &request.file) {
        (Some(body), _) => Some(body.clone()),
        (None, Some(file)) => Some(file.clone()),
        (None, None) => (!request.parts.is_empty()).then(|| text(&request.parts)),
    }
}

fn text<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
