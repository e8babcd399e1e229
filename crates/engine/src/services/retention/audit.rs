//! The audit record: acts past their time are removed where the operator said how long they are kept.

use std::sync::Arc;
use std::time::Duration;

use semel_model::Span;
use semel_store::audit::removal::{self, Removal};

use super::super::service::{HeldBy, Pace, PassError, Service};
use super::batches::BATCH_PAUSE;
use crate::metrics::Metrics;
use crate::runtime::Runtime;

/// How often the audit record is looked at: what is past its time changes once a day.
const EVERY: Duration = Duration::from_secs(3_600);

/// The most batches of one pass, of all chains together.
const BATCHES_MAX: u32 = 50;

/// Removes acts of the audit record.
pub(crate) struct AuditRetention {
    runtime: Arc<Runtime>,
    pace: Pace,
}

impl AuditRetention {
    pub(crate) fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            runtime,
            pace: Pace::from_start(EVERY),
        }
    }

    /// Removes some acts of every chain. Says whether to go on soon.
    async fn remove(&self, keep: Span) -> Result<bool, PassError> {
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
                tokio::time::sleep(BATCH_PAUSE).await;
            }
        }
        Ok(false)
    }
}

impl Service for AuditRetention {
    const NAME: &'static str = "retention_audit";
    /// Only a server that was told how long acts are kept removes any, so none may leave it to another. Their removals
    /// take turns.
    const HELD_BY: HeldBy = HeldBy::EveryServer;

    fn metrics(&self) -> &Metrics {
        &self.runtime.metrics
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    async fn pass(&mut self) -> Result<Duration, PassError> {
        let Some(keep) = self.runtime.options.audit_keep else {
            return Ok(self.pace.interval);
        };
        match self.remove(keep).await? {
            true => Ok(BATCH_PAUSE),
            false => Ok(self.pace.interval),
        }
    }
}
