//! Resuming: a run that failed or gave up goes on, behind its ledger.
//!
//! What is done stays done and is not done again; what is known not to have happened is tried
//! again under the same key. A doubt is not resumed but settled.

use semel_model::event::Event;
use semel_model::run::State;
use semel_model::{RunId, Span};
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
            (State::Failed, None) => {
                let keep = self.keep_of(namespace_id, run).await?;
                let reopened = self.reopen(run, reason, keep).await?;
                if !reopened && self.has_failed(run).await? {
                    return Err(unfit("another run answers for its key now"));
                }
            }
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

    /// Lets a run go on that failed. False where it did not, goes on already, or another run has
    /// its key.
    pub(crate) async fn reopen(
        &self,
        run: RunId,
        reason: &str,
        keep: Span,
    ) -> Result<bool, ReadError> {
        let reopened = runs::reopen(&self.inner.cell, run, reason, keep).await?;
        if reopened {
            self.inner.wake.notify_one();
        }
        Ok(reopened)
    }

    /// How long the key of a run is kept, by the release that the run is on.
    async fn keep_of(&self, namespace_id: i32, run: RunId) -> Result<Span, ResumeError> {
        let inner = &self.inner;
        let found = runs::find_release(&inner.cell, namespace_id, run).await?;
        let (release, _) = found.ok_or(ResumeError::Unknown)?;
        let release = inner.catalogue.get(release).await?;
        let release = release.ok_or_else(|| unreadable("its release cannot be read"))?;
        Ok(release.flow.keep)
    }

    async fn has_failed(&self, run: RunId) -> Result<bool, ResumeError> {
        let standing = runs::list_standings(&self.inner.cell, &[run]).await?.pop();
        Ok(standing.is_some_and(|standing| standing.state == State::Failed))
    }

    async fn unpark(&self, run: RunId, reason: &str) -> Result<(), ResumeError> {
        let mut turn = self.take(run).await?;
        turn.forgive();
        turn.observe(Event::Resumed {
            reason: reason.to_owned(),
        });
        turn.commit(Lease::Keep).await.map_err(|stop| match stop {
            Stop::Fenced => ResumeError::Busy,
            Stop::Unsure(reason) | Stop::Refused(reason) => ResumeError::Unavailable(reason),
        })?;
        self.inner.turns.spawn(turn.drive());
        Ok(())
    }
}

fn unreadable(reason: &str) -> ResumeError {
    ResumeError::Unavailable(reason.to_owned())
}
