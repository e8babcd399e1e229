//! Changes of Semel's own tables that commit together with their intents.
//!
//! A change that commits with its own outcome needs no intent before it: where the write is lost,
//! neither happened. So several of them, one after the other, are one write. If that write is refused
//! because of a pause, what stood before the first of those intents is written without them, and the run
//! is decided anew from its journal.

use semel_model::event::Event;
use semel_model::kv::Operation;
use semel_model::request::LocalChange;
use semel_store::journal::{RecordChange, Transition};
use semel_store::kv::Write;

use super::PendingWrite;
use crate::event::RowChanges;

/// How many changes are one write at the most: each is an effect of the ledger.
const COALESCED_CHANGES_MAX: usize = 16;

/// How large the changes of one write are together at the most; a larger one is a write of its own.
const COALESCED_BYTES_MAX: usize = 64 << 10;

impl PendingWrite {
    /// Takes a change in whose intent is the latest event, to be done by the same write. Says whether
    /// that is possible: an operator's act and the next run of a key have a write to themselves.
    pub(in crate::turn) fn try_coalesce(&mut self, change: &LocalChange) -> bool {
        let is_intended = matches!(
            self.events.last(),
            Some(Event::Intended {
                attempt: 1,
                licence: None,
                ..
            })
        );
        let fits = is_intended
            && self.acts.is_empty()
            && self.next_run.is_none()
            && self.events.iter().filter(|it| it.is_intent()).count() <= COALESCED_CHANGES_MAX;
        let bytes = match change {
            LocalChange::Kv(operation) if fits && self.may_set(operation) => {
                operation.estimated_bytes()
            }
            LocalChange::Emit(emission) if fits => emission.estimated_bytes(),
            LocalChange::Kv(_)
            | LocalChange::Emit(_)
            | LocalChange::Start(_)
            | LocalChange::Persist(_) => return false,
        };
        let bytes = self.coalesced_bytes.saturating_add(bytes);
        if bytes > COALESCED_BYTES_MAX {
            return false;
        }
        self.coalesced_bytes = bytes;
        if self.before_changes.is_none() {
            self.before_changes = Some(BeforeChanges::of(self));
        }
        true
    }

    /// Whether an operation sets an entry whatever it holds, and nothing of this write does anything else
    /// with that entry.
    fn may_set(&self, operation: &Operation) -> bool {
        let mut others = self.kv.iter().map(|write| &write.operation);
        operation.verb.is_plain_set()
            && others.all(|other| other.entry != operation.entry || other.verb.is_plain_set())
    }

    /// Takes out what the write would be without the changes that go with their intents.
    pub(in crate::turn) fn take_before_changes(&mut self) -> Option<BeforeChanges> {
        self.before_changes.take()
    }

    /// Takes a refused transition back, up to the first intent that its outcome went with.
    pub(in crate::turn) fn restore_before(&mut self, refused: &Transition, before: BeforeChanges) {
        let events = refused.events.iter().take(before.events);
        self.events = events.cloned().collect();
        self.changes = RowChanges {
            effects: refused
                .effects
                .iter()
                .take(before.effects)
                .cloned()
                .collect(),
            waits: refused.waits.iter().take(before.waits).cloned().collect(),
            tasks: refused.tasks.iter().take(before.tasks).cloned().collect(),
            approvals: refused
                .approvals
                .iter()
                .take(before.approvals)
                .cloned()
                .collect(),
            notices: refused
                .notices
                .iter()
                .take(before.notices)
                .cloned()
                .collect(),
            kept_generations: refused
                .kept_generations
                .iter()
                .take(before.kept_generations)
                .cloned()
                .collect(),
            alerts: refused.alerts.iter().take(before.alerts).cloned().collect(),
            record: before.record,
        };
        self.kv = before.kv;
        self.emitted = refused
            .emitted
            .iter()
            .take(before.emitted)
            .cloned()
            .collect();
        self.departs = refused
            .leaves_gates
            .iter()
            .take(before.departs)
            .copied()
            .collect();
    }
}

/// How much of a write stood before the first change that goes with its intent. What comes later is
/// behind it, but for entries, of which a later set takes the place of an earlier one, and for the record.
pub(in crate::turn) struct BeforeChanges {
    events: usize,
    effects: usize,
    waits: usize,
    tasks: usize,
    approvals: usize,
    notices: usize,
    kept_generations: usize,
    alerts: usize,
    emitted: usize,
    departs: usize,
    kv: Vec<Write>,
    record: Option<RecordChange>,
}

impl BeforeChanges {
    /// Of a write whose latest event is the intent of the first change.
    fn of(write: &PendingWrite) -> Self {
        let PendingWrite {
            events,
            changes,
            kv,
            emitted,
            departs,
            ..
        } = write;
        Self {
            events: events.len().saturating_sub(1),
            effects: changes.effects.len(),
            waits: changes.waits.len(),
            tasks: changes.tasks.len(),
            approvals: changes.approvals.len(),
            notices: changes.notices.len(),
            kept_generations: changes.kept_generations.len(),
            alerts: changes.alerts.len(),
            emitted: emitted.len(),
            departs: departs.len(),
            kv: kv.clone(),
            record: changes.record.clone(),
        }
    }
}
