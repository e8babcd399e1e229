//! The share of a destination's limits that one of several servers has.
//!
//! A connection says how much may be asked of its destination by the whole installation. Each live
//! server uses its part: the limit divided by the number of servers, at least one. Room that
//! becomes too much while it is in use is given up as the exchanges end.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_model::connection::ConnectionLimits;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::pace::{Asker, Pace};

/// The room and the rate of one destination on this server.
pub(super) struct Share {
    limits: ConnectionLimits,
    pub(super) room: Arc<Semaphore>,
    /// How much of the room is to be given up as soon as it is free.
    owed: AtomicUsize,
    state: Mutex<State>,
    /// Whose turn in the rate is next: callers leave in the order in which they come.
    turn: tokio::sync::Mutex<()>,
}

struct State {
    servers: u32,
    pace: Option<Pace>,
}

impl Share {
    pub(super) fn new(limits: &ConnectionLimits, servers: u32) -> Self {
        Self {
            limits: *limits,
            room: Arc::new(Semaphore::new(concurrency(limits, servers))),
            owed: AtomicUsize::new(0),
            state: Mutex::new(State {
                servers,
                pace: Pace::of(limits, servers),
            }),
            turn: tokio::sync::Mutex::const_new(()),
        }
    }

    /// Adapts to a number of servers.
    pub(super) fn divide_by(&self, servers: u32) {
        let mut state = self.state();
        if state.servers == servers {
            return;
        }
        let before = concurrency(&self.limits, state.servers);
        let after = concurrency(&self.limits, servers);
        state.servers = servers;
        if let Some(pace) = &mut state.pace {
            pace.divide_by(&self.limits, servers);
        }
        if after < before {
            let less = before - after;
            let forgotten = self.room.forget_permits(less);
            self.owed.fetch_add(less - forgotten, Ordering::AcqRel);
            return;
        }
        // What is still owed is not given up after all.
        let mut more = after - before;
        while more > 0 && self.pay() {
            more -= 1;
        }
        self.room.add_permits(more);
    }

    /// The most exchanges at once.
    pub(super) fn concurrency(&self) -> usize {
        concurrency(&self.limits, self.state().servers)
    }

    pub(super) fn has_rate(&self) -> bool {
        self.limits.per_second.is_some()
    }

    /// Promises a turn in the rate that comes soon; otherwise how long to stay away.
    pub(super) fn promise(&self, asker: Asker, now: Instant) -> Result<(), Duration> {
        match &mut self.state().pace {
            Some(pace) => pace.promise(asker, now),
            None => Ok(()),
        }
    }

    /// A turn that was promised is taken, or not needed any more.
    pub(super) fn end_promise(&self) {
        if let Some(pace) = &mut self.state().pace {
            pace.end_promise();
        }
    }

    /// Waits for the next turn in the rate, and takes it.
    pub(super) async fn leave(&self) {
        let _turn = self.turn.lock().await;
        while let Err(wait) = self.try_leave() {
            tokio::time::sleep(wait).await;
        }
    }

    fn try_leave(&self) -> Result<(), Duration> {
        match &mut self.state().pace {
            Some(pace) => pace.leave(Instant::now()),
            None => Ok(()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives room back, or up.
    pub(super) fn give_back(&self, room: OwnedSemaphorePermit) {
        match self.pay() {
            true => room.forget(),
            false => drop(room),
        }
    }

    /// Takes one from what is owed; false where nothing is.
    fn pay(&self) -> bool {
        let less = |owed: usize| owed.checked_sub(1);
        let paid = self
            .owed
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
        paid.is_ok()
    }
}

fn concurrency(limits: &ConnectionLimits, servers: u32) -> usize {
    let share = (limits.concurrency / servers.max(1)).max(1);
    let share = usize::try_from(share).unwrap_or(usize::MAX);
    share.min(Semaphore::MAX_PERMITS)
}
