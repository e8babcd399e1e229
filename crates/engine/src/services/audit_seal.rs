//! Seals the audit record: each act gets its place in the chain of its namespace.

use std::sync::Arc;
use std::time::Duration;

use semel_store::audit::chain;

use super::service::{HeldBy, Pace, PassError, Service};
use crate::metrics::Metrics;
use crate::runtime::Runtime;

/// Seals acts soon after they are committed.
pub(super) struct AuditSeal {
    runtime: Arc<Runtime>,
    pace: Pace,
}

impl AuditSeal {
    pub(super) fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            runtime,
            pace: Pace::every(Duration::from_secs(10)),
        }
    }
}

impl Service for AuditSeal {
    const NAME: &'static str = "audit_seal";
    const HELD_BY: HeldBy = HeldBy::Holders(1);

    fn metrics(&self) -> &Metrics {
        &self.runtime.metrics
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    async fn pass(&mut self) -> Result<Duration, PassError> {
        let (_, more) = chain::seal(self.runtime.cell.every()).await?;
        Ok(match more {
            true => Duration::from_millis(100),
            false => self.pace.interval,
        })
    }
}
