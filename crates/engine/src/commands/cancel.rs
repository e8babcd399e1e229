//! Cancelling a run.

use std::sync::Arc;

use semel_model::RunId;
use semel_store::audit::{AuditEntry, ReasonError};
use semel_store::{queue, runs};

use crate::runtime::Runtime;
use crate::unavailable::unavailable_from_store;

/// Why a run is not cancelled.
#[derive(Debug, thiserror::Error)]
pub enum CancelError {
    /// There is no such run.
    #[error("there is no such run")]
    Unknown,
    /// It has ended already.
    #[error("the run has ended")]
    Ended,
    /// The reason cannot be recorded; nothing was done.
    #[error(transparent)]
    Reason(#[from] ReasonError),
    /// The database did not answer in time.
    #[error("the cancellation could not be stored: {0}")]
    Unavailable(String),
}

impl CancelError {
    /// The stable word for this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown => "run-not-found",
            Self::Ended => "run-ended",
            Self::Reason(error) => error.code(),
            Self::Unavailable(_) => "database-unavailable",
        }
    }
}

unavailable_from_store!(CancelError);

impl Runtime {
    /// Asks a run to end. It ends at its next step: an attempt that has begun is not cut off, and a
    /// doubt is settled first.
    pub async fn cancel(
        self: &Arc<Self>,
        namespace_id: i32,
        run: RunId,
        reason: &str,
        actor: &str,
    ) -> Result<(), CancelError> {
        let act = cancel_act(namespace_id, run, actor).because(reason)?;
        self.cancel_by(namespace_id, run, &act).await
    }

    /// The same, recorded as this act.
    pub(super) async fn cancel_by(
        self: &Arc<Self>,
        namespace_id: i32,
        run: RunId,
        act: &AuditEntry,
    ) -> Result<(), CancelError> {
        let cell = &self.cell;
        if !queue::ask_cancel_by(cell.of(run), namespace_id, run, act).await? {
            let known = runs::find(cell.of(run), namespace_id, run).await?;
            return Err(known.map_or(CancelError::Unknown, |_| CancelError::Ended));
        }
        self.signals.wake.notify_one();
        Ok(())
    }
}

/// The act of cancelling a run.
pub(super) fn cancel_act(namespace_id: i32, run: RunId, actor: &str) -> AuditEntry {
    AuditEntry::new(namespace_id, actor, "run.cancel", &run.to_string()).about(run)
}
