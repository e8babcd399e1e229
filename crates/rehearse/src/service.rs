//! Rehearsals of a server: one at a time, each recorded with how far it is and what it showed.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use semel_engine::Engine;
use semel_store::flows;
use semel_store::rehearsals::{self, RehearsalEnd, RehearsalRow};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};
use uuid::Uuid;

use crate::basis::{facts, subject};
use crate::error::RehearseError;
use crate::rehearse::{self, Progress, Selection, Subject};
use crate::report::Report;
use crate::turns::{Group, Party, Turns};

/// How often the end of a rehearsal is tried to be recorded.
const FINISH_TRIES_MAX: usize = 3;

/// How often a rehearsal says how far it is.
const SAY_EVERY: Duration = Duration::from_millis(500);

/// The rehearsals of one server.
#[derive(Clone)]
pub struct Rehearsals {
    pub(crate) engine: Engine,
    /// One rehearsal runs at a time; others wait here.
    pub(crate) turns: Turns,
    /// Something may have left a live release unproven.
    pub(crate) changed: Arc<Notify>,
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct RehearsalRequest {
    /// Chosen by the client, so that asking twice is asking once.
    pub id: Uuid,
    /// Whose flow it is.
    pub namespace_id: i32,
    /// Who asks.
    pub asked_by: String,
    /// What the author calls the file.
    pub file: String,
    /// Its text.
    pub source: String,
    /// Which cases are played.
    pub selection: Selection,
}

impl Rehearsals {
    /// The rehearsals of a server.
    #[must_use]
    pub fn new(engine: Engine) -> Self {
        Self {
            engine,
            turns: Turns::default(),
            changed: Arc::default(),
        }
    }

    /// Begins a rehearsal, unless it was asked for before.
    ///
    /// # Errors
    ///
    /// Where the text is no sound flow, or the database does not answer.
    pub fn ask(&self, request: RehearsalRequest) -> BoxFuture<'_, Result<(), RehearseError>> {
        Box::pin(async move {
            let home = self.engine.cell().home();
            let group = match flows::has_live(home, request.namespace_id).await? {
                true => Group::Serving,
                false => Group::Other,
            };
            self.begin(request, group).await.map(drop)
        })
    }

    /// Begins a rehearsal, unless it was asked for before; what ends with it.
    pub(crate) async fn begin(
        &self,
        request: RehearsalRequest,
        group: Group,
    ) -> Result<Option<JoinHandle<()>>, RehearseError> {
        let cell = self.engine.cell();
        let (file, source) = (&request.file, &request.source);
        let subject = subject(cell, request.namespace_id, file, source).await?;
        let flow = rehearse::check(&subject)?;
        let selection = &request.selection;
        rehearse::select_examples(&subject, selection)?;
        let row = RehearsalRow {
            id: request.id,
            namespace_id: request.namespace_id,
            flow: flow.name.to_string(),
            digest: flow.digest().to_string(),
            facts: facts(&flow, &subject),
            whole: selection.example.is_none() && selection.fault.is_none(),
            asked_by: request.asked_by.clone(),
        };
        let known = rehearsals::find(cell.home(), request.namespace_id, request.id).await?;
        if known.is_some() {
            return Ok(None);
        }
        let namespace_id = request.namespace_id;
        let party = Party {
            namespace_id,
            group,
        };
        let seat = self.turns.enter(party).ok_or(RehearseError::Busy)?;
        if !rehearsals::ask(cell.home(), &row).await? {
            return Ok(None);
        }
        let running = self
            .clone()
            .run(request.id, party, subject, request.selection);
        Ok(Some(tokio::spawn(async move {
            running.await;
            drop(seat);
        })))
    }

    async fn run(self, id: Uuid, party: Party, subject: Subject, selection: Selection) {
        let meter = Arc::new(Meter::default());
        // It ends with this, however this ends.
        let mut saying = JoinSet::new();
        saying.spawn(say(self.engine.clone(), id, meter.clone()));
        let mut turn = self.turns.take(party).await;
        let (cell, options) = (self.engine.cell(), self.engine.options());
        let note = |progress| meter.set(progress);
        let rehearsing = rehearse::rehearse(cell, options, &subject, &selection, &note);
        let rehearsed = AssertUnwindSafe(rehearsing).catch_unwind().await;
        if let Some(turn) = &mut turn {
            turn.charge(meter.done.load(Ordering::Relaxed));
        }
        drop(turn);
        drop(saying);
        let end = end_of(rehearsed.unwrap_or(Err(RehearseError::Stopped)));
        for _ in 0..FINISH_TRIES_MAX {
            match rehearsals::finish(cell.home(), id, &end).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::warn!(%error, rehearsal = %id, "failed to record the end of a rehearsal")
                }
            }
            tokio::time::sleep(SAY_EVERY).await;
        }
    }
}

fn end_of(rehearsed: Result<Report, RehearseError>) -> RehearsalEnd {
    let report = rehearsed.and_then(|report| {
        let text = serde_json::to_string(&report);
        text.map(|text| (report.passed, text))
            .map_err(|_| RehearseError::Stopped)
    });
    match report {
        Ok((passed, report)) => RehearsalEnd::Judged { passed, report },
        Err(error) => RehearsalEnd::Stopped {
            problem: describe(&error),
        },
    }
}

/// An error and what caused it, in one line.
fn describe(error: &RehearseError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// How far a rehearsal is, as its server knows it.
#[derive(Default)]
struct Meter {
    done: AtomicUsize,
    total: AtomicUsize,
}

impl Meter {
    fn set(&self, progress: Progress) {
        self.done.store(progress.done, Ordering::Relaxed);
        self.total.store(progress.total, Ordering::Relaxed);
    }

    fn read(&self) -> (i32, i32) {
        let read = |number: &AtomicUsize| number.load(Ordering::Relaxed);
        let small = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
        (small(read(&self.done)), small(read(&self.total)))
    }
}

/// Records how far a rehearsal is, until it is stopped.
async fn say(engine: Engine, id: Uuid, meter: Arc<Meter>) {
    loop {
        if let Err(error) = rehearsals::advance(engine.cell().home(), id, meter.read()).await {
            tracing::debug!(%error, rehearsal = %id, "failed to record how far a rehearsal is");
        }
        tokio::time::sleep(SAY_EVERY).await;
    }
}
