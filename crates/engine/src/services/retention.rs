//! Retention: deletes what is past its time, in small batches.

mod archiving;
mod history;
mod policy;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::TryFutureExt as _;
use futures_util::future::BoxFuture;
use semel_model::Span;
use semel_store::audit::removal::{self, Removal};
use semel_store::{
    ReadError, alerts, duplicates, llm_answers, reconcile_passes, refused_deliveries, retention,
    schedules, tallies, webhook_deliveries,
};

use super::service::{HeldBy, Pace, PassError, Service};
use crate::metrics::Metrics;
use crate::runtime::Runtime;
use history::HistoryWalk;

/// How often the audit record is looked at: what is past its time changes once a day.
const AUDIT_EVERY: Duration = Duration::from_secs(3_600);

/// The most batches of one task in one pass: the other tasks have their turn, also where rows expire as fast as they
/// are deleted.
const BATCHES_MAX: u32 = 50;

/// Deletes keys, runs, ticks, deliveries and answers that are past their time.
pub(super) struct Retention {
    runtime: Arc<Runtime>,
    pace: Pace,
    /// The pause between two full batches, so that deleting never crowds out accepting.
    batch_pause: Duration,
    walk: HistoryWalk,
    /// When the audit record is looked at next; at once without it.
    audit_at: Option<Instant>,
}

impl Retention {
    pub(super) fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            runtime,
            pace: Pace::from_start(Duration::from_secs(30)),
            batch_pause: Duration::from_millis(100),
            walk: HistoryWalk::default(),
            audit_at: None,
        }
    }

    /// Deletes batch after batch, at most [`BATCHES_MAX`], until one finds nothing. Says whether there may be more.
    async fn delete_all<F>(&self, mut batch: impl FnMut() -> F + Send) -> Result<bool, PassError>
    where
        F: Future<Output = Result<u64, ReadError>> + Send,
    {
        self.repeat(|| batch().map_ok(|count| count > 0)).await
    }

    /// Repeats a batch, at most [`BATCHES_MAX`] times, while it says that there may be more. Says whether there still may be.
    async fn repeat<F>(&self, mut batch: impl FnMut() -> F + Send) -> Result<bool, PassError>
    where
        F: Future<Output = Result<bool, ReadError>> + Send,
    {
        for _ in 0..BATCHES_MAX {
            if !batch().await? {
                return Ok(false);
            }
            tokio::time::sleep(self.batch_pause).await;
        }
        Ok(true)
    }

    /// Removes acts of the audit record where the operator said how long they are kept. Says whether to go on soon.
    async fn remove_audit(&self, keep: Span) -> Result<bool, PassError> {
        let (cell, mut after, mut batches) = (&self.runtime.cell, i32::MIN, 0);
        while let Some(namespace_id) = removal::find_chain(cell.every(), after).await? {
            after = namespace_id;
            loop {
                match removal::remove_old(cell.every(), namespace_id, keep).await? {
                    Removal::Nothing => break,
                    Removal::Removed(count) => self.metrics().audit_removed.add(count),
                    Removal::Broken(why) => {
                        self.metrics().service_failures.add_one(Self::NAME);
                        tracing::error!(
                            %why,
                            namespace_id,
                            "the audit record was changed, so nothing of it is removed: see `semel audit verify`"
                        );
                        break;
                    }
                }
                batches += 1;
                if batches == BATCHES_MAX {
                    return Ok(true);
                }
                tokio::time::sleep(self.batch_pause).await;
            }
        }
        Ok(false)
    }

    /// Frees some keys whose time is over, and says whether there may be more.
    async fn free_keys(&self) -> Result<bool, ReadError> {
        let (freed, more) = retention::forget_keys(self.runtime.cell.every()).await?;
        self.metrics().keys_forgotten.add(freed);
        Ok(more)
    }
}

impl Service for Retention {
    const NAME: &'static str = "retention";
    const HELD_BY: HeldBy = HeldBy::Holders(1);

    fn metrics(&self) -> &Metrics {
        &self.runtime.metrics
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    async fn pass(&mut self) -> Result<Duration, PassError> {
        let runtime = self.runtime.clone();
        let mut walk = std::mem::take(&mut self.walk);
        let (cell, this) = (&self.runtime.cell, &*self);
        let swept = this.repeat(|| retention::sweep(cell.every()));
        let answers = this.delete_all(|| llm_answers::forget(cell.every()));
        let alerts = this.delete_all(|| alerts::forget(cell.home()));
        let history = self.runtime.options.history;
        let deliveries = this.delete_all(|| webhook_deliveries::forget(cell.every()));
        let ticks = this.delete_all(|| schedules::forget(cell.every(), history));
        let passes = this.delete_all(|| reconcile_passes::forget(cell.every(), history));
        let refused = this.delete_all(|| refused_deliveries::forget(cell.every(), history));
        let repeats = this.delete_all(|| duplicates::forget(cell.every(), history));
        let audit_keep = self.runtime.options.audit_keep;
        let is_due = |at: Instant| at <= Instant::now();
        let audit_keep = audit_keep.filter(|_| self.audit_at.is_none_or(is_due));
        let mut audit_at = self.audit_at;
        let audit = async {
            let Some(keep) = audit_keep else {
                return Ok(false);
            };
            // What fails is tried again in an hour as well.
            audit_at = Some(Instant::now() + AUDIT_EVERY);
            let more = this.remove_audit(keep).await?;
            if more {
                audit_at = None;
            }
            Ok(more)
        };
        let tallies = this.delete_all(|| tallies::forget(cell.home()));
        let keys = this.repeat(|| this.free_keys());
        let runs = async { Ok(walk.go_on(&runtime).await?) };
        let archive = async {
            match &runtime.options.archive {
                Some(archive) => Ok(archiving::sweep(&runtime, archive.as_ref()).await?),
                None => Ok(false),
            }
        };
        let tasks: [(&str, BoxFuture<'_, Result<bool, PassError>>); 13] = [
            ("commands and bodies", Box::pin(swept)),
            ("answers", Box::pin(answers)),
            ("alerts", Box::pin(alerts)),
            ("deliveries", Box::pin(deliveries)),
            ("ticks", Box::pin(ticks)),
            ("passes", Box::pin(passes)),
            ("refused", Box::pin(refused)),
            ("duplicates", Box::pin(repeats)),
            ("tallies", Box::pin(tallies)),
            ("audit record", Box::pin(audit)),
            ("keys", Box::pin(keys)),
            ("runs", Box::pin(runs)),
            ("archive", Box::pin(archive)),
        ];
        // One that fails leaves the others their turn.
        let (mut failed, all) = (Vec::new(), tasks.len());
        let mut is_behind = false;
        for (what, task) in tasks {
            match task.await {
                Ok(more) => is_behind |= more,
                Err(error) => {
                    self.metrics().service_failures.add_one(Self::NAME);
                    tracing::warn!(%error, what, "cannot delete what is past its time");
                    failed.push(error);
                }
            }
        }
        (self.walk, self.audit_at) = (walk, audit_at);
        match failed.pop() {
            // The database has trouble: the service rests.
            Some(error) if failed.len() + 1 == all => Err(error),
            None if is_behind => Ok(self.batch_pause),
            Some(_) | None => Ok(self.pace.interval),
        }
    }
}
