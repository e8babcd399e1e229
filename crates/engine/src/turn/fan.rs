//! Steps with child runs: items of a list, and branches.
//!
//! ```text
//! opened ══▶ child runs recorded ══▶ loaded ══▶ child runs begin, up to the step's limit ══▶ ended
//!            in chunks                          and again when some have ended
//! ```
//!
//! The run itself holds no item: it reads the list once, in pieces, and from then on only how many
//! child runs are in which state. While they move it stays in this process; then it sleeps, and the
//! commit that ends a child run makes it due again.

use std::time::Duration;

use semel_flow::release::{Join, OnError, Parallel};
use semel_flow::{Action, Step};
use semel_model::RunId;
use semel_model::event::Event;
use semel_store::child_runs::{
    self, ChildProgress, ChildStart, ChildrenOf, NewChildRun, ReopenedChildren,
};
use semel_store::journal::LeaseChange;
use serde_json::Value;

use super::{Turn, TurnError, unsure};
use crate::state::Current;

mod gather;
mod items;

/// How long the run stays in this process after the last of its child runs has moved.
const LINGER: Duration = Duration::from_secs(1);

/// How often it polls meanwhile, for child runs that other processes carry.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How many child runs are resumed in one statement.
const REOPEN_MAX: i64 = 1000;

/// What comes after looking at the child runs.
pub(super) enum FanOutResult {
    /// An event that was observed.
    GoOn,
    /// Nothing moves: the run sleeps until a child run ends.
    Sleep,
}

impl Turn {
    /// Starts and awaits the child runs of the run's current step.
    pub(super) async fn fan(&mut self) -> Result<FanOutResult, TurnError> {
        // Child runs read the journal up to here.
        if !self.pending.is_empty() {
            self.commit(LeaseChange::Keep).await?;
        }
        let Current::Fan(fan) = self.state.current.clone() else {
            return Ok(FanOutResult::GoOn);
        };
        if fan.count.is_none() {
            let event = self.load_children().await?;
            let loaded = matches!(event, Event::FanLoaded { .. });
            self.record(event)?;
            if !loaded {
                return Ok(FanOutResult::GoOn);
            }
            self.commit(LeaseChange::Keep).await?;
        }
        let told = self.runtime.local.children.watch(self.run);
        let mut seen = None::<ChildProgress>;
        let mut idle = Duration::ZERO;
        loop {
            let look = self.look().await?;
            if let Some(event) = self.judge(&look).await? {
                self.record(event)?;
                return Ok(FanOutResult::GoOn);
            }
            if look.cancel && !self.cancel {
                self.cancel = true;
                return Ok(FanOutResult::GoOn);
            }
            let moved = self.move_children(&look).await?;
            idle = match !moved && seen == Some(look) {
                true => idle + LOOK_EVERY,
                false => Duration::ZERO,
            };
            seen = Some(look);
            if self.runtime.shutdown.requested.is_cancelled() {
                // Due at once for another process: perhaps no child run is left that would wake it.
                return Err(TurnError::Unsure("the process is stopping".to_owned()));
            }
            if idle >= LINGER {
                return Ok(FanOutResult::Sleep);
            }
            tokio::select! {
                () = told.notified() => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = self.runtime.shutdown.requested.cancelled() => {}
            }
        }
    }

    async fn look(&self) -> Result<ChildProgress, TurnError> {
        child_runs::look(self.cell(), self.of())
            .await
            .map_err(unsure)
    }

