//! Files of the archive that nothing needs: those whose time is over, those that were written anew, and those that
//! crashes left.

use std::sync::Arc;
use std::time::Duration;

use super::super::service::{HeldBy, Pace, PassError, Service};
use super::batches::BATCH_PAUSE;
use super::{EVERY, archiving};
use crate::metrics::Metrics;
use crate::runtime::Runtime;

/// The longest that a pass takes which goes well: many files are removed in it, one by one.
const PASS_MAX: Duration = Duration::from_secs(600);

/// Removes files from the archive.
pub(crate) struct FileRetention {
    runtime: Arc<Runtime>,
    pace: Pace,
}

impl FileRetention {
    pub(crate) fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            runtime,
            pace: Pace::from_start(EVERY),
        }
    }
}

impl Service for FileRetention {
    const NAME: &'static str = "retention_archive";
    const HELD_BY: HeldBy = HeldBy::Holders(1);

    fn metrics(&self) -> &Metrics {
        &self.runtime.metrics
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    fn late_after(&self) -> Duration {
        PASS_MAX
    }

    async fn pass(&mut self) -> Result<Duration, PassError> {
        let Some(archive) = &self.runtime.options.archive else {
            return Ok(self.pace.interval);
        };
        match archiving::sweep(&self.runtime, archive.as_ref()).await? {
            true => Ok(BATCH_PAUSE),
            false => Ok(self.pace.interval),
        }
    }
}
