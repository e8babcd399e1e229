//! Asking for a reconcile pass. `services/reconcile_passes.rs` makes it.

use std::sync::Arc;

use jiff::Timestamp;
use semel_model::{FlowName, NamespaceName, ScheduleId, Span};
use semel_store::ReadError;
use semel_store::audit::AuditEntry;
use semel_store::reconcile_passes::{self as passes, NewPass};

use crate::commands::connection::Actor;
use crate::runtime::Runtime;
use crate::services::reconcile_passes::new_pass;

/// Why no pass is made.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// No live release of the flow reconciles.
    #[error("the flow has no live release with `reconcile`")]
    Unknown,
    /// It would look further back than keys are remembered.
    #[error("keys are remembered for {keep}, so a pass cannot look further back")]
    TooFarBack {
        /// How long keys are remembered.
        keep: Span,
    },
    /// A pass that somebody asked for is open, and does not look as far back.
    #[error("another pass of the flow is under way, which does not look as far back")]
    UnderWay,
    /// The database did not answer in time.
    #[error("the pass could not be stored")]
    Unavailable(#[from] ReadError),
}

impl Runtime {
    /// Opens a pass that starts now, or gives the one that was asked for before, is open, and looks as far
    /// back: at most one is open that starts runs, and one dry run. `since` says how far back it looks; otherwise
    /// the flow does. A dry run starts nothing.
    ///
    /// # Errors
    ///
    /// Where the flow does not reconcile, keys are not remembered for so long, or the one that is open looks less
    /// far back.
    pub async fn ask_reconcile(
        self: &Arc<Self>,
        by: Actor<'_>,
        (namespace, flow): (&NamespaceName, &FlowName),
        since: Option<Span>,
        dry_run: bool,
    ) -> Result<Timestamp, ReconcileError> {
        self.catalogue.refresh().await?;
        let release = self.catalogue.find_flow(by.namespace_id, flow);
        let release = release.ok_or(ReconcileError::Unknown)?;
        let declared = release.flow.reconcile.as_ref();
        let window = declared.ok_or(ReconcileError::Unknown)?.window;
        let (window, keep) = (since.unwrap_or(window), release.flow.keep);
        if window > keep {
            return Err(ReconcileError::TooFarBack { keep });
        }
        let id = ScheduleId::derive(namespace, flow);
        let now = self.clock.now().as_microsecond();
        let nominal = Timestamp::from_microsecond(now).unwrap_or(Timestamp::UNIX_EPOCH);
        let new = NewPass {
            dry_run,
            asked_by: Some(by.actor.to_owned()),
            ..new_pass(id, &release, nominal, window)
        };
        let act = AuditEntry::new(by.namespace_id, by.actor, "reconcile.run", flow.as_str());
        if passes::open(self.cell.of(id), &new, Some(&act)).await? {
            return Ok(nominal);
        }
        let cell = self.cell.of(id);
        let open = passes::find_open_asked(cell, by.namespace_id, id, dry_run).await?;
        match open {
            Some(open) if open.new.window_start <= new.window_start => Ok(open.new.nominal),
            // One that has just ended leaves its place to the next request.
            Some(_) | None => Err(ReconcileError::UnderWay),
        }
    }
}
