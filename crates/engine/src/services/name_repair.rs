//! Name repair: delivers notices to named effects that a crashed process left, frees holds that a
//! late worker began for a run which had ended, and wakes the runs that wait for a named effect
//! which is no longer held.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use semel_model::NamedEffectId;
use semel_store::named_effects::{self, HOLDS_MAX, NamedReport, OldHold};
use semel_store::{ReadError, runs};

use super::service::{HeldBy, Pace, PassError, Service};
use crate::metrics::Metrics;
use crate::runtime::Runtime;
use crate::turn::notice::{deliver, wake};

/// From this try on, a notice that cannot be delivered is reported.
const REPORTED_FROM: u32 = 5;

/// Completes what named effects have to know.
pub(super) struct NameRepair {
    runtime: Arc<Runtime>,
    pace: Pace,
    /// Where the last page of old holds ended.
    looked_at: Option<OldHold>,
    /// Where the last page of names that runs wait for ended.
    waited_for: Option<NamedEffectId>,
}

impl NameRepair {
    pub(super) fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            runtime,
            pace: Pace::every(Duration::from_secs(1)),
            looked_at: None,
            waited_for: None,
        }
    }

    /// Delivers the notices that another process left undelivered. One that fails is taken again
    /// ever less often, and does not hold up the others.
    async fn deliver_overdue(&self) -> Result<(), ReadError> {
        for (run, name, tries) in named_effects::take_overdue_notices(&self.runtime.cell).await? {
            let Err(error) = deliver(&self.runtime, run, name, "").await else {
                continue;
            };
            self.metrics().service_failures.add_one(Self::NAME);
            if tries >= REPORTED_FROM {
                tracing::warn!(%error, run.id = %run, named_effect.id = %name, tries,
                    "failed to update a named effect");
            }
        }
        Ok(())
    }

    /// Frees what is held for runs that have ended and have nothing more to say about it: a page at
    /// a time, from the oldest hold on.
    async fn free_what_is_over(&mut self) -> Result<(), ReadError> {
        let cell = &self.runtime.cell;
        let holds = named_effects::list_old_holds(cell.every(), self.looked_at).await?;
        self.looked_at = holds.last().copied().filter(|_| holds.len() == HOLDS_MAX);
        for hold in &holds {
            let (run, name) = (hold.run, hold.name);
            let known = runs::find_snapshot(cell.of(run), run).await?;
            if known.is_some_and(|it| !it.state.is_ended()) {
                continue;
            }
            // After the run's end was seen: its notices were committed with it.
            match named_effects::list_notices(cell.of(run), run, name).await {
                Ok(said) if said.is_empty() => {}
                // What cannot be read is left to a build that can, and does not hold up the others.
                Ok(_) | Err(ReadError::Unreadable(_)) => continue,
                Err(error) => return Err(error),
            }
            let freed = named_effects::free_old_hold(cell.of(name), hold).await?;
            if let NamedReport::Recorded(waiters) = freed {
                tracing::info!(run.id = %run, named_effect.id = %name,
                    "freed a named effect that a late worker had begun");
                wake(&self.runtime, name, waiters).await?;
            }
        }
        Ok(())
    }

    /// Wakes runs that wait for what is no longer held: a page of names at a time.
    async fn wake_left_behind(&mut self) -> Result<(), ReadError> {
        let mut by_name: BTreeMap<NamedEffectId, Vec<_>> = BTreeMap::new();
        let every = self.runtime.cell.every();
        let (left, next) = named_effects::list_left_behind(every, self.waited_for).await?;
        self.waited_for = next;
        for waiter in left {
            by_name.entry(waiter.effect).or_default().push(waiter);
        }
        for (name, waiters) in by_name {
            wake(&self.runtime, name, waiters).await?;
        }
        Ok(())
    }
}

impl Service for NameRepair {
    const NAME: &'static str = "name_repair";
    const HELD_BY: HeldBy = HeldBy::Holders(1);

    fn metrics(&self) -> &Metrics {
        &self.runtime.metrics
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    async fn pass(&mut self) -> Result<Duration, PassError> {
        self.deliver_overdue().await?;
        self.free_what_is_over().await?;
        self.wake_left_behind().await?;
        Ok(self.pace.interval)
    }
}
