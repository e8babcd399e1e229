//! Replay: the next run of a key, made by an operator behind the ledger of the last one.
//!
//! ```text
//! preview ─▶ digest ─▶ apply ══▶ the last run has ended; the claim names the next one
//! ```
//!
//! `══▶` is one commit. What is done is not done again, whatever release the next run is on
//! ([`crate::decide`]); a replay therefore adds nothing but the run. Apply makes the preview again
//! and is refused where it says something else. Asked twice, it finds the run that it made: what
//! asked for a run is recorded with it.

use std::sync::Arc;

use semel_model::event::{Event, FollowedRun};
use semel_model::id::digest;
use semel_model::replay::{ReplayObstacle, ReplayPreview};
use semel_model::run::RunState;
use semel_model::{DeliveryId, RunId, SeededBug};
use semel_steps::failpoint::failpoint;
use semel_store::audit::{AuditEntry, ReasonError};
use semel_store::claims::{self, HeldKey, NextRun};
use serde_json::Value;
use uuid::Uuid;

use crate::catalogue::Release;
use crate::ingest::{Accepted, IntakeError};
use crate::runtime::Runtime;
use crate::state::FoldError;
use crate::turn::command::CommandError;
use crate::turn::first_row;
use crate::unavailable::unavailable_from_store;

use super::resume::{is_given_up, is_rejection};

mod last_run;
mod prepare;
mod report;

use prepare::Prepared;

/// Why a run is not replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// There is no such run.
    #[error("there is no such run")]
    Unknown,
    /// It cannot be replayed as it is.
    #[error("the run is {state}: {hint}")]
    Unfit {
        /// What it is.
        state: RunState,
        /// What to do instead.
        hint: String,
    },
    /// The flow has no such release.
    #[error("the flow has no release {0}")]
    NoRelease(String),
    /// The input is not one of this run.
    #[error("{0}")]
    Input(String),
    /// Something that the preview shows is in the way.
    #[error("{}", .0.message)]
    Blocked(ReplayObstacle),
    /// What would happen is not what the operator saw.
    #[error("what the replay would do has changed since its preview: preview it again")]
    Changed,
    /// The reason cannot be recorded; nothing was done.
    #[error(transparent)]
    Reason(#[from] ReasonError),
    /// A worker holds the run at this moment.
    #[error("a worker is at this run right now")]
    Busy,
    /// Its journal does not fit.
    #[error("the journal of the run cannot be followed: {0}")]
    Inconsistent(FoldError),
    /// The database did not answer in time.
    #[error("the replay could not be stored: {0}")]
    Unavailable(String),
}

/// How many runs of a key deliveries that come again may make: each reads what all before it did.
const RUNS_BY_REPEATS_MAX: u32 = 100;

/// The stable word for a run that cannot be replayed.
const NOT_REPLAYABLE: &str = "not-replayable";

impl ReplayError {
    /// The stable word for this error.
    pub fn code(&self) -> &str {
        match self {
            Self::Unknown => "run-not-found",
            Self::Unfit { .. } => NOT_REPLAYABLE,
            Self::NoRelease(_) => "release-not-found",
            Self::Input(_) => "input-invalid",
            Self::Blocked(obstacle) => &obstacle.code,
            Self::Changed => "replay-changed",
            Self::Reason(error) => error.code(),
            Self::Busy => "run-busy",
            Self::Inconsistent(_) => "journal-inconsistent",
            Self::Unavailable(_) => "database-unavailable",
        }
    }
}

impl From<CommandError> for ReplayError {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Busy => Self::Busy,
            CommandError::Inconsistent(error) => Self::Inconsistent(error),
            CommandError::Unavailable(reason) => Self::Unavailable(reason),
        }
    }
}

unavailable_from_store!(ReplayError);

/// How a run is replayed.
#[derive(Clone, Debug, Default)]
pub struct ReplayWish {
    /// The number of the release that the next run is on; the live one, where nothing is said.
    pub release: Option<i32>,
    /// The step from which on reads and functions are made again; the first that is not done, where
    /// nothing is said.
    pub from: Option<String>,
    /// The input of the next run; that of the last one, where nothing is said.
    pub input: Option<Value>,
    /// The token that gives another input: it counts as the starter of the next run.
    pub by: Option<String>,
    /// The steps that are reused although their requests differ now.
    pub accepts: Vec<String>,
}

impl Runtime {
    /// Says what a replay of a run would do, and changes nothing.
    pub async fn preview_replay(
        self: &Arc<Self>,
        namespace_id: i32,
        run: RunId,
        wish: &ReplayWish,
    ) -> Result<ReplayPreview, ReplayError> {
        let held = claims::find_of_run(self.cell.of(run), namespace_id, run).await?;
        let held = held.ok_or(ReplayError::Unknown)?;
        let prepared = self.prepare_replay(namespace_id, run, &held, wish).await?;
        Ok(prepared.preview)
    }

    /// Replays a run, where that does what the preview with this digest showed. Gives the next run;
    /// when this returns, it is committed.
    pub async fn replay(
        self: &Arc<Self>,
        namespace_id: i32,
        run: RunId,
        wish: &ReplayWish,
        (digest, reason): (&str, Option<&str>),
        actor: &str,
    ) -> Result<RunId, ReplayError> {
        let act = AuditEntry::new(namespace_id, actor, "run.replay", &run.to_string()).about(run);
        let act = match reason {
            Some(reason) => act.because(reason)?,
            None if wish.input.is_some() => return Err(ReasonError::Empty.into()),
            None => act,
        };
        self.apply_replay((namespace_id, run), wish, digest, Some(act))
            .await
    }

