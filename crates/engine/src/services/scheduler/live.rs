//! Which schedules are live, and keeping their rows in step with that.
//!
//! Promoting writes control data only. Every server sees the change, and the first one creates the
//! row or makes it due; deciding the schedule puts the new release in force.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use semel_flow::schedule::zone_edition;
use semel_model::{FlowName, NamespaceName, ScheduleId};
use semel_store::schedules::{self, DecisionBasis, NewSchedule, Schedule};
use semel_store::{ReadError, flows};

use super::plan::Basis;
use crate::catalogue::Release;
use crate::runtime::Runtime;

/// What is live, as this process knows it.
#[derive(Default)]
pub(crate) struct Live {
    /// The state of the control data.
    pub(crate) version: i64,
    /// By the schedule that the flow has or could have.
    by_id: HashMap<ScheduleId, LiveRelease>,
}

/// The live release of a flow.
#[derive(Clone)]
struct LiveRelease {
    what: What,
    /// Since when it is live, where that is kept.
    since: Option<Timestamp>,
}

#[derive(Clone)]
enum What {
    Scheduled(Arc<Release>),
    /// It has no schedule.
    Unscheduled,
    /// It changed just now, or this build cannot read it: another server will.
    Unknown,
}

impl Live {
    /// What is live now.
    pub(crate) async fn current(runtime: &Runtime) -> Result<Self, ReadError> {
        let mut live = Self::default();
        live.follow(runtime).await?;
        Ok(live)
    }

    /// Follows changes of what is live, and brings the rows in step with them.
    pub(crate) async fn follow(&mut self, runtime: &Runtime) -> Result<(), ReadError> {
        runtime.catalogue.refresh().await?;
        if runtime.catalogue.version() == self.version {
            return Ok(());
        }
        let live = Self::read(runtime).await?;
        live.put_in_step(runtime).await?;
        *self = live;
        Ok(())
    }

    async fn read(runtime: &Runtime) -> Result<Self, ReadError> {
        let (version, releases) = runtime.catalogue.all_live();
        let known: HashMap<i32, Arc<Release>> = releases
            .into_iter()
            .map(|release| (release.id, release))
            .collect();
        let mut by_id = HashMap::with_capacity(known.len());
        for row in flows::list_live_ids(runtime.cell.home()).await? {
            let names = (row.namespace.parse(), row.flow.parse());
            let (Ok(namespace), Ok(flow)): (Result<NamespaceName, _>, Result<FlowName, _>) = names
            else {
                continue;
            };
            let what = match known.get(&row.id) {
                Some(release) if release.flow.trigger.schedule.is_some() => {
                    What::Scheduled(release.clone())
                }
                Some(_) => What::Unscheduled,
                None => What::Unknown,
            };
            let since = row.live_at;
            by_id.insert(
                ScheduleId::derive(&namespace, &flow),
                LiveRelease { what, since },
            );
        }
        Ok(Self { version, by_id })
    }

    /// The live release of a flow, if it has a schedule.
    pub(crate) fn find(&self, id: ScheduleId) -> Option<&Arc<Release>> {
        match &self.by_id.get(&id)?.what {
            What::Scheduled(release) => Some(release),
            What::Unscheduled | What::Unknown => None,
        }
    }

    /// Creates the rows that are missing, and makes those due that were decided by another release.
    async fn put_in_step(&self, runtime: &Runtime) -> Result<(), ReadError> {
        let rows = schedules::list(runtime.cell.every()).await?;
        let stale = rows.iter().filter(|row| self.is_stale(row));
        let stale: Vec<ScheduleId> = stale.map(|row| row.id).collect();
        let known: HashSet<ScheduleId> = rows.iter().map(|row| row.id).collect();
        let new: Vec<NewSchedule> = self
            .by_id
            .iter()
            .filter(|(id, _)| !known.contains(id))
            .filter_map(|(id, one)| opening(*id, one))
            .collect();
        if !new.is_empty() {
            let grounds = DecisionBasis {
                version: self.version,
                zones: zone_edition(),
            };
            schedules::open(runtime.cell.every(), &new, grounds).await?;
        }
        if !stale.is_empty() {
            schedules::wake(runtime.cell.every(), &stale).await?;
        }
        Ok(())
    }

    fn is_stale(&self, row: &Schedule) -> bool {
        let other_zones = row.zones != zone_edition();
        let differs = match self.by_id.get(&row.id).map(|one| &one.what) {
            Some(What::Scheduled(release)) => row.release_id != Some(release.id) || other_zones,
            Some(What::Unscheduled) | None => row.release_id.is_some(),
            Some(What::Unknown) => false,
        };
        differs && row.version <= self.version
    }

    /// What a schedule that was taken is decided by; nothing where other servers have newer data.
    pub(crate) async fn basis(
        &self,
        runtime: &Runtime,
        schedule: &Schedule,
    ) -> Result<Option<Basis>, ReadError> {
        if schedule.version > self.version {
            return Ok(None);
        }
        let (live, since) = match self.by_id.get(&schedule.id) {
            Some(one) => match &one.what {
                What::Scheduled(release) => (Some(release.clone()), one.since),
                What::Unscheduled => (None, one.since),
                What::Unknown => return Ok(None),
            },
            None => (None, None),
        };
        let former = match schedule.release_id {
            Some(id) => runtime.catalogue.get(id).await?,
            None => None,
        };
        Ok(Some(Basis {
            former,
            live,
            since,
            decided_to: schedule.decided_to,
            paused_at: schedule.paused_at,
            now: schedule.now,
        }))
    }
}

fn opening(id: ScheduleId, one: &LiveRelease) -> Option<NewSchedule> {
    match &one.what {
        What::Scheduled(release) => Some(NewSchedule {
            id,
            namespace_id: release.namespace_id,
            flow: release.flow.name.to_string(),
            release_id: release.id,
            live_at: one.since,
        }),
        What::Unscheduled | What::Unknown => None,
    }
}
