//! Runs that cannot be loaded: postponed, counted, and quarantined without reading them.
//!
//! A run that a newer version wrote is left to another server: it is postponed by some seconds each
//! time and never counted. One that cannot be read at all is postponed for longer each time, and
//! quarantined at its fifth take. A journal whose events do not fit each other is quarantined at
//! once. Each is logged once per run and process, and counted at every take.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use semel_model::{Fault, RunId, SessionId};
use semel_store::ReadError;
use semel_store::queue::{self, ReturnCause, Taken};
use semel_store::runs::Stage;

use crate::runtime::WorkerSession;
use crate::runtime::{Place, Runtime, jitter};
use crate::turn::command::CommandError;
use crate::turn::parent_state::Unread;
use crate::turn::{TAKES_MAX, Turn, inconsistent};

/// How long a run that a newer version wrote is left to other servers, in seconds.
const NEWER_SECS: f64 = 5.0;

/// How long a run rests after its first take that could not read it, in seconds; doubled each time.
const DAMAGED_SECS: f64 = 0.2;

/// A run that was taken and could not be loaded.
pub(crate) struct Unloaded {
    run: RunId,
    epoch: i64,
    session: SessionId,
    takes: i16,
    quarantined: bool,
    why: Unread,
}

impl Unloaded {
    /// Why, for the command that wanted the run.
    pub(crate) fn as_command_error(&self) -> CommandError {
        match &self.why {
            Unread::Inconsistent(error) => CommandError::Inconsistent(error.clone()),
            Unread::Unavailable(_) | Unread::Newer(_) | Unread::Damaged(_) => {
                CommandError::Unavailable(self.why.to_string())
            }
        }
    }
}

impl Runtime {
    /// Loads a run that was taken. A journal that cannot be followed must not end its taker.
    pub(crate) async fn load(
        self: &Arc<Self>,
        taken: Taken,
        session: Arc<WorkerSession>,
        place: Place,
    ) -> Result<Turn, Unloaded> {
        let unloaded = Unloaded {
            run: taken.run,
            epoch: taken.epoch,
            session: session.id,
            takes: taken.takes,
            quarantined: taken.quarantined,
            why: Unread::Damaged("its journal cannot be followed".to_owned()),
        };
        let loading = Turn::load(self.clone(), taken, session, place);
        match AssertUnwindSafe(loading).catch_unwind().await {
            Ok(Ok(turn)) => Ok(turn),
            Ok(Err(why)) => Err(Unloaded { why, ..unloaded }),
            Err(_) => Err(unloaded),
        }
    }

    /// Returns a run that could not be loaded with a later due time, so that no worker spins on it.
    pub(crate) async fn put_off(self: &Arc<Self>, unloaded: Unloaded) {
        let Unloaded {
            run,
            epoch,
            session,
            takes,
            quarantined,
            why,
        } = unloaded;
        let cell = self.cell.of(run);
        let given_back = match &why {
            Unread::Unavailable(reason) => {
                tracing::info!(run.id = %run, reason, "failed to load a run; retrying");
                return self.return_to_queue((run, epoch), session, ReturnCause::Trouble);
            }
            _ if quarantined => {
                let stopped = (None, Stage::Stopped);
                queue::sleep_on(cell, run, epoch, session, stopped, true).await
            }
            Unread::Newer(_) => {
                self.say(run, &why);
                let secs = NEWER_SECS * (1.0 + jitter());
                queue::defer(cell, run, epoch, session, (secs, false)).await
            }
            Unread::Damaged(reason) if takes < TAKES_MAX => {
                self.say(run, &why);
                tracing::debug!(run.id = %run, takes, reason, "postponed a run that cannot be read");
                let secs = DAMAGED_SECS * f64::from(1_i32 << takes.clamp(0, 10));
                queue::defer(cell, run, epoch, session, (secs, true)).await
            }
            // Reading it again would find the same.
            Unread::Inconsistent(error) => {
                self.metrics.journals_inconsistent.add_one();
                self.say(run, &why);
                self.quarantine(run, epoch, session, &inconsistent(error))
                    .await
            }
            Unread::Damaged(reason) => {
                let fault = Fault::permanent("run-unreadable", reason.clone());
                self.quarantine(run, epoch, session, &fault).await
            }
        };
        match given_back {
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(run.id = %run, %error, "failed to postpone a run");
                self.return_to_queue((run, epoch), session, ReturnCause::Trouble);
            }
        }
    }

    async fn quarantine(
        &self,
        run: RunId,
        epoch: i64,
        session: SessionId,
        fault: &Fault,
    ) -> Result<bool, ReadError> {
        let stopped = queue::quarantine(self.cell.of(run), run, epoch, session, fault).await?;
        if stopped {
            self.metrics.runs_stopped.add_one();
            tracing::warn!(run.id = %run, code = fault.code, "a run is quarantined");
        }
        Ok(stopped)
    }

    fn say(&self, run: RunId, why: &Unread) {
        self.metrics.runs_unreadable.add_one();
        if self.work.stalled.is_news(run) {
            tracing::warn!(run.id = %run, "a run cannot be read: {why}");
        }
    }
}
