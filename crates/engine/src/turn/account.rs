//! The account of a run's memory: what its steps give is added to what the run began with.
//!
//! A run that has grown by more than a little takes more of the memory for runs. Where there is none, what happened
//! is written and the run goes back to the queue, with its lease, in the same commit: it is durable, and continues
//! when there is memory for all of it. Each turn makes one step at least, so that every run gets on.

use std::time::Duration;

use semel_store::journal::LeaseChange;
use semel_store::runs::Stage;

use super::Turn;
use crate::memory::value_bytes;
use crate::state::FoldedRun;

/// How long a run rests that found no memory, so that others of its namespace go first.
pub(super) const CROWDED_REST: Duration = Duration::from_secs(2);

/// How much may wait for the next write: it is there twice until then, in the state and in the events.
const UNWRITTEN_BYTES_MAX: usize = 4 << 20;

/// About how many bytes a run takes beyond what it began with.
#[derive(Default)]
pub(super) struct MemoryAccount {
    /// Of results, and of what was read besides the journal.
    grown: usize,
    /// Of results that no write carried yet.
    unwritten: usize,
    /// How many bytes the run has found memory for.
    covered: usize,
    /// How many results were counted.
    results: usize,
    /// The row of the journal that the turn began behind.
    begun_at: i32,
    /// The row that the last count was made behind.
    counted_at: i32,
}

/// What follows from a run's memory before its next step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MemoryNeed {
    /// Nothing: it has what it takes.
    Met,
    /// What happened is written now.
    Write,
    /// It goes back to the queue.
    Leave,
}

impl MemoryAccount {
    /// The account of a run in this state, behind a row of its journal; `besides` is what was read for it besides
    /// that journal.
    pub(super) fn begin(state: &FoldedRun, seq: i32, besides: usize) -> Self {
        Self {
            grown: besides,
            results: state.gave.len(),
            begun_at: seq,
            counted_at: seq,
            ..Self::default()
        }
    }

    /// Adds what was read since the turn began.
    pub(super) fn add(&mut self, bytes: usize) {
        self.grown += bytes;
    }

    /// Adds the results since the last count.
    fn count(&mut self, state: &FoldedRun, seq: i32, has_unwritten: bool) {
        let new = state.given_bytes(self.results);
        self.results = state.gave.len();
        if self.counted_at != seq || !has_unwritten {
            self.unwritten = 0;
        }
        self.counted_at = seq;
        self.grown += new;
        if has_unwritten {
            self.unwritten += new;
        }
    }

    /// How many bytes there is no memory for.
    fn uncovered(&self) -> usize {
        (self.grown + self.unwritten).saturating_sub(self.covered)
    }
}

impl Turn {
    /// Adds what the last step gave to the account of the run, and takes memory for it.
    pub(super) fn count_memory(&mut self) -> MemoryNeed {
        let has_unwritten = !self.pending.is_empty();
        self.account.count(&self.state, self.seq, has_unwritten);
        let more = self.account.uncovered();
        if more > self.runtime.small_bytes() {
            let (room, budget) = (&self.runtime.work.room, &self.runtime.options.memory);
            let namespace_id = self.release.namespace_id;
            if room.try_grow(&mut self.place, budget, namespace_id, more) {
                self.account.covered += more;
            } else if has_unwritten || self.seq > self.account.begun_at {
                self.runtime.metrics.runs_put_back.add_one();
                room.note_crowded(namespace_id);
                return MemoryNeed::Leave;
            }
        }
        match self.account.unwritten > UNWRITTEN_BYTES_MAX {
            true => MemoryNeed::Write,
            false => MemoryNeed::Met,
        }
    }

    /// The run goes back to the queue, and rests until others have made room.
    pub(super) fn leave_for_memory(&self) -> LeaseChange {
        LeaseChange::Return {
            due_at: Some(self.runtime.clock.now() + CROWDED_REST),
            stage: Stage::Ready,
        }
    }

    /// Counts the place and the memory of a run for its namespace, which an operator's command took before others.
    /// False where the namespace has all that it may.
    pub(super) fn try_count_place(&mut self) -> bool {
        let namespace_id = self.release.namespace_id;
        let (room, budget) = (&self.runtime.work.room, &self.runtime.options.memory);
        if !room.try_count(&mut self.place, namespace_id) {
            return false;
        }
        let bytes = known_bytes(&self.state);
        self.place.bytes() > 0
            || bytes <= self.runtime.small_bytes()
            || room.try_grow(&mut self.place, budget, namespace_id, bytes)
    }
}

/// About how many bytes a run takes that begins in another: it has a copy of what that one knew, of which its own
/// journal tells nothing.
pub(super) fn inherited_bytes(state: &FoldedRun) -> usize {
    match &state.child_of {
        Some(_) => known_bytes(state),
        None => 0,
    }
}

/// About how many bytes the values take that a run knows.
fn known_bytes(state: &FoldedRun) -> usize {
    let values = [
        &state.input,
        &state.headers,
        &state.query,
        &state.trigger,
        &state.steps,
    ];
    values.into_iter().map(value_bytes).sum()
}
