//! Taking a run into this process: what a poller found due, or the one that a command names.

use std::sync::Arc;
use std::time::Duration;

use semel_model::RunId;
use semel_store::queue::{self, Taken};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::Turn;
use super::command::CommandError;
use crate::runtime::{Runtime, WorkerSession};

/// How long a take and what is loaded with it may stay unanswered. PostgreSQL's own limit is
/// shorter, so the connection is dead by then without an error.
const TAKE_PATIENCE: Duration = Duration::from_secs(20);

pub(crate) async fn within_patience<T, E: std::fmt::Display>(
    taking: impl Future<Output = Result<T, E>>,
) -> Result<T, String> {
    match tokio::time::timeout(TAKE_PATIENCE, taking).await {
        Ok(taken) => taken.map_err(|error| error.to_string()),
        Err(_) => Err("no answer in time".to_owned()),
    }
}

/// How many seconds sooner or later than others a run is due that waits for room to begin, for each
/// step of its flow's priority. A run that waits for longer than that goes first.
const HEAD_START_SECS: f64 = 10.0;

/// The most that any priority gives.
pub(crate) const HEAD_START_SECS_MAX: f64 = 10.0 * HEAD_START_SECS;

/// Changes the due time of a run that no worker had room for, as its flow's priority says.
pub(crate) async fn give_head_start(runtime: &Runtime, run: RunId, priority: i8) {
    let secs = f64::from(priority) * HEAD_START_SECS;
    if let Err(error) = queue::give_head_start(runtime.cell.of(run), run, secs).await {
        tracing::debug!(%error, run.id = %run, "failed to apply a run's priority");
    }
}

/// How long an operator's command waits for room among the runs of this process.
const ROOM_PATIENCE: Duration = Duration::from_secs(5);

/// How long an operator's command tries to take a run that a worker holds: a worker that looks at a
/// stopped run returns it at once. The last try may wait [`ROOM_PATIENCE`] more.
const HELD_PATIENCE: Duration = Duration::from_secs(2);

/// How long it rests between two tries.
const HELD_PAUSE: Duration = Duration::from_millis(50);

impl Runtime {
    /// Moves a run that was taken; `suspect` where it was taken before without progress.
    pub(crate) async fn move_on(
        self: Arc<Self>,
        taken: Taken,
        session: Arc<WorkerSession>,
        suspect: Option<OwnedSemaphorePermit>,
    ) {
        let Some(place) = self.work.room.enter(taken.namespace_id).await else {
            return;
        };
        match self.load(taken, session, place).await {
            Ok(turn) => {
                self.work.turns.spawn(turn.suspected(suspect).drive());
            }
            Err(unloaded) => self.put_off(unloaded).await,
        }
    }

    /// Takes a run as any worker does, for an operator's command.
    pub(crate) async fn take(self: &Arc<Self>, run: RunId) -> Result<Turn, CommandError> {
        let (until, stop) = (Instant::now() + HELD_PATIENCE, &self.shutdown.requested);
        loop {
            match self.take_now(run).await {
                Err(CommandError::Busy) if Instant::now() < until && !stop.is_cancelled() => {
                    tokio::time::sleep(HELD_PAUSE).await;
                }
                taken => return taken,
            }
        }
    }

    async fn take_now(self: &Arc<Self>, run: RunId) -> Result<Turn, CommandError> {
        let session = self.session();
        let room = self.work.room.enter_for_operator();
        let Ok(Some(place)) = tokio::time::timeout(ROOM_PATIENCE, room).await else {
            return Err(CommandError::Busy);
        };
        let id = session.id;
        let mut taker = self.work.single.lock().await;
        // Until the turn has entered the run, or no turn of this process will begin to carry it.
        let holding = self.work.holdings.carry(id, run);
        let taken = match within_patience(taker.take_one(id, run)).await {
            Ok(taken) => taken,
            Err(error) => {
                drop(holding);
                self.work.holdings.ask_after_failure();
                taker.recover_link().await;
                return Err(CommandError::Unavailable(error));
            }
        };
        drop(taker);
        let (taken, now) = taken.ok_or(CommandError::Busy)?;
        self.clock.set(now);
        match self.load(taken, session, place).await {
            Ok(turn) => Ok(turn),
            Err(unloaded) => {
                let error = unloaded.as_command_error();
                self.put_off(unloaded).await;
                Err(error)
            }
        }
    }
}
