//! Event waits: completing the waits of runs that wait for an event.
//!
//! An event answers a wait like a callback does: the wait is left once, by whoever is first. A few
//! waits are answered as the event is dispatched. Where there are more, the event becomes a broadcast,
//! and its waits are answered a page at a time by a service of their own: nothing else that is
//! emitted waits behind them.
//!
//! A wait whose run this build cannot read is not over: it is tried again, here or by a server that can
//! read it, and the waits beside it do not wait for it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use semel_flow::release::WaitStep;
use semel_flow::{Action, Scope};
use semel_model::{AlertKind, RunId, Span, WaitId};
use semel_store::alerts::{self, RaisedAlert};
use semel_store::broadcasts::{self, Broadcast, Cursor};
use semel_store::event_waits::{self, EventWait, Topic};
use semel_store::outbox::OutboxEvent;
use semel_store::turns::NamespaceTurns;
use semel_store::waits::Callback;
use semel_store::{journal, runs};
use serde_json::Value;

use super::service::{HeldBy, Pace, PassError, Service};
use crate::decide::{DecideContext, scope};
use crate::external_result::ExternalResult;
use crate::ingest::callback::CallbackError;
use crate::ingest::event::EventPayload;
use crate::metrics::Metrics;
use crate::pauses::RunPauses;
use crate::runtime::Runtime;
use crate::turn::parent_state::{self, Unread};

/// The most waits that are completed while an event is dispatched.
const AT_ONCE_MAX: usize = 16;

/// How many waits of a broadcast are answered in one go.
const PAGE: usize = 200;

/// How many of them are answered together: each reads the run that it is of.
const TOGETHER: usize = 4;

/// How many broadcasts are answered at a time, of the namespaces in turn.
const BROADCASTS_MAX: i64 = 4;

/// How long a server may take over one page before another does.
const PAGE_LEASE: Span = Span::from_const_secs(30);

/// The pause before waits are tried again whose runs a newer version wrote.
const NEWER_PAUSE: Span = Span::from_const_secs(15);

/// The pause before waits are tried again whose runs no version can read.
const DAMAGED_PAUSE: Span = Span::from_const_secs(3_600);

/// The pause before the next of many waits that were left are tried.
const LEFT_PAUSE: Span = Span::from_const_secs(1);

/// Answers the waits of events that are for many runs.
pub(super) struct EventBroadcasts {
    runtime: Arc<Runtime>,
    pace: Pace,
    turns: NamespaceTurns,
}

impl EventBroadcasts {
    pub(super) fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            runtime,
            pace: Pace::every(Duration::from_secs(1)),
            turns: NamespaceTurns::default(),
        }
    }
}

impl Service for EventBroadcasts {
    const NAME: &'static str = "broadcasts";
    const HELD_BY: HeldBy = HeldBy::Holders(1);

    fn metrics(&self) -> &Metrics {
        &self.runtime.metrics
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    async fn pass(&mut self) -> Result<Duration, PassError> {
        self.runtime.broadcast(&mut self.turns).await?;
        Ok(self.pace.interval)
    }

    async fn wake_up(&mut self) {
        self.runtime.signals.broadcast.notified().await;
    }
}

/// What became of a page of waits.
#[derive(Default)]
struct AnsweredPage {
    /// Waits that are over.
    ended: Vec<WaitId>,
    /// Waits whose runs cannot be read.
    left: Vec<WaitId>,
    /// Whether another version may read one of those runs.
    has_newer: bool,
    /// Whether no version can read one of those runs.
    has_damaged: bool,
}

impl AnsweredPage {
    /// The pause before what is left is tried again.
    fn pause(&self) -> Span {
        match self.has_newer {
            true => NEWER_PAUSE,
            false => DAMAGED_PAUSE,
        }
    }
}

impl Runtime {
    /// Completes the waits that are for this event, or records a broadcast that will. An error
    /// means that the caller tries again. A repeat answers no wait that opened after the event: a run that the first try
    /// has answered may have come to its next wait.
    pub(crate) async fn answer_event_waits(
        self: &Arc<Self>,
        event: &OutboxEvent,
        payload: &EventPayload,
        is_repeat: bool,
    ) -> Result<(), PassError> {
        let cell = &self.cell;
        let mut found = Vec::new();
        for topic in self.topics(event, payload.data()).await? {
            let limit = (AT_ONCE_MAX + 1) as i64;
            let page =
                event_waits::find(cell.every(), event.namespace_id, &topic, None, limit).await;
            found.extend(page?);
        }
        if found.len() <= AT_ONCE_MAX {
            if is_repeat {
                found.retain(|one| one.opened_at.is_none_or(|at| at <= event.emitted_at));
            }
            let page = self.answer_page(event, payload, &found).await?;
            if page.left.is_empty() {
                return Ok(());
            }
            self.note_left(event, &page).await?;
            let pause = page.pause();
            let begun = broadcasts::begin_left(cell.of(event.id), event, &page.left, pause).await;
            return Ok(begun?);
        }
        let begun = broadcasts::begin(cell.of(event.id), event, is_repeat).await;
        self.signals.broadcast.notify_one();
        Ok(begun?)
    }

