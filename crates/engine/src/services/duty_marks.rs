//! Duty marks: says in the database which duties this server finished, and reads what the others said, so that a duty
//! that is late is taken by another server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use semel_store::{ReadError, duties};

use super::service::{HeldBy, MARK_EVERY, Pace, PassError, Service};
use crate::metrics::Metrics;
use crate::runtime::Runtime;

/// Writes and reads when duties were done. A server that holds none only reads.
pub(super) struct DutyMarks {
    runtime: Arc<Runtime>,
    pace: Pace,
}

impl DutyMarks {
    pub(super) fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            runtime,
            pace: Pace::from_start(MARK_EVERY),
        }
    }

    /// Writes what this server finished or failed since the last time, one row for a duty.
    async fn write(&self) -> Result<(), ReadError> {
        let Runtime {
            cell,
            options,
            duties: known,
            ..
        } = &*self.runtime;
        let (notes, taken_at) = (known.take_notes(), Instant::now());
        if notes.is_empty() {
            return Ok(());
        }
        let written = duties::note(cell.home(), &options.process, &notes).await;
        if written.is_err() {
            known.put_back(notes, taken_at.elapsed());
        }
        written
    }

    async fn read(&self) -> Result<(), ReadError> {
        let (now, marks) = duties::list(self.runtime.cell.home()).await?;
        self.runtime.clock.set(now);
        self.runtime.duties.follow(now, marks);
        self.take_late(self.runtime.duties.list_more_holders(now));
        Ok(())
    }

    /// Has every service follow which duties are late.
    fn take_late(&self, more: BTreeMap<&'static str, usize>) {
        self.runtime.roster.send_if_modified(|roster| {
            let changed = roster.follow_late(more.clone());
            if changed && !more.is_empty() {
                let late: Vec<&str> = more.keys().copied().collect();
                tracing::warn!(
                    ?late,
                    "duties are late: the next servers in rank do them as well"
                );
            }
            changed
        });
    }
}

impl Service for DutyMarks {
    const NAME: &'static str = "duty_marks";
    const HELD_BY: HeldBy = HeldBy::EveryServer;

    fn metrics(&self) -> &Metrics {
        &self.runtime.metrics
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    async fn pass(&mut self) -> Result<Duration, PassError> {
        let written = self.write().await;
        let read = self.read().await;
        if read.is_err() {
            self.runtime.duties.lose_sight();
        }
        written?;
        read?;
        Ok(self.pace.interval)
    }
}
