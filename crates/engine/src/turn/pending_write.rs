//! What happened in a turn since its last write, and commits with the next one.

use jiff::Timestamp;
use semel_model::event::Event;
use semel_model::kv::Operation;
use semel_model::request::Emission;
use semel_model::{EffectId, GateId};
use semel_store::audit::AuditEntry;
use semel_store::claims::NextRun;
use semel_store::kv::Write;
use semel_store::outbox::Emitted;

mod coalesce;
mod points;
mod restore;
mod transition;

pub(super) use coalesce::BeforeChanges;
pub(super) use transition::Identity;

use crate::event::{EffectSnapshot, RowChanges};

/// What the next write carries.
#[derive(Default)]
pub(super) struct PendingWrite {
    events: Vec<Event>,
    /// What the events change of the tables.
    changes: RowChanges,
    kv: Vec<Write>,
    /// About how large the changes are that commit together with their intents.
    coalesced_bytes: usize,
    /// What the write would be without them, where there are some.
    before_changes: Option<BeforeChanges>,
    emitted: Vec<Emitted>,
    departs: Vec<GateId>,
    acts: Vec<AuditEntry>,
    next_run: Option<Box<NextRun>>,
    /// Whether the write itself will make an event.
    expects_event: bool,
    /// The pause because of which the run falls asleep.
    paused_by: Option<i64>,
}

/// An attempt that was made and whose outcome is not written yet.
pub(super) struct Sent {
    pub(super) step: String,
    pub(super) effect: EffectSnapshot,
}

impl PendingWrite {
    /// Adds an event, what it changes of the tables and what it announces.
    pub(super) fn add(&mut self, event: Event, changes: RowChanges, announced: Vec<Emitted>) {
        self.events.push(event);
        self.changes.add(changes);
        self.emitted.extend(announced);
    }

    /// Adds what is changed of the tables.
    pub(super) fn change(&mut self, changes: RowChanges) {
        self.changes.add(changes);
    }

    /// Adds the audit record of an operator's action, to commit with the next write.
    pub(super) fn act(&mut self, act: AuditEntry) {
        self.acts.push(act);
    }

    /// Adds the run that takes the place of this one, which ends with the next write.
    pub(super) fn follow_with(&mut self, next: NextRun) {
        self.next_run = Some(Box::new(next));
    }

    /// Adds that a run leaves its gates at its end.
    pub(super) fn depart(&mut self, gates: impl Iterator<Item = GateId>) {
        self.departs.extend(gates);
    }

    /// The run falls asleep with the next write, because of a pause.
    pub(super) fn pause(&mut self, pause: i64) {
        self.paused_by = Some(pause);
    }

    /// Whether an attempt begins with it.
    pub(super) fn has_intent(&self) -> bool {
        self.events.iter().any(Event::is_intent)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty() && self.kv.is_empty()
    }

    /// Whether there is something that a crash must not lose: more than values that can be computed
    /// again.
    pub(super) fn must_be_written(&self) -> bool {
        let pure = |event: &Event| {
            matches!(
                event,
                Event::Computed { .. } | Event::Skipped { .. } | Event::Admitted { .. }
            )
        };
        !self.kv.is_empty() || !self.events.iter().all(pure)
    }

    /// Adds an operation on a shared entry; a set takes the place of an earlier one.
    pub(super) fn write_entry(
        &mut self,
        step: String,
        operation: Operation,
        retry_at: Option<Timestamp>,
    ) {
        let same = |write: &Write| write.operation.entry == operation.entry;
        // Of several sets only the last is seen.
        let earlier = self.kv.iter().position(same);
        let earlier = earlier.map(|at| self.kv.swap_remove(at));
        let are_sets = |earlier: &Write| {
            earlier.operation.verb.is_plain_set() && operation.verb.is_plain_set()
        };
        assert!(
            earlier.as_ref().is_none_or(are_sets),
            "only a set takes the place of a set"
        );
        let set_count = earlier.map_or(1, |earlier| earlier.set_count + 1);
        self.kv.push(Write {
            step,
            operation,
            retry_at,
            set_count,
        });
    }

    /// Adds an event that a flow emits.
    pub(super) fn emit(&mut self, effect: EffectId, emission: Emission) {
        self.announce(Emitted { effect, emission });
    }

    /// Adds a message to the outbox.
    pub(super) fn announce(&mut self, emitted: Emitted) {
        self.emitted.push(emitted);
    }

    /// The next write will make the event that settles the current effect, which is likely to
    /// change this.
    pub(super) fn expect_event(&mut self, changes: RowChanges) {
        self.expects_event = true;
        self.changes.add(changes);
    }

    /// Whether the write that was just made should have made an event.
    pub(super) fn take_expectation(&mut self) -> bool {
        std::mem::take(&mut self.expects_event)
    }
}