    pub(super) fn of(&self) -> ChildrenOf<'_> {
        ChildrenOf {
            parent: self.run,
            step: self.step().id.as_str(),
        }
    }

    /// Begins child runs for which there is room, or asks those that have begun to end; returns
    /// whether any began.
    async fn move_children(&self, look: &ChildProgress) -> Result<bool, TurnError> {
        let Current::Fan(fan) = &self.state.current else {
            return Ok(false);
        };
        if let Some((_, cancels)) = &fan.stopped {
            if *cancels && look.open > 0 {
                child_runs::cancel(self.cell(), self.of())
                    .await
                    .map_err(unsure)?;
                self.runtime.signals.wake.notify_one();
            }
            return Ok(false);
        }
        if !look.pending || self.state.undoing.is_some() {
            return Ok(false);
        }
        let most = concurrency(self.step());
        let room = most.saturating_sub(look.open);
        if room <= 0 {
            return Ok(false);
        }
        let with = ChildStart {
            namespace_id: self.release.namespace_id,
            release_id: self.release.id,
            key: &self.key,
            partition_date: self.partition_date,
            seq: self.seq,
            holder: self.session.id,
            epoch: self.epoch,
            follows: self.state.earlier.is_some(),
            room,
        };
        self.reach("begin.before").await;
        let begun = child_runs::begin(self.cell(), self.of(), most, &with).await;
        self.reach("begin.after").await;
        let begun = begun.map_err(unsure)?.ok_or(TurnError::Fenced)?;
        self.runtime.signals.wake.notify_one();
        Ok(begun > 0)
    }

    /// What the states of the child runs mean for the step; nothing where it continues as it is.
    async fn judge(&self, look: &ChildProgress) -> Result<Option<Event>, TurnError> {
        let Current::Fan(fan) = &self.state.current else {
            return Ok(None);
        };
        let step = self.step().id.to_string();
        let stop = |cancels| Event::FanStopped {
            step: step.clone(),
            cancels,
            fault: None,
        };
        let undoing = self.state.undoing.is_some();
        let over = look.open == 0 && (!look.pending || fan.stopped.is_some() || undoing);
        if over && undoing {
            return Ok(Some(Event::FanEnded {
                step,
                result: Value::Null,
                joined: Value::Null,
                fault: None,
            }));
        }
        if over {
            return self.gather().await.map(Some);
        }
        if undoing || fan.stopped.is_some() {
            return Ok(None);
        }
        if let Action::Foreach(each) = &self.step().action {
            let stops = look.failed.is_some() && each.on_error == OnError::Stop;
            return Ok(stops.then(|| stop(false)));
        }
        if let Action::Parallel(parallel) = &self.step().action
            && parallel.join == Join::First
        {
            let found = child_runs::first_succeeded(self.cell(), self.of()).await;
            return Ok(found.map_err(unsure)?.map(|_| stop(true)));
        }
        Ok(None)
    }

    /// Records all child runs; those that were recorded before stay as they are.
    async fn load_children(&self) -> Result<Event, TurnError> {
        let step = self.step().id.to_string();
        if let Some(fault) = self.state.undoing.clone() {
            let undoing = Event::Undoing { fault };
            let count = self.reopen(ReopenedChildren::Successful, &undoing).await?;
            let repeats = 0;
            return Ok(Event::FanLoaded {
                step,
                count,
                repeats,
            });
        }
        let mut total = 0;
        if let Action::Parallel(parallel) = &self.step().action {
            total = self.load_branches(parallel).await?;
        }
        if let Action::Foreach(each) = &self.step().action {
            total = match self.load_items(each).await? {
                Ok(total) => total,
                Err(fault) => {
                    let step = Some(step);
                    return Ok(Event::Broken { step, fault });
                }
            };
        }
        let resumed = Event::Resumed {
            reason: "the parent run was resumed".to_owned(),
            by: self.state.resumed_by.clone(),
            asks_again: self.state.asks_again,
        };
        self.reopen(ReopenedChildren::Unsuccessful, &resumed)
            .await?;
        let counts = child_runs::count(self.cell(), self.of())
            .await
            .map_err(unsure)?;
        let count = u32::try_from(counts.all()).unwrap_or(u32::MAX);
        Ok(Event::FanLoaded {
            step,
            count,
            repeats: total.saturating_sub(count),
        })
    }

    /// Resumes child runs that have ended.
    async fn reopen(&self, which: ReopenedChildren, event: &Event) -> Result<u32, TurnError> {
        let mut count = 0;
        loop {
            let lease = (self.epoch, self.session.id);
            let reopened =
                child_runs::reopen(self.cell(), self.of(), which, REOPEN_MAX, event, lease).await;
            let reopened = reopened.map_err(unsure)?;
            count += u32::try_from(reopened).unwrap_or_default();
            if reopened < REOPEN_MAX {
                return Ok(count);
            }
        }
    }

    async fn load_branches(&self, parallel: &Parallel) -> Result<u32, TurnError> {
        let of = self.of();
        let branches = (0..).zip(&parallel.branches).map(|(index, _)| NewChildRun {
            index,
            run: branch_run(self.run, of.step, index),
            key: index.to_string(),
            item: "null".to_owned(),
            follows: None,
        });
        let mut branches: Vec<NewChildRun> = branches.collect();
        let keys: Vec<String> = branches.iter().map(|it| it.key.clone()).collect();
        self.follow(&mut branches, &keys).await?;
        let loaded = child_runs::load(self.cell(), of, self.release.namespace_id, &branches);
        let loaded = loaded.await;
        loaded.map_err(unsure)?;
        Ok(u32::try_from(branches.len()).unwrap_or(u32::MAX))
    }
}

/// The run that does the steps of a branch.
pub(super) fn branch_run(parent: RunId, step: &str, index: i32) -> RunId {
    parent.child(step, &index.to_string())
}

/// How many child runs may be active at the same time.
fn concurrency(step: &Step) -> i64 {
    if let Action::Foreach(each) = &step.action {
        return i64::from(each.parallel);
    }
    if let Action::Parallel(parallel) = &step.action {
        return i64::try_from(parallel.branches.len()).unwrap_or(i64::MAX);
    }
    1
}
