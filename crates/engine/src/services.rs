//! Services: the background tasks of a process, one file each.

use std::sync::Arc;

use tokio::task::AbortHandle;

use crate::runtime::Runtime;

pub mod broadcasts;
mod cache_refresh;
mod gate_repair;
pub mod outbox;
mod poller;
pub(crate) mod reconcile;
pub mod recovery;
pub mod retention;
pub mod scheduler;
mod session;
mod webhooks;

/// Starts every service.
pub(crate) fn start(runtime: &Arc<Runtime>) -> Vec<AbortHandle> {
    [
        tokio::spawn(session::keep_renewing(runtime.clone())),
        tokio::spawn(poller::keep_taking(runtime.clone())),
        tokio::spawn(reconcile::keep_reconciling(runtime.clone())),
        tokio::spawn(recovery::keep_recovering(runtime.clone())),
        tokio::spawn(retention::keep_forgetting(runtime.clone())),
        tokio::spawn(cache_refresh::keep_fresh(runtime.clone())),
        tokio::spawn(outbox::keep_spreading(runtime.clone())),
        tokio::spawn(scheduler::keep_ticking(runtime.clone())),
        tokio::spawn(gate_repair::keep_telling(runtime.clone())),
    ]
    .map(|service| service.abort_handle())
    .into()
}