    /// Answers a page of each broadcast that is due, again and again until none is.
    async fn broadcast(self: &Arc<Self>, turns: &mut NamespaceTurns) -> Result<(), PassError> {
        loop {
            let due = broadcasts::take(&self.cell, turns, BROADCASTS_MAX, PAGE_LEASE).await?;
            if due.is_empty() || self.shutdown.requested.is_cancelled() {
                return Ok(());
            }
            let pages = due.iter().map(|broadcast| self.go_on(broadcast));
            for answered in join_all(pages).await {
                // Tried again when its lease is over.
                answered?;
            }
        }
    }

    async fn go_on(self: &Arc<Self>, broadcast: &Broadcast) -> Result<(), PassError> {
        let payload = EventPayload::read(&broadcast.event);
        match broadcast.pages_done {
            false => self.answer_next_page(broadcast, &payload).await,
            true => self.answer_left(broadcast, &payload).await,
        }
    }

    async fn answer_next_page(
        self: &Arc<Self>,
        broadcast: &Broadcast,
        payload: &EventPayload,
    ) -> Result<(), PassError> {
        let (cell, event) = (&self.cell, &broadcast.event);
        for topic in self.topics(event, payload.data()).await? {
            let after = match &broadcast.cursor {
                Some(cursor) if topic.path < cursor.path => continue,
                Some(cursor) if topic.path == cursor.path => Some(cursor.after),
                Some(_) | None => None,
            };
            let page =
                event_waits::find(cell.every(), event.namespace_id, &topic, after, PAGE as i64)
                    .await?;
            let Some(last) = page.last().copied() else {
                continue;
            };
            let is_older =
                |one: &EventWait| one.opened_at.is_none_or(|at| at <= broadcast.begun_at);
            let older: Vec<EventWait> = page.into_iter().filter(is_older).collect();
            let answered = self.answer_page(event, payload, &older).await?;
            self.note_left(event, &answered).await?;
            let cursor = Cursor {
                path: topic.path,
                after: last.wait,
            };
            let left = &answered.left;
            let advanced = broadcasts::advance(cell.of(event.id), event.id, &cursor, left).await;
            return Ok(advanced?);
        }
        let ended = broadcasts::finish_pages(cell.of(event.id), event.id, LEFT_PAUSE).await;
        Ok(ended?)
    }

    /// Says once that waits are left, and raises an alert where a newer version does not help.
    async fn note_left(
        self: &Arc<Self>,
        event: &OutboxEvent,
        page: &AnsweredPage,
    ) -> Result<(), PassError> {
        if page.left.is_empty() {
            return Ok(());
        }
        self.metrics.events_unread.add_one();
        let count = page.left.len();
        tracing::warn!(count, event.id = %event.id, "runs that wait for an event cannot be read; it is kept for them");
        if page.has_damaged {
            let raised = RaisedAlert {
                kind: AlertKind::EventUnreadable,
                flow: String::new(),
                connection: String::new(),
                step: String::new(),
            };
            alerts::raise_one(self.cell.home(), event.namespace_id, &raised).await?;
        }
        Ok(())
    }

    /// Tries waits again whose runs could not be read.
    async fn answer_left(
        self: &Arc<Self>,
        broadcast: &Broadcast,
        payload: &EventPayload,
    ) -> Result<(), PassError> {
        let (cell, event) = (&self.cell, &broadcast.event);
        let tried = &broadcast.left[..broadcast.left.len().min(PAGE)];
        let open = event_waits::find_again(cell.every(), tried).await?;
        let answered = self.answer_page(event, payload, &open).await?;
        let pause = match tried.len() < broadcast.left.len() {
            true => LEFT_PAUSE,
            false => answered.pause(),
        };
        let still = &answered.left;
        let noted = broadcasts::retry(cell.of(event.id), event.id, tried, still, pause).await;
        Ok(noted?)
    }

