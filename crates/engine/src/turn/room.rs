//! Room at a destination, found before the intent that needs it.
//!
//! ```text
//! last outcome, in memory ─▶ room? ──┬─ yes ─▶ one commit: that outcome and the intent
//!                                    └─ no ──▶ one commit: that outcome and the due time
//! ```
//!
//! Room is asked for without waiting, because an outcome may be in memory that only a commit keeps. A
//! run that has nothing to commit leaves no row: however long it waits, its journal does not grow.

use std::pin::pin;

use semel_model::request::ExternalRequest;
use semel_model::{Fault, Outcome, Span};
use semel_steps::{Asker, ROOM_PATIENCE, Room, Route};
use semel_store::journal::LeaseChange;
use semel_store::runs::Stage;

use super::{Turn, TurnError};
use crate::catalogue::Release;
use crate::runtime::Runtime;
use crate::settle::SettleContext;
use crate::state::Current;
use crate::vault::Destinations;

/// How long a run sleeps where a destination without room does not say for how long.
const BUSY_FOR: Span = Span::from_const_secs(1);

impl Turn {
    /// Finds room for the attempt whose intent is the latest event; nothing where no limits count, or
    /// where the attempt is to find out by itself that there is none.
    pub(super) fn find_room(&mut self, request: &ExternalRequest) -> Result<Option<Room>, Fault> {
        let destinations = self.runtime.destinations(&self.release);
        let to = request.connection();
        let to = to.and_then(|name| destinations.find(name));
        if request.connection().is_some() && to.is_none() {
            return Ok(None);
        }
        // A run that was taken to begin with this attempt has waited for it.
        let asker = match self.epoch > 1 && !self.asked_room {
            true => Asker::Again,
            false => Asker::First,
        };
        self.asked_room = true;
        let route = self.route(to.map(|to| &**to));
        match self.session.executors.find_room(route, request, asker) {
            // The next take would look again, and a look takes room as well.
            Err(_) if self.looked.is_some() && self.looked == self.state.cursor => Ok(None),
            // The time limit of the step ends the wait.
            Err(_) if !self.may_wait_for_room() => Ok(None),
            found => found,
        }
    }

    /// Sleeps until the time that a destination without room gave. The latest intent, if one is not
    /// committed, is left out: it is decided anew.
    pub(super) async fn rest_for_room(&mut self, fault: &Fault) -> Result<(), TurnError> {
        let rest = fault.retry_after.unwrap_or(BUSY_FOR);
        let due_at = self.runtime.clock.now() + rest.to_duration();
        let (due_at, stage) = (Some(due_at), Stage::Retrying);
        self.commit_without_intent(LeaseChange::Return { due_at, stage })
            .await
    }

    /// Sleeps if a request that changes nothing found no room: nothing was asked, so that there is
    /// nothing to record.
    pub(super) async fn rest_if_held_back(&mut self, outcome: &Outcome) -> Result<bool, TurnError> {
        match outcome {
            Outcome::Failed(fault) if fault.is_held_back() && self.may_wait_for_room() => {
                self.rest_for_room(fault).await?;
                Ok(true)
            }
            Outcome::Done(_) | Outcome::Failed(_) | Outcome::InDoubt(_) => Ok(false),
        }
    }

    /// Whether the time limit of the current step leaves time to wait. What was not tried yet has all
    /// of it.
    fn may_wait_for_room(&self) -> bool {
        let now = self.runtime.clock.now();
        let (_, since) = self.state.current.reads_so_far(now);
        let of_read = SettleContext::of_read(self.step(), since, now, 0.0);
        let judged_by = match &self.state.current {
            Current::Effect(pending) => SettleContext {
                since: pending.since,
                deferred: pending.deferred,
                ..of_read
            },
            Current::Fresh
            | Current::Reading(_)
            | Current::Waiting { .. }
            | Current::Fan(_)
            | Current::Approving(_)
            | Current::Broken(_) => of_read,
        };
        judged_by.wait_for_room(None).is_some()
    }
}

/// Room for the first effect of a run that is being accepted. Where there is none the run is accepted
/// without its intent.
pub(super) fn room_of_first(
    runtime: &Runtime,
    release: &Release,
    destinations: &Destinations,
    request: &ExternalRequest,
) -> Result<Option<Room>, Fault> {
    let to = request.connection();
    let route = Route {
        namespace_id: release.namespace_id,
        to: to.and_then(|name| destinations.find(name)).map(|to| &**to),
        origin: None,
    };
    if to.is_some() && route.to.is_none() {
        return Ok(None);
    }
    let session = runtime.session();
    let executors = &session.executors;
    executors.find_room(route, request, Asker::Accepted)
}

/// Awaits a write of an intent. Room that was found for it is given up where the database takes longer
/// than a moment: others may use it meanwhile.
pub(crate) async fn unless_slow<T>(
    writing: impl Future<Output = T>,
    give_up_room: impl FnOnce(),
) -> T {
    let mut writing = pin!(writing);
    match tokio::time::timeout(ROOM_PATIENCE, &mut writing).await {
        Ok(written) => written,
        Err(_) => {
            give_up_room();
            writing.await
        }
    }
}
