//! Which schedules are live, and keeping their rows in step with that.
//!
//! Promoting writes control data only. Every server sees the change, and whoever is first makes the
//! row or has it looked at; deciding it is what puts the new release in force.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use semel_flow::schedule::zone_edition;
use semel_model::ScheduleId;
use semel_store::schedules::{self, Grounds, Opening, Schedule};
use semel_store::{ReadError, flows};

use super::plan::Basis;
use crate::catalogue::Release;
use crate::engine::Inner;

/// The schedules that are live, as this process knows them.
#[derive(Default)]
pub(super) struct Live {
    /// The state of the control data.
    pub(super) version: i64,
    by_id: HashMap<ScheduleId, One>,
}

/// A live schedule.
#[derive(Clone)]
pub(super) struct One {
    pub(super) release: Arc<Release>,
    /// Since when it is live, where that is kept.
    pub(super) since: Option<Timestamp>,
}

impl Live {
    /// Follows changes of what is live, and brings the rows in step with them.
    pub(super) async fn follow(&mut self, inner: &Inner) -> Result<(), ReadError> {
        inner.catalogue.refresh().await?;
        if inner.catalogue.version() == self.version {
            return Ok(());
        }
        let live = Self::read(inner).await?;
        live.put_in_step(inner).await?;
        *self = live;
        Ok(())
    }

    /// What is live now.
    pub(super) async fn read(inner: &Inner) -> Result<Self, ReadError> {
        let (version, releases) = inner.catalogue.scheduled();
        let ids: Vec<i32> = releases.iter().map(|release| release.id).collect();
        let since: HashMap<i32, Option<Timestamp>> = flows::list_live_since(&inner.cell, &ids)
            .await?
            .into_iter()
            .collect();
        let mut by_id = HashMap::with_capacity(releases.len());
        for release in releases {
            // One that is live no longer: the next look will tell what is.
            if let Some(since) = since.get(&release.id).copied() {
                let id = ScheduleId::derive(&release.namespace, &release.flow.name);
                by_id.insert(id, One { release, since });
            }
        }
        Ok(Self { version, by_id })
    }

    /// The live schedule of an identity.
    pub(super) fn find(&self, id: ScheduleId) -> Option<&One> {
        self.by_id.get(&id)
    }

    /// Makes the rows that are missing, and has those looked at that rest on something else.
    async fn put_in_step(&self, inner: &Inner) -> Result<(), ReadError> {
        let rows = schedules::list(&inner.cell, None).await?;
        let stale: Vec<ScheduleId> = rows
            .iter()
            .filter(|row| self.is_stale(row))
            .map(|row| row.id)
            .collect();
        let known: HashMap<ScheduleId, ()> = rows.iter().map(|row| (row.id, ())).collect();
        let new: Vec<Opening> = self
            .by_id
            .iter()
            .filter(|(id, _)| !known.contains_key(id))
            .map(|(id, one)| Opening {
                id: *id,
                namespace_id: one.release.namespace_id,
                flow: one.release.flow.name.to_string(),
                release_id: one.release.id,
                live_at: one.since,
            })
            .collect();
        if !new.is_empty() {
            let grounds = Grounds {
                version: self.version,
                zones: zone_edition(),
            };
            schedules::open(&inner.cell, &new, grounds).await?;
        }
        if !stale.is_empty() {
            schedules::wake(&inner.cell, &stale).await?;
        }
        Ok(())
    }

    fn is_stale(&self, row: &Schedule) -> bool {
        let live = self.by_id.get(&row.id).map(|one| one.release.id);
        row.version <= self.version
            && (live != row.release_id || (live.is_some() && row.zones != zone_edition()))
    }

    /// What a schedule that was taken is decided by.
    pub(super) async fn basis(
        &self,
        inner: &Inner,
        schedule: &Schedule,
    ) -> Result<Basis, ReadError> {
        let former = match schedule.release_id {
            Some(id) => inner.catalogue.get(id).await?,
            None => None,
        };
        let live = self.by_id.get(&schedule.id);
        let since = match live {
            Some(one) => one.since,
            None => {
                flows::find_live_since(&inner.cell, schedule.namespace_id, &schedule.flow).await?
            }
        };
        Ok(Basis {
            former,
            live: live.map(|one| one.release.clone()),
            since,
            decided_to: schedule.decided_to,
            paused_at: schedule.paused_at,
            now: schedule.now,
        })
    }
}
