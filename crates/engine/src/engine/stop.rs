//! How a process stops.
//!
//! ```text
//! take nothing more ─▶ runs reach their next commit ─▶ the journal's writer stops trying
//!                                                  ─▶ outcomes that cannot be recorded go to disk
//! ```

use std::time::{Duration, Instant};

use semel_store::sessions;

use super::Engine;
use crate::services::reconciliation::reconcile;

/// How long a stopping process takes by default.
const STOP_PATIENCE: Duration = Duration::from_secs(20);

/// How long a stopping process takes to tell the others that it stops.
const LEAVE_PATIENCE: Duration = Duration::from_secs(1);

/// The share of that time in which its runs may reach their next commit. The rest is for storing
/// outcomes that could not be recorded on disk.
const COMMIT_SHARE: f64 = 0.8;

/// The share of that rest for a write that was not confirmed yet, or comes now.
const LAST_TRY_SHARE: f64 = 0.4;

impl Engine {
    /// Stops taking runs, lets those it holds reach their next commit, and returns the rest to the
    /// queue.
    pub async fn shutdown(&self) {
        self.shutdown_within(STOP_PATIENCE).await;
    }

    /// Stops as [`Engine::shutdown`] does, within this time.
    pub async fn shutdown_within(&self, bound: Duration) {
        let runtime = &self.runtime;
        runtime.shutdown.requested.cancel();
        runtime.work.turns.close();
        let commits = bound.mul_f64(COMMIT_SHARE);
        let leave = sessions::leave(runtime.cell.every(), runtime.session().id);
        let (mut drained, left) = tokio::join!(
            tokio::time::timeout(commits, runtime.work.turns.wait()),
            tokio::time::timeout(commits.min(LEAVE_PATIENCE), leave),
        );
        if !matches!(left, Ok(Ok(()))) {
            tracing::debug!("the other servers learn from the lease that this one stops");
        }
        if drained.is_err() {
            let rest = (bound - commits).mul_f64(COMMIT_SHARE);
            runtime.shutdown.giving_up.cancel();
            runtime
                .writers
                .record
                .stop_trying(Instant::now() + rest.mul_f64(LAST_TRY_SHARE));
            drained = tokio::time::timeout(rest, runtime.work.turns.wait()).await;
        }
        if drained.is_err() {
            tracing::warn!(
                runs = runtime.work.turns.len(),
                "runs did not reach a commit in time; their lease will expire"
            );
        }
        if let Err(error) = runtime.writers.duplicates.flush().await {
            tracing::warn!(%error, "failed to write the last counts of duplicates");
        }
        runtime.shutdown.drained.cancel();
        // A service that is in the middle of a pass is cut off.
        if let Ok(mut services) = self.services.lock() {
            services.drain(..).for_each(|service| service.abort());
        }
        if !runtime.work.turns.is_empty() {
            return;
        }
        // A session that still holds runs is left to expire, so that recovery finds them.
        let closed = async {
            while reconcile(runtime).await? > 0 {}
            sessions::close(&runtime.cell, runtime.session().id).await
        };
        if let Err(error) = closed.await {
            tracing::warn!(%error, "failed to end the session; it will expire");
        }
    }
}
