//! Dropping a key: its next delivery makes a new run.

use std::sync::Arc;

use semel_model::{FlowName, Key, NamespaceName, RunId};
use semel_steps::failpoint::failpoint;
use semel_store::audit::{AuditEntry, ReasonError};
use semel_store::{claims, runs};

use crate::runtime::Runtime;
use crate::unavailable::unavailable_from_store;

/// Why a key is not dropped.
#[derive(Debug, thiserror::Error)]
pub enum DropError {
    /// No run holds this key.
    #[error("no run holds this key")]
    Unknown,
    /// Its run has not ended: dropping its key would let a second run beside it.
    #[error("{run} has not ended")]
    RunNotEnded {
        /// The run.
        run: RunId,
    },
    /// The reason cannot be recorded; nothing was done.
    #[error(transparent)]
    Reason(#[from] ReasonError),
    /// The database did not answer in time.
    #[error("the key could not be dropped: {0}")]
    Unavailable(String),
}

impl DropError {
    /// The stable word for this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown => "key-not-found",
            Self::RunNotEnded { .. } => "run-not-ended",
            Self::Reason(error) => error.code(),
            Self::Unavailable(_) => "database-unavailable",
        }
    }
}

unavailable_from_store!(DropError);

/// How a key is dropped.
#[derive(Clone, Copy, Debug)]
pub struct DropWish<'a> {
    /// Why, in the operator's words.
    pub reason: &'a str,
    /// Whether the key is a new intent from now on: what its runs did may be done again, under new
    /// keys.
    pub new_intent: bool,
}

impl Runtime {
    /// Frees a key whose run has ended, so that its next delivery makes a new run behind the same
    /// ledger, unless the key is to be a new intent.
    pub async fn drop_key(
        self: &Arc<Self>,
        namespace_id: i32,
        namespace: &NamespaceName,
        flow: &FlowName,
        key: &Key,
        wish: DropWish<'_>,
        actor: &str,
    ) -> Result<RunId, DropError> {
        let cell = &self.cell;
        let DropWish { reason, new_intent } = wish;
        let name = match new_intent {
            true => "key.drop.new-intent",
            false => "key.drop",
        };
        let act = AuditEntry::new(namespace_id, actor, name, &format!("{flow} {key}"));
        let act = act.because(reason)?;
        let held = claims::find_by_key(cell.every(), namespace, flow, key).await?;
        let view = held.ok_or(DropError::Unknown)?;
        let run = runs::find(cell.of(view.run), namespace_id, view.run).await?;
        if run.is_some_and(|run| !run.state.is_ended()) {
            return Err(DropError::RunNotEnded { run: view.run });
        }
        failpoint("drop.judged", &key.text()).await;
        let act = act.about(view.run);
        if claims::drop_claim(cell.of(view.id), view.id, view.run, new_intent, &act).await? {
            return Ok(view.run);
        }
        // Another request was faster: the run was resumed, or the key is free or another run's.
        match claims::find(cell.of(view.id), view.id).await? {
            Some(held) => Err(DropError::RunNotEnded { run: held.run }),
            None => Err(DropError::Unknown),
        }
    }
}
