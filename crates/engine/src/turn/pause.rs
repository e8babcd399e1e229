//! A turn whose run is paused: it sleeps, and what it waits for stands still.

use futures_util::future::BoxFuture;
use semel_model::event::{Deferral, Event};
use semel_store::journal::{LeaseChange, Transition};
use semel_store::pauses::{self, PausedLease};
use semel_store::runs::Stage;

use super::pending_write::BeforeChanges;
use super::{Turn, TurnError, unsure};
use crate::pauses::{Deferrable, PauseSet, PauseSpan, RunPauses};

impl Turn {
    /// What is paused for this run.
    pub(super) fn run_pauses(&self) -> RunPauses<'_> {
        let flow = self.release.flow.name.as_str();
        self.pauses.of_flow(self.release.namespace_id, flow)
    }

    /// Takes over what is paused now, and moves deadlines by the pauses that are over.
    pub(super) async fn look_at_pauses(&mut self) -> Result<(), TurnError> {
        // The intents of one write are decided under one version, which the write compares.
        if !self.pending.has_intent() {
            self.pauses = self.runtime.pauses.current();
        }
        let set = self.pauses.clone();
        while self.run_pauses().flow().is_none()
            && let Some(span) = self.next_deferral(&set).await?
        {
            let (from, until) = (span.from, span.until);
            self.record(Event::Deferred(Deferral { from, until }))?;
        }
        Ok(())
    }

    /// The next pause that is over and by which the deadlines of the run are to be moved.
    async fn next_deferral(&self, set: &PauseSet) -> Result<Option<PauseSpan>, TurnError> {
        let (namespace_id, flow) = (self.release.namespace_id, &self.release.flow);
        match Deferrable::of(&self.state, flow) {
            Some(run) if !set.reaches_back_to(namespace_id, run.seen) => {
                // It slept while more pauses ended than a server keeps.
                Box::pin(self.find_deferral(run)).await
            }
            Some(_) | None => Ok(set.deferral(namespace_id, flow, &self.state)),
        }
    }

    async fn find_deferral(&self, run: Deferrable<'_>) -> Result<Option<PauseSpan>, TurnError> {
        let (home, namespace_id) = (self.runtime.cell.home(), self.release.namespace_id);
        let named = (self.release.flow.name.as_str(), run.connection);
        let found = pauses::find_over(home, namespace_id, named, run.seen).await;
        let found = found.map_err(unsure)?;
        Ok(found.map(|(from, until)| PauseSpan {
            from: from.max(run.seen),
            until,
        }))
    }

    /// Whether the run sleeps before it asks its gates: a run that begins no step takes no place.
    pub(super) async fn pauses_before_gates(&mut self) -> Result<bool, TurnError> {
        self.pauses = self.runtime.pauses.current();
        match self.run_pauses().flow() {
            Some(pause) if self.release.has_gates && !self.cancel => {
                self.sleep_for(pause).await?;
                Ok(true)
            }
            Some(_) | None => Ok(false),
        }
    }

    /// Sleeps until a pause is over.
    pub(super) async fn sleep_for(&mut self, pause: i64) -> Result<(), TurnError> {
        if !self.pending.is_empty() {
            self.pending.pause(pause);
            let (due_at, stage) = (None, Stage::Waiting);
            return self.commit(LeaseChange::Return { due_at, stage }).await;
        }
        let lease = PausedLease {
            run: self.run,
            epoch: self.epoch,
            session: self.session.id,
            saw_cancel: self.cancel,
        };
        let version = self.pauses.version();
        match pauses::sleep(self.cell(), lease, version, pause).await {
            Ok(true) => {
                self.lease_over = true;
                Ok(())
            }
            // Or the lease is lost: what returns the run names it.
            Ok(false) => {
                self.overtaken = true;
                self.refresh_pauses().await?;
                Err(TurnError::PausesChanged)
            }
            Err(error) => Err(unsure(error)),
        }
    }

    /// Something was paused or resumed since the turn decided. What happened before is written, without
    /// the intent; then the run returns to the queue, and is decided anew. Changes that went with their
    /// intents are left out as well.
    pub(super) fn write_without_intent<'a>(
        &'a mut self,
        refused: &'a Transition,
        before: Option<BeforeChanges>,
    ) -> BoxFuture<'a, Result<(), TurnError>> {
        Box::pin(async move {
            match before {
                Some(before) => self.pending.restore_before(refused, before),
                None => self.pending.restore(refused),
            }
            if !self.pending.is_empty() {
                let (due_at, stage) = (Some(self.runtime.clock.now()), Stage::Ready);
                self.commit(LeaseChange::Return { due_at, stage }).await?;
            }
            self.refresh_pauses().await?;
            // Where nothing new is known, the next take would be refused as well: the run rests.
            let known = self.runtime.pauses.current().version();
            self.refused_by_pause = known != self.pauses.version();
            Err(TurnError::PausesChanged)
        })
    }

    async fn refresh_pauses(&self) -> Result<(), TurnError> {
        let refreshed = self.runtime.pauses.refresh_from(self.pauses.version());
        refreshed.await.map_err(unsure)
    }
}