    async fn apply_replay(
        self: &Arc<Self>,
        (namespace_id, run): (i32, RunId),
        wish: &ReplayWish,
        digest: &str,
        act: Option<AuditEntry>,
    ) -> Result<RunId, ReplayError> {
        let asked = asked_by(run, digest);
        let held = claims::find_of_run(self.cell.of(run), namespace_id, run).await?;
        let held = held.ok_or(ReplayError::Unknown)?;
        if let Some(made) = made_by(&held, run, asked) {
            return Ok(made);
        }
        let prepared = self.prepare_replay(namespace_id, run, &held, wish).await?;
        if prepared.preview.digest != digest && !SeededBug::ReplayDigestIgnored.is_seeded() {
            return Err(ReplayError::Changed);
        }
        self.apply_prepared(prepared, &held, (asked, act)).await
    }

    async fn apply_prepared(
        self: &Arc<Self>,
        prepared: Prepared,
        held: &HeldKey,
        (asked, act): (DeliveryId, Option<AuditEntry>),
    ) -> Result<RunId, ReplayError> {
        if let Some(obstacle) = prepared.preview.obstacles.first() {
            return Err(ReplayError::Blocked(obstacle.clone()));
        }
        let namespace_id = prepared.release.namespace_id;
        let last = (prepared.preview.run, prepared.state, prepared.seq);
        let next = next_run(prepared, held, asked)?;
        self.follow(namespace_id, last, next, act).await
    }

    /// Replays a run that failed on the live release, because its delivery or request came again, and
    /// answers with the next run. What people rejected stays rejected, a doubt that an operator failed
    /// stays failed, and where something changed or is in the way the stored failure is the answer.
    pub(crate) async fn replay_for_repeat(
        self: &Arc<Self>,
        namespace_id: i32,
        accepted: &mut Accepted,
    ) -> Result<(), IntakeError> {
        let fault = accepted.fault.as_deref();
        if is_rejection(fault) || is_given_up(fault) {
            return Ok(());
        }
        let run = accepted.run;
        let held = claims::find_of_run(self.cell.of(run), namespace_id, run).await;
        let held = held.map_err(|error| IntakeError::Unavailable(error.to_string()))?;
        let Some(held) = held.filter(|held| held.number < RUNS_BY_REPEATS_MAX) else {
            return Ok(());
        };
        match self.replay_as_shown(namespace_id, run, &held).await {
            Ok(next) => {
                accepted.run = next;
                accepted.state = RunState::Active;
                (accepted.result, accepted.fault) = (None, None);
            }
            Err(ReplayError::Unavailable(reason)) => return Err(IntakeError::Unavailable(reason)),
            Err(error) => {
                tracing::info!(run.id = %run, code = error.code(),
                    "a repeated delivery does not replay its run: {error}");
            }
        }
        Ok(())
    }

    /// Replays a run on the live release, whatever its preview shows.
    async fn replay_as_shown(
        self: &Arc<Self>,
        namespace_id: i32,
        run: RunId,
        held: &HeldKey,
    ) -> Result<RunId, ReplayError> {
        let wish = ReplayWish::default();
        let prepared = self.prepare_replay(namespace_id, run, held, &wish).await?;
        let asked = asked_by(run, &prepared.preview.digest);
        self.apply_prepared(prepared, held, (asked, None)).await
    }

    /// Makes the next run in one commit with the end of the last one, where that has not ended.
    async fn follow(
        self: &Arc<Self>,
        namespace_id: i32,
        (run, state, seq): (RunId, RunState, i32),
        next: NextRun,
        act: Option<AuditEntry>,
    ) -> Result<RunId, ReplayError> {
        let (made, asked, key) = (next.run(), next.delivery, next.key.text());
        failpoint("replay.before", &key).await;
        let is_made = match state.is_ended() {
            true => claims::make_next_run(self.cell.of(run), &next, act.as_ref()).await?,
            false => {
                self.take(run).await?.end_for(next, seq, act).await?;
                true
            }
        };
        failpoint("replay.after", &key).await;
        self.signals.wake.notify_one();
        if is_made {
            return Ok(made);
        }
        // Another request was first: the same one, or another.
        let held = claims::find_of_run(self.cell.of(run), namespace_id, run).await?;
        let found = held.and_then(|held| made_by(&held, run, asked));
        found.ok_or(ReplayError::Busy)
    }
}

/// The run that this very request made before, where it did.
fn made_by(held: &HeldKey, last: RunId, asked: DeliveryId) -> Option<RunId> {
    (held.run != last && held.delivery == Some(asked)).then_some(held.run)
}

/// What asks for the next run: the same for every repeat of the request.
fn asked_by(run: RunId, preview: &str) -> DeliveryId {
    let parts = [run.as_uuid().as_bytes().as_slice(), preview.as_bytes()];
    DeliveryId::from_uuid(Uuid::from_bytes(digest("semel.replay.1", &parts)))
}

fn next_run(prepared: Prepared, held: &HeldKey, asked: DeliveryId) -> Result<NextRun, ReplayError> {
    let Prepared {
        preview,
        release,
        key,
        accepted,
        follows,
        ..
    } = prepared;
    let follows = [follows];
    let events = first_row(&accepted, &follows)
        .map_err(|error| ReplayError::Unavailable(error.to_string()))?;
    let Release { id, flow, .. } = &*release;
    Ok(NextRun {
        claim: held.claim,
        last: preview.run,
        number: held.number + 1,
        namespace_id: release.namespace_id,
        release_id: *id,
        key,
        keep: flow.keep,
        delivery: asked,
        events,
    })
}

/// What the next run of a key follows.
fn follows(held: &HeldKey, last: RunId, accepts: Vec<String>, kept: Vec<String>) -> Event {
    Event::Follows(FollowedRun {
        first: RunId::derive(held.claim, 0),
        last,
        intent: held.intent,
        accepts,
        kept,
    })
}
