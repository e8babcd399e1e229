//! Pausing a flow or a connection, and resuming it.

use std::sync::Arc;
use std::time::Duration;

use semel_model::Span;
use semel_store::audit::ReasonError;
use semel_store::pauses::{self, PAUSES_MAX, PauseKind, PauseResult, PauseSubject};
use semel_store::{connections, flows};

use super::connection::Actor;
use crate::runtime::Runtime;
use crate::unavailable::unavailable_from_store;

/// How long a pause waits for the writes that began before it.
const WRITERS_PATIENCE: Duration = Duration::from_secs(30);

/// The most runs that continue in a second after a pause, where an operator names a rate.
pub const RESUME_RATE_MAX: f64 = 10_000.0;

/// The fewest: one in about three hours.
pub const RESUME_RATE_MIN: f64 = 0.0001;

/// Why nothing is paused or resumed.
#[derive(Debug, thiserror::Error)]
pub enum PauseCommandError {
    /// There is no such flow or connection.
    #[error("there is no such {}", .0.as_str())]
    Unknown(PauseKind),
    /// It is paused, but writes that began before are not over.
    #[error("it is paused, but writes that began before are not over: repeat the command")]
    Unsettled,
    /// Too many pauses of the namespace began lately; nothing was done.
    #[error(
        "{PAUSES_MAX} pauses began in this namespace within a minute, and each holds up the runs of all \
         namespaces for a moment: repeat the command in {0}"
    )]
    TooMany(Span),
    /// The rate is none.
    #[error("a rate is a number from {RESUME_RATE_MIN} to {RESUME_RATE_MAX} in a second")]
    Rate,
    /// The reason cannot be recorded; nothing was done.
    #[error(transparent)]
    Reason(#[from] ReasonError),
    /// The database did not answer in time.
    #[error("the pause could not be stored: {0}")]
    Unavailable(String),
}

unavailable_from_store!(PauseCommandError);

impl Runtime {
    /// Pauses a flow or a connection. When this returns, no intent that it holds up is written any
    /// more, by any server. False where it was paused already.
    pub async fn pause(
        self: &Arc<Self>,
        by: Actor<'_>,
        (kind, name): (PauseKind, &str),
        reason: &str,
    ) -> Result<bool, PauseCommandError> {
        let action = match kind {
            PauseKind::Flow => "flow.pause",
            PauseKind::Connection => "connection.pause",
        };
        let act = by.act(action, name).because(reason)?;
        self.must_exist(by.namespace_id, kind, name).await?;
        let home = self.cell.home();
        let subject = subject(by.namespace_id, kind, name);
        let changed = match pauses::pause(home, subject, reason, &act).await? {
            PauseResult::Paused => true,
            PauseResult::Known => false,
            PauseResult::TooMany(retry_in) => return Err(PauseCommandError::TooMany(retry_in)),
        };
        // Also where it was paused before: the answer to that command may have been lost.
        if !pauses::await_writers(&self.cell, WRITERS_PATIENCE).await? {
            return Err(PauseCommandError::Unsettled);
        }
        self.pauses.refresh().await?;
        Ok(changed)
    }

    /// Resumes a flow or a connection: the runs that it held up continue, at most so many in a second
    /// where a rate is given. False where it was not paused.
    pub async fn resume_paused(
        self: &Arc<Self>,
        by: Actor<'_>,
        (kind, name): (PauseKind, &str),
        per_second: Option<f64>,
        reason: Option<&str>,
    ) -> Result<bool, PauseCommandError> {
        if per_second.is_some_and(|rate| !(RESUME_RATE_MIN..=RESUME_RATE_MAX).contains(&rate)) {
            return Err(PauseCommandError::Rate);
        }
        let action = match kind {
            PauseKind::Flow => "flow.resume",
            PauseKind::Connection => "connection.resume",
        };
        let act = by.act(action, name);
        let act = match reason {
            Some(reason) => act.because(reason)?,
            None => act,
        };
        let home = self.cell.home();
        let subject = subject(by.namespace_id, kind, name);
        let changed = pauses::resume(home, subject, per_second, &act).await?;
        if !changed {
            self.must_exist(by.namespace_id, kind, name).await?;
        }
        self.pauses.refresh().await?;
        self.signals.resumed.notify_one();
        Ok(changed)
    }

    async fn must_exist(
        &self,
        namespace_id: i32,
        kind: PauseKind,
        name: &str,
    ) -> Result<(), PauseCommandError> {
        let home = self.cell.home();
        let exists = match kind {
            PauseKind::Flow => flows::find(home, namespace_id, name).await?.is_some(),
            PauseKind::Connection => connections::find(home, namespace_id, name).await?.is_some(),
        };
        exists.then_some(()).ok_or(PauseCommandError::Unknown(kind))
    }

    /// How many flows and connections are paused, as this process knows it.
    pub fn count_paused(&self) -> usize {
        self.pauses.current().count_open()
    }
}

fn subject(namespace_id: i32, kind: PauseKind, name: &str) -> PauseSubject<'_> {
    PauseSubject {
        namespace_id,
        kind,
        name,
    }
}
