//! Seals the audit record: each act gets its place in the chain of its namespace.
//!
//! The ends of the chains are logged once a day. Logs are kept elsewhere, so whoever rewrites the record
//! leaves a digest that it does not have any more, also where nobody exports it.

use std::sync::Arc;
use std::time::Duration;

use semel_store::ReadError;
use semel_store::audit::{chain, removal};

use super::service::{HeldBy, Pace, PassError, Service};
use crate::metrics::Metrics;
use crate::runtime::Runtime;

/// How long a day is, in seconds.
const DAY_SECS: i64 = 86_400;

/// Seals acts soon after they are committed.
pub(super) struct AuditSeal {
    runtime: Arc<Runtime>,
    pace: Pace,
    /// The day on which the ends of the chains were logged last.
    told_on: Option<i64>,
}

impl AuditSeal {
    pub(super) fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            runtime,
            pace: Pace::every(Duration::from_secs(10)),
            told_on: None,
        }
    }

    /// Logs where each chain ends.
    async fn tell(&self) -> Result<(), ReadError> {
        let cell = &self.runtime.cell;
        let (mut namespaces, mut after) = (Vec::new(), i32::MIN);
        while let Some(namespace_id) = removal::find_chain(cell.every(), after).await? {
            namespaces.push(namespace_id);
            after = namespace_id;
        }
        for head in chain::list_heads(cell.every(), &namespaces).await? {
            let (namespace, position) = (head.namespace_id, head.position);
            let digest = hex::encode(head.digest);
            tracing::info!(namespace, position, digest, "the end of the audit record");
        }
        Ok(())
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
        let today = self.runtime.clock.now().as_second().div_euclid(DAY_SECS);
        if !more && self.told_on != Some(today) && self.runtime.rehearsal.is_none() {
            self.tell().await?;
            self.told_on = Some(today);
        }
        Ok(match more {
            true => Duration::from_millis(100),
            false => self.pace.interval,
        })
    }
}
