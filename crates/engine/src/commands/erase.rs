//! Erasing what was said in the runs of a key: payloads go, and what the runs did stays.

mod archived;

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::Date;
use semel_model::event::{ChildBegun, Event, NameEvent};
use semel_model::request::StepRequest;
use semel_model::{ClaimId, Fault, NamedEffectId, PastOutcome, RunId, Span};
use semel_store::archives;
use semel_store::audit::{AuditEntry, ReasonError};
use semel_store::journal::{self, JournalRow};
use semel_store::retention::{self, ERASED_FAMILY_MAX, ErasedRun, Family, Marked};
use semel_store::webhook_deliveries;
use serde_json::Value;

use crate::archive::ArchiveError;
use crate::runtime::Runtime;
use crate::settle::span_between;
use crate::state::PastLedger;
use crate::unavailable::unavailable_from_store;

/// What stands where something was erased.
const ERASED: &str = "erased";

/// How many runs one commit erases.
const BATCH: usize = 50;

/// Why nothing is erased.
#[derive(Debug, thiserror::Error)]
pub enum EraseError {
    /// There is no such run.
    #[error("there is no such run")]
    Unknown,
    /// A run of its key has not ended, or something of it is in doubt.
    #[error("a run of its key has not ended, or something of it is in doubt")]
    NotEnded,
    /// The request of a doubt that was given up may still arrive and be acted on.
    #[error("what was given up in doubt may still happen: ask again in {retry_in}")]
    MayStillHappen {
        /// How long until nothing of it can happen any more.
        retry_in: Span,
    },
    /// A journal was written by another version.
    #[error(
        "the journal of {run} cannot be read by this version: erase it with the version that wrote it"
    )]
    Unreadable {
        /// Its run.
        run: RunId,
    },
    /// The key has more runs than one command erases.
    #[error(
        "the key has more than {ERASED_FAMILY_MAX} runs, child runs included; nothing was erased"
    )]
    TooLarge,
    /// The archive did not do its part; what is in the database is erased.
    #[error("what is archived could not be erased: {0}")]
    Archive(#[source] ArchiveError),
    /// The reason cannot be recorded; nothing was done.
    #[error(transparent)]
    Reason(#[from] ReasonError),
    /// The database or the resource store did not answer in time.
    #[error("the run could not be erased: {0}")]
    Unavailable(String),
}

impl EraseError {
    /// The stable word for this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown => "run-not-found",
            Self::NotEnded | Self::MayStillHappen { .. } => "run-not-ended",
            Self::Unreadable { .. } => "journal-inconsistent",
            Self::TooLarge => "run-too-large",
            Self::Archive(_) => "archive-unavailable",
            Self::Reason(error) => error.code(),
            Self::Unavailable(_) => "database-unavailable",
        }
    }
}

unavailable_from_store!(EraseError);

/// What was erased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Erasure {
    /// How many runs, with child runs.
    pub runs: u64,
    /// How many resources.
    pub resources: u64,
    /// The runs of other keys that they started: what those were told is theirs.
    pub started: Vec<RunId>,
    /// How many of their events are not dispatched yet, or still reach waits, and how many deliveries of them are due.
    pub events_under_way: u64,
}

/// What a journal keeps, and what it names.
struct Remains {
    events: Vec<Event>,
    names: BTreeSet<NamedEffectId>,
    started: BTreeSet<RunId>,
    given_up: Vec<GivenUp>,
}

/// An effect that was given up in doubt, and is not erased yet.
struct GivenUp {
    request: Box<StepRequest>,
    /// When its latest intent was written, and the latest that a worker may have claimed it where it is a task.
    times: (Timestamp, Timestamp),
}

impl Runtime {
    /// Erases what was said in all runs of a run's key, with their child runs. What they did, and under
    /// which keys, stays; none of them is resumed or replayed any more.
    pub async fn erase_run(
        self: &Arc<Self>,
        namespace_id: i32,
        run: RunId,
        reason: &str,
        actor: &str,
    ) -> Result<Erasure, EraseError> {
        let subject = run.to_string();
        let act = |action| AuditEntry::new(namespace_id, actor, action, &subject);
        let begin = act("run.erase-begin").because(reason)?.about(run);
        let done = act("run.erase").because(reason)?.about(run);
        let (live, claim) = self.find_key(namespace_id, run).await?;
        let archive = self.archive_of(claim).await?;
        let mut erasure = Erasure {
            runs: 0,
            resources: 0,
            started: Vec::new(),
            events_under_way: 0,
        };
        let mut marked = self.mark_live(namespace_id, live, &begin).await?;
        if marked.is_none() {
            // The run was archived meanwhile, and others of its key may not have been.
            let other = retention::find_run_of(self.cell.of(run), namespace_id, claim).await?;
            marked = self.mark_live(namespace_id, other, &begin).await?;
        }
        let until = match &marked {
            Some(family) => {
                self.erase_live(namespace_id, family, &mut erasure).await?;
                family.marked_at
            }
            None => self.clock.now(),
        };
        // An event that is dispatched from now on finds its run closed.
        webhook_deliveries::erase(self.cell.of(run), run, until).await?;
        // Afterwards: what was archived meanwhile is in a file.
        match archive {
            Some(archive) => {
                self.erase_archived(archive, namespace_id, claim, &mut erasure)
                    .await?;
            }
            None => drop(self.archive_of(claim).await?),
        }
        // Last of all: of an erasure that failed, the record says that it began.
        let roots = marked.map_or_else(Vec::new, |family| family.roots);
        retention::complete(self.cell.of(run), &roots, &done).await?;
        Ok(erasure)
    }

