//! Listeners: runs that wait for an event, and the event that they wait for.
//!
//! An event answers a wait like a callback does: the wait is left once, by whoever is first.

use semel_flow::release::Wait;
use semel_flow::{Action, Scope};
use semel_model::{RunId, WaitId};
use semel_store::listeners::{self, Topic};
use semel_store::outbox::Event;
use semel_store::waits::Callback;
use semel_store::{journal, runs};
use serde_json::Value;

use crate::decide::{Sight, scope};
use crate::engine::Engine;
use crate::lineage::{self, Unread};
use crate::outside::Outside;
use crate::waits::CallbackError;

/// How many waits are looked at in one go.
const PAGE: i64 = 200;

impl Engine {
    /// Answers every open wait that is for this event. An error is for another try.
    pub(crate) async fn answer_listeners(&self, event: &Event) -> Result<(), String> {
        let cell = &self.inner.cell;
        let paths = listeners::paths(cell, event.namespace_id, &event.event).await;
        let paths = paths.map_err(|error| error.to_string())?;
        if paths.is_empty() {
            return Ok(());
        }
        let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
        for path in paths {
            let Some(value) = value_at(&data, &path) else {
                continue;
            };
            let topic = Topic {
                event: event.event.clone(),
                path,
                value,
            };
            self.answer_topic(event, &topic, &data).await?;
        }
        Ok(())
    }

    async fn answer_topic(&self, event: &Event, topic: &Topic, data: &Value) -> Result<(), String> {
        let cell = &self.inner.cell;
        let mut after = None;
        loop {
            let page = listeners::find(cell, event.namespace_id, topic, after, PAGE).await;
            let page = page.map_err(|error| error.to_string())?;
            let Some((last, _)) = page.last().copied() else {
                return Ok(());
            };
            let mut ended = Vec::new();
            for (wait, run) in page {
                if !self.is_meant(event.namespace_id, run, data).await? {
                    continue;
                }
                let text = event.data.clone();
                let callback = Callback::of(run, wait, text);
                let answered = self.answer(Some(event.namespace_id), callback, data.clone());
                match answered.await {
                    Ok(_) | Err(CallbackError::Unknown | CallbackError::NotJson(_)) => {
                        ended.push(wait);
                    }
                    Err(CallbackError::Unavailable(error)) => return Err(error),
                }
            }
            self.close(&ended).await?;
            after = Some(last);
        }
    }

    async fn close(&self, ended: &[WaitId]) -> Result<(), String> {
        let closed = listeners::close(&self.inner.cell, ended).await;
        closed.map_err(|error| error.to_string())
    }

    /// Whether the step that a run waits at means this event.
    async fn is_meant(&self, namespace_id: i32, run: RunId, data: &Value) -> Result<bool, String> {
        let inner = &self.inner;
        let found = runs::find_release(&inner.cell, namespace_id, run).await;
        let Some((release_id, born)) = found.map_err(|error| error.to_string())? else {
            return Ok(false);
        };
        let release = inner.catalogue.get(release_id).await;
        let Some(release) = release.map_err(|error| error.to_string())? else {
            return Ok(false);
        };
        let lines = journal::read(&inner.cell, born, run).await;
        let lines = lines.map_err(|error| error.to_string())?;
        let state = match lineage::fold(inner, &release.flow, run, &lines).await {
            Ok(state) => state,
            Err(Unread::Unavailable(reason)) => return Err(reason),
            // It is stopped where it is taken; the event has other takers.
            Err(Unread::Newer(_) | Unread::Damaged(_)) => return Ok(false),
        };
        let step = state.step(&release.flow).map(|step| &step.action);
        let Some(Action::Wait(Wait::Event { matching, .. })) = step else {
            return Ok(false);
        };
        let Some(matching) = matching else {
            return Ok(true);
        };
        let linked = inner.linked(&release);
        let nothing = Value::Null;
        let sight = Sight {
            flow: &release.flow,
            linked: &linked,
            run: &nothing,
            waits: &nothing,
            now: inner.clock.now(),
            chance: 0.0,
            cancel: false,
            answers: &[],
            evidence: &[],
            outside: &Outside::Nothing,
        };
        let scope: Scope<'_> = scope(&state, &sight).with("event", data);
        // A condition that cannot be worked out on this event is not met by it.
        Ok(matching.eval_bool(&scope).unwrap_or(false))
    }
}

/// What stands at a place of an event, as JSON text; the empty place says nothing.
fn value_at(data: &Value, path: &str) -> Option<String> {
    if path.is_empty() {
        return Some(String::new());
    }
    let mut place = data;
    for name in path.split('.') {
        place = place.get(name)?;
    }
    Some(place.to_string())
}
