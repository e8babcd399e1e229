//! What time does to named effects: a script whose lease is over leaves a doubt, and what is past its
//! time becomes absent.

use std::sync::Arc;
use std::time::Duration;

use semel_store::{ReadError, named_effects};

use super::service::{HeldBy, Pace, PassError, Service};
use crate::metrics::Metrics;
use crate::runtime::Runtime;

/// Puts lost scripts in doubt, and forgets what is past its time.
pub(super) struct OnceLapse {
    runtime: Arc<Runtime>,
    pace: Pace,
}

impl OnceLapse {
    pub(super) fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            runtime,
            pace: Pace::every(Duration::from_secs(2)),
        }
    }

    async fn lapse(&self) -> Result<(), ReadError> {
        let lapsed = named_effects::lapse(self.runtime.cell.every()).await?;
        self.metrics().once_lapsed.add(lapsed.len() as u64);
        for lost in &lapsed {
            tracing::warn!(
                named_effect.id = %lost.id,
                scope = lost.scope,
                holder = lost.holder,
                heartbeat_at = %lost.heartbeat_at,
                "a script was lost: whether its effect happened is in doubt"
            );
        }
        Ok(())
    }
}

impl Service for OnceLapse {
    const NAME: &'static str = "once_lapse";
    const HELD_BY: HeldBy = HeldBy::Holders(1);

    fn metrics(&self) -> &Metrics {
        &self.runtime.metrics
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    async fn pass(&mut self) -> Result<Duration, PassError> {
        self.lapse().await?;
        let longest = self.runtime.vault.longest_window();
        let (_, more) = named_effects::expire(self.runtime.cell.every(), longest).await?;
        Ok(match more {
            true => Duration::from_millis(100),
            false => self.pace.interval,
        })
    }
}
