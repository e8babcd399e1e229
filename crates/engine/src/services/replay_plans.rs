//! Replay plans: previews the runs of new plans, and replays those of plans that operators apply.

use std::sync::Arc;
use std::time::{Duration, Instant};

use semel_steps::failpoint::failpoint;
use semel_store::replay_plans::{self, ItemOutcome, TakenPlan};
use semel_store::turns::NamespaceTurns;

use super::service::{HeldBy, Pace, PassError, Service};
use crate::metrics::Metrics;
use crate::runtime::Runtime;

/// How many runs are previewed before the plan is looked at again: it may have been stopped.
const PREVIEWS_MAX: i64 = 50;

/// How long a server works on a plan before it looks at the plan again: much less than the time after
/// which another server takes the plan.
const TURN: Duration = Duration::from_secs(1);

/// Works on replay plans.
pub(super) struct ReplayPlans {
    runtime: Arc<Runtime>,
    pace: Pace,
    turns: NamespaceTurns,
}

impl ReplayPlans {
    pub(super) fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            runtime,
            pace: Pace::every(Duration::from_secs(1)),
            turns: NamespaceTurns::default(),
        }
    }

    /// Works on a few runs of a plan for a second, as many as its rate allows.
    async fn work_on(&self, plan: &TakenPlan) -> Result<(), PassError> {
        let home = || self.runtime.cell.home();
        let limit = match plan.replays {
            true => i64::from(plan.per_second),
            false => PREVIEWS_MAX,
        };
        let begun = Instant::now();
        let mut postponed = false;
        for item in replay_plans::list_left(home(), plan, limit).await? {
            if self.runtime.shutdown.requested.is_cancelled() || begun.elapsed() > TURN {
                break;
            }
            let outcome = self.runtime.replay_item(plan, &item).await;
            failpoint("replay.item", &item.run.to_string()).await;
            postponed |= outcome == ItemOutcome::Postponed;
            replay_plans::note(home(), plan, item.run, &outcome).await?;
        }
        let rests = plan.replays || postponed;
        let secs = if rests { 1.0 } else { 0.0 };
        replay_plans::give_back(home(), plan, secs).await?;
        Ok(())
    }
}

impl Service for ReplayPlans {
    const NAME: &'static str = "replay_plans";
    const HELD_BY: HeldBy = HeldBy::Holders(1);

    fn metrics(&self) -> &Metrics {
        &self.runtime.metrics
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    async fn pass(&mut self) -> Result<Duration, PassError> {
        let home = self.runtime.cell.home();
        let Some(plan) = replay_plans::take(home, &mut self.turns).await? else {
            return Ok(self.pace.interval);
        };
        if !self.runtime.end_unauthorised_plan(&plan).await? {
            self.work_on(&plan).await?;
        }
        Ok(Duration::ZERO)
    }

    async fn wake_up(&mut self) {
        self.runtime.signals.planned.notified().await;
    }
}