    /// The topics that waits for this event may have, sorted by their path in the event.
    async fn topics(
        self: &Arc<Self>,
        event: &OutboxEvent,
        data: &Value,
    ) -> Result<Vec<Topic>, PassError> {
        let cell = &self.cell;
        let paths = event_waits::paths(cell.every(), event.namespace_id, &event.event).await;
        let mut topics: Vec<Topic> = paths?
            .into_iter()
            .filter_map(|path| {
                let value = value_at(data, &path)?;
                let event = event.event.clone();
                Some(Topic { event, path, value })
            })
            .collect();
        topics.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(topics)
    }

    /// Answers those of some waits that mean this event.
    async fn answer_page(
        self: &Arc<Self>,
        event: &OutboxEvent,
        payload: &EventPayload,
        page: &[EventWait],
    ) -> Result<AnsweredPage, PassError> {
        let mut answered = AnsweredPage::default();
        for few in page.chunks(TOGETHER) {
            let answers = few.iter().map(|one| self.answer_one(event, payload, one));
            for (one, answer) in few.iter().zip(join_all(answers).await) {
                match answer {
                    Ok(true) => answered.ended.push(one.wait),
                    Ok(false) => {}
                    Err(Unread::Unavailable(reason)) => return Err(reason.into()),
                    Err(unread) => {
                        tracing::debug!(%unread, event.id = %event.id, run.id = %one.run, "a run that waits for an event cannot be read");
                        let is_newer = matches!(unread, Unread::Newer(_));
                        answered.has_newer |= is_newer;
                        answered.has_damaged |= !is_newer;
                        answered.left.push(one.wait);
                    }
                }
            }
        }
        if !answered.ended.is_empty() {
            self.close(&answered.ended).await?;
        }
        Ok(answered)
    }

    /// Answers a wait where it means this event; says whether it has ended.
    async fn answer_one(
        self: &Arc<Self>,
        event: &OutboxEvent,
        payload: &EventPayload,
        one: &EventWait,
    ) -> Result<bool, Unread> {
        let data = payload.data();
        if !self.is_meant(event.namespace_id, one.run, data).await? {
            return Ok(false);
        }
        let callback = Callback::of(one.run, one.wait, payload.text().to_owned());
        let answered = self.answer(Some(event.namespace_id), callback, data.clone());
        match answered.await {
            Ok(_) | Err(CallbackError::Unknown | CallbackError::NotJson(_)) => Ok(true),
            Err(CallbackError::Unavailable(error)) => Err(Unread::Unavailable(error)),
        }
    }

    async fn close(self: &Arc<Self>, ended: &[WaitId]) -> Result<(), PassError> {
        let closed = event_waits::close(self.cell.every(), ended).await;
        Ok(closed?)
    }

    /// Whether the step that a run waits at means this event.
    async fn is_meant(
        self: &Arc<Self>,
        namespace_id: i32,
        run: RunId,
        data: &Value,
    ) -> Result<bool, Unread> {
        let found = runs::find_release(self.cell.of(run), namespace_id, run).await;
        let Some((release_id, partition_date)) = found? else {
            return Ok(false);
        };
        let Some(release) = self.catalogue.get(release_id).await? else {
            return Err(Unread::Newer("the release of a run".to_owned()));
        };
        let lines = journal::read(self.cell.of(run), partition_date, run).await;
        let state = parent_state::fold(self, &release.flow, run, &lines?).await?;
        let step = state.step(&release.flow).map(|step| &step.action);
        let Some(Action::Wait(WaitStep::Event { matching, .. })) = step else {
            return Ok(false);
        };
        let Some(matching) = matching else {
            return Ok(true);
        };
        let destinations = self.destinations(&release);
        let nothing = Value::Null;
        let context = DecideContext {
            flow: &release.flow,
            destinations: &destinations,
            run: &nothing,
            waits: &nothing,
            landing: self.landing(),
            now: self.clock.now(),
            jitter: 0.0,
            cancel: false,
            answers: &[],
            late_responses: &[],
            outside: &ExternalResult::Nothing,
            looked: None,
            pauses: RunPauses::default(),
        };
        let scope: Scope<'_> = scope(&state, &context).with("event", data);
        // A condition that cannot be worked out on this event is not met by it.
        Ok(matching.eval_bool(&scope).unwrap_or(false))
    }
}

/// The value at a path of an event, as JSON text; nothing for the empty path.
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