    /// A run of a run's key that is in the database, if any is, and their claim.
    async fn find_key(
        &self,
        namespace_id: i32,
        run: RunId,
    ) -> Result<(Option<RunId>, ClaimId), EraseError> {
        match self.family(namespace_id, run, None).await {
            Ok(family) => return Ok((Some(run), family.claim)),
            Err(EraseError::Unknown) => {}
            Err(error) => return Err(error),
        }
        let found = archives::find(self.cell.of(run), namespace_id, run).await?;
        let claim = found.ok_or(EraseError::Unknown)?.claim;
        let live = retention::find_run_of(self.cell.of(run), namespace_id, claim).await?;
        Ok((live, claim))
    }

    /// Closes the runs of a key that are in the database, after a look whether they can be erased.
    /// Nothing where there are none, or where they were archived meanwhile.
    async fn mark_live(
        &self,
        namespace_id: i32,
        live: Option<RunId>,
        act: &AuditEntry,
    ) -> Result<Option<Family>, EraseError> {
        let Some(live) = live else {
            return Ok(None);
        };
        let look = async {
            // Nothing is marked that could not be erased.
            let found = self.family(namespace_id, live, None).await?;
            let mut landed_at: Option<Timestamp> = None;
            for &(run, partition_date) in &found.runs {
                let remains = self.remains_of(run, partition_date).await?;
                landed_at = landed_at.max(self.landed_at(namespace_id, &remains.given_up));
            }
            self.expect_landed(landed_at)?;
            self.family(namespace_id, live, Some(act)).await
        };
        match look.await {
            Ok(family) => Ok(Some(family)),
            Err(EraseError::Unknown) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// From when on nothing can happen any more of what was given up in doubt; `None` where nothing was.
    fn landed_at(&self, namespace_id: i32, given_up: &[GivenUp]) -> Option<Timestamp> {
        let landing = self.landing();
        let destinations = self.vault.destinations(namespace_id);
        let over = given_up.iter().map(|it| {
            let name = it.request.connection();
            let connection = name.and_then(|name| destinations.connection(name));
            landing.after(&it.request, connection, it.times)
        });
        over.max()
    }

    /// Refuses while something may still happen that was given up in doubt: without its request nobody knows any more
    /// until when.
    fn expect_landed(&self, landed_at: Option<Timestamp>) -> Result<(), EraseError> {
        let retry_in = landed_at.map(|at| span_between(self.clock.now(), at));
        match retry_in.filter(|retry_in| retry_in.as_millis() > 0) {
            Some(retry_in) => Err(EraseError::MayStillHappen { retry_in }),
            None => Ok(()),
        }
    }

    async fn erase_live(
        &self,
        namespace_id: i32,
        family: &Family,
        erasure: &mut Erasure,
    ) -> Result<(), EraseError> {
        erasure.runs += family.runs.len() as u64;
        erasure.events_under_way = family.events_under_way;
        for batch in family.runs.chunks(BATCH) {
            self.erase_batch(namespace_id, family, batch, erasure)
                .await?;
        }
        Ok(())
    }

    async fn family(
        &self,
        namespace_id: i32,
        run: RunId,
        act: Option<&AuditEntry>,
    ) -> Result<Family, EraseError> {
        match retention::mark(self.cell.of(run), namespace_id, run, act).await? {
            Marked::Runs(family) => Ok(family),
            Marked::Unknown => Err(EraseError::Unknown),
            Marked::Open => Err(EraseError::NotEnded),
            Marked::TooMany => Err(EraseError::TooLarge),
        }
    }

    async fn remains_of(&self, run: RunId, partition_date: Date) -> Result<Remains, EraseError> {
        let rows = journal::read(self.cell.of(run), partition_date, run).await?;
        remains(run, &rows)
    }

    async fn erase_batch(
        &self,
        namespace_id: i32,
        family: &Family,
        batch: &[(RunId, Date)],
        erasure: &mut Erasure,
    ) -> Result<(), EraseError> {
        let mut erased = Vec::with_capacity(batch.len());
        for &(run, partition_date) in batch {
            let remains = self.remains_of(run, partition_date).await?;
            for name in remains.names {
                retention::erase_named(self.cell.of(name), name, run).await?;
            }
            erasure.started.extend(remains.started);
            erased.push(ErasedRun {
                run,
                partition_date,
                events: remains.events,
            });
        }
        let runs: Vec<RunId> = erased.iter().map(|it| it.run).collect();
        erasure.resources += self.erase_kept(namespace_id, &family.key, &runs).await?;
        if let Some(first) = erased.first() {
            retention::erase(self.cell.of(first.run), &erased).await?;
        }
        Ok(())
    }

    /// Erases what is kept of runs apart from them. Gives how many resources that was.
    async fn erase_kept(
        &self,
        namespace_id: i32,
        key: &[u8],
        runs: &[RunId],
    ) -> Result<u64, EraseError> {
        let cell = self.cell.every();
        let stored = retention::list_stored(cell, runs).await?;
        for resource in &stored {
            let removed = self.resources().remove(namespace_id, *resource).await;
            removed.map_err(|error| EraseError::Unavailable(error.to_string()))?;
        }
        retention::erase_elsewhere(cell, namespace_id, key, runs).await?;
        Ok(stored.len() as u64)
    }
}

/// What a journal keeps: where the run came from, which runs it started, its effects without what they gave, and
/// its end.
fn remains(run: RunId, rows: &[JournalRow]) -> Result<Remains, EraseError> {
    let mut ledger = PastLedger::new(run);
    let (mut names, mut started) = (BTreeSet::new(), BTreeSet::new());
    let (mut events, mut ended) = (Vec::new(), None);
    for row in rows {
        let read = row.read().map_err(|_| EraseError::Unreadable { run })?;
        for event in read {
            if let Event::Named {
                named: NameEvent::Asked { name, .. },
                ..
            } = &event
            {
                names.insert(*name);
            }
            if let Event::Started { run, .. } = &event {
                started.insert(*run);
                events.push(event.clone());
            }
            events.extend(erased_beginning(&event));
            ended = erased_end(&event).or(ended);
            ledger.read(event, row.at);
        }
    }
    let mut given_up = Vec::new();
    // A run that ended before it had read what the one before it did leaves that to the next.
    if ledger.unread().is_none() {
        let ended_at = rows.last().map_or(Timestamp::MAX, |row| row.at);
        let (event, doubts) = erased_ledger(ledger, ended_at);
        events.push(event);
        given_up = doubts;
    }
    events.extend(ended);
    Ok(Remains {
        events,
        names,
        started,
        given_up,
    })
}

/// Where the run came from.
fn erased_beginning(event: &Event) -> Option<Event> {
    let mut kept = event.clone();
    if let Event::Accepted {
        input,
        headers,
        query,
        ..
    } = &mut kept
    {
        *input = Value::from(ERASED);
        *headers = Value::Null;
        *query = Value::Null;
        return Some(kept);
    }
    if let Event::Begun(ChildBegun { item, .. }) = &mut kept {
        erase_value(item);
        return Some(kept);
    }
    matches!(kept, Event::Follows(_)).then_some(kept)
}

fn erased_end(event: &Event) -> Option<Event> {
    let Event::Ended {
        state,
        result,
        fault,
    } = event
    else {
        return None;
    };
    let (mut result, mut fault) = (result.clone(), fault.clone());
    erase_value(&mut result);
    fault.iter_mut().for_each(erase_fault);
    Some(Event::Ended {
        state: *state,
        result,
        fault,
    })
}

/// What the run and those before it did, as the next run of the key reads it, and what of it was in doubt.
fn erased_ledger(ledger: PastLedger, ended_at: Timestamp) -> (Event, Vec<GivenUp>) {
    let mut given_up = Vec::new();
    let mut inherited = ledger.inherited(0, |_| false);
    if let Event::Inherited { runs, effects, .. } = &mut inherited {
        // The reader adds the run itself.
        runs.remove(0);
        for effect in effects {
            match &mut effect.outcome {
                PastOutcome::Done { result, .. } => erase_value(result),
                PastOutcome::Failed { fault } | PastOutcome::DoubtErased { fault } => {
                    erase_fault(fault);
                }
                PastOutcome::Undone => {}
                // An operator gave it up. The next run needs to know that, and asks a person.
                PastOutcome::InDoubt {
                    request,
                    intended_at,
                    fault,
                    ..
                } => {
                    given_up.push(GivenUp {
                        request: request.clone(),
                        times: (*intended_at, ended_at),
                    });
                    erase_fault(fault);
                    let fault = fault.clone();
                    effect.outcome = PastOutcome::DoubtErased { fault };
                }
            }
        }
    }
    (inherited, given_up)
}

fn erase_value(value: &mut Value) {
    if !value.is_null() {
        *value = Value::from(ERASED);
    }
}

fn erase_fault(fault: &mut Fault) {
    ERASED.clone_into(&mut fault.message);
}
