//! Run jobs: cancels or resumes the runs of jobs, one by one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use semel_store::run_jobs::{self, JobOutcome};
use semel_store::turns::NamespaceTurns;

use super::service::{HeldBy, Pace, PassError, Service};
use crate::metrics::Metrics;
use crate::runtime::Runtime;

/// How many runs are looked up at a time.
const PAGE: i64 = 200;

/// How long a server works on a job before it takes the job again: much less than the time after which
/// another server takes it.
const TURN: Duration = Duration::from_secs(1);

/// Works on run jobs.
pub(super) struct RunJobs {
    runtime: Arc<Runtime>,
    pace: Pace,
    turns: NamespaceTurns,
}

impl RunJobs {
    pub(super) fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            runtime,
            pace: Pace::every(Duration::from_secs(1)),
            turns: NamespaceTurns::default(),
        }
    }
}

impl Service for RunJobs {
    const NAME: &'static str = "run_jobs";
    const HELD_BY: HeldBy = HeldBy::Holders(1);

    fn metrics(&self) -> &Metrics {
        &self.runtime.metrics
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    async fn pass(&mut self) -> Result<Duration, PassError> {
        let home = || self.runtime.cell.home();
        let Some(job) = run_jobs::take(home(), &mut self.turns).await? else {
            return Ok(self.pace.interval);
        };
        if self.runtime.end_unauthorised_job(&job).await? {
            return Ok(Duration::ZERO);
        }
        let begun = Instant::now();
        let mut postponed = false;
        for item in run_jobs::list_left(home(), job.id, PAGE).await? {
            if self.runtime.shutdown.requested.is_cancelled() || begun.elapsed() > TURN {
                break;
            }
            // An operator may have stopped it a moment ago.
            if !run_jobs::is_running(home(), job.id).await? {
                break;
            }
            let outcome = self.runtime.carry_out_item(&job, &item).await;
            postponed |= outcome == JobOutcome::Postponed;
            run_jobs::note(home(), job.id, item.run, &outcome).await?;
        }
        let secs = if postponed { 1.0 } else { 0.0 };
        run_jobs::give_back(home(), job.id, secs).await?;
        Ok(Duration::ZERO)
    }

    async fn wake_up(&mut self) {
        self.runtime.signals.job_made.notified().await;
    }
}
