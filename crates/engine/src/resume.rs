//! Resuming: a run that failed or gave up goes on, behind its ledger.
//!
//! What is done stays done and is not done again; what is known not to have happened is tried
//! again under the same key. A doubt is not resumed but settled.

use semel_model::RunId;
use semel_model::event::Event;
use semel_model::run::State;
use semel_store::ReadError;
use semel_store::audit::{self, Act};
use semel_store::journal::Lease;
use semel_store::runs;

use crate::engine::Engine;
use crate::lease::TakeError;
use crate::turn::Stop;

/// Why a run is not resumed.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// There is no such run.
    #[error("there is no such run")]
    Unknown,
    /// Its state is none to resume from.
    #[error("the run is {state}: {hint}")]
    Unfit {
        /// What it is.
        state: State,
        /// What to do instead.
        hint: String,
    },
    /// A worker holds the run at this moment.
    #[error("a worker is at this run right now")]
    Busy,
    /// The database did not answer in time.
    #[error("the decision could not be written down: {0}")]
    Unavailable(String),
}

impl ResumeError {
    /// The stable word for this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown => "run-not-found",
            Self::Unfit { .. } => "not-resumable",
            Self::Busy => "run-busy",
            Self::Unavailable(_) => "database-unavailable",
        }
    }
}

impl From<TakeError> for ResumeError {
    fn from(error: TakeError) -> Self {
        match error {
            TakeError::Busy => Self::Busy,
            TakeError::Unavailable(reason) => Self::Unavailable(reason),
        }
    }
}

impl From<ReadError> for ResumeError {
    fn from(error: ReadError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

impl Engine {
    /// Lets a run go on in a person's name. When this returns, the decision is committed.
    pub async fn resume(
        &self,
        namespace_id: i32,
        run: RunId,
        reason: &str,
        actor: &str,
    ) -> Result<(), ResumeError> {
        let cell = &self.inner.cell;
        let view = runs::find(cell, namespace_id, run).await?;
        let view = view.ok_or(ResumeError::Unknown)?;
        let unfit = |hint: &str| ResumeError::Unfit {
            state: view.state,
            hint: hint.to_owned(),
        };
        match (view.state, view.parent) {
            (State::Failed, Some(parent)) => {
                return Err(unfit(&format!(
                    "resume the run that it is a part of, {parent}"
                )));
            }
            (State::Failed, None) => self.reopen(run, reason).await?,
            (State::NeedsReview | State::Quarantined, _) => self.unpark(run, reason).await?,
            (State::InDoubt, _) => return Err(unfit("settle the doubt first, semel doubt list")),
            (State::Active, _) => return Err(unfit("it goes on by itself")),
            (State::Succeeded, _) => return Err(unfit("there is nothing left to do")),
            (State::Cancelled, _) => return Err(unfit("a person ended it; start another one")),
        }
        let act = Act {
            namespace_id,
            actor,
            action: "run.resume",
            subject: &run.to_string(),
            reason: Some(reason),
        };
        audit::append(cell, &act).await?;
        Ok(())
    }

    /// Lets a run go on that failed; nothing where it did not, or goes on already.
    pub(crate) async fn reopen(&self, run: RunId, reason: &str) -> Result<(), ReadError> {
        if runs::reopen(&self.inner.cell, run, reason).await? {
            self.inner.wake.notify_one();
        }
        Ok(())
    }

    async fn unpark(&self, run: RunId, reason: &str) -> Result<(), ResumeError> {
        let mut turn = self.take(run).await?;
        turn.forgive();
        turn.observe(Event::Resumed {
            reason: reason.to_owned(),
        });
        turn.commit(Lease::Keep).await.map_err(|stop| match stop {
            Stop::Fenced => ResumeError::Busy,
            Stop::Unsure(reason) => ResumeError::Unavailable(reason),
        })?;
        self.inner.turns.spawn(turn.drive());
        Ok(())
    }
}
