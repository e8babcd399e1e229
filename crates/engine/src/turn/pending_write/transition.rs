//! Everything that is pending, as one transition.

use jiff::civil::Date;
use semel_model::event::Event;
use semel_model::{RunId, SessionId};
use semel_store::journal::{Events, LeaseChange, Transition};

use super::PendingWrite;

/// Whose transition it is, and under which lease.
pub(in crate::turn) struct Identity {
    pub(in crate::turn) run: RunId,
    pub(in crate::turn) partition_date: Date,
    pub(in crate::turn) namespace_id: i32,
    pub(in crate::turn) holder: SessionId,
    pub(in crate::turn) epoch: i64,
    pub(in crate::turn) seq: i32,
    pub(in crate::turn) saw_cancel: bool,
    pub(in crate::turn) child_of: Option<RunId>,
    /// Whether an attempt was made since the last write.
    pub(in crate::turn) tried: bool,
    /// The version of what was paused when the turn decided.
    pub(in crate::turn) pause_version: i64,
}

impl PendingWrite {
    /// Everything that is pending, as one transition.
    pub(in crate::turn) fn take(&mut self, identity: Identity, lease: LeaseChange) -> Transition {
        let Identity {
            run,
            partition_date,
            namespace_id,
            holder,
            epoch,
            seq,
            saw_cancel,
            child_of: part_of,
            tried,
            pause_version,
        } = identity;
        let changes = std::mem::take(&mut self.changes);
        self.coalesced_bytes = 0;
        let progresses = tried || !self.only_repeats();
        let paused_by = self.paused_by.take();
        let decided = paused_by.is_some() || self.has_intent();
        Transition {
            run,
            partition_date,
            namespace_id,
            holder,
            epoch,
            seq,
            events: Events::new(std::mem::take(&mut self.events)),
            effects: changes.effects,
            waits: changes.waits,
            tasks: changes.tasks,
            approvals: changes.approvals,
            kv: std::mem::take(&mut self.kv),
            emitted: std::mem::take(&mut self.emitted),
            alerts: changes.alerts,
            leaves_gates: std::mem::take(&mut self.departs),
            notices: changes.notices,
            kept_generations: changes.kept_generations,
            record: changes.record,
            next_run: self.next_run.take(),
            acts: std::mem::take(&mut self.acts),
            saw_cancel,
            parent: part_of,
            progresses,
            pause_version: decided.then_some(pause_version),
            paused_by,
            lease,
        }
    }

    /// Whether nothing is pending but that an attempt without an outcome was found, or that it is made
    /// again.
    fn only_repeats(&self) -> bool {
        let repeats = |event: &Event| {
            matches!(
                event,
                Event::Intended {
                    licence: Some(_),
                    ..
                }
            )
        };
        let about_it = |event: &Event| {
            matches!(
                event,
                Event::Doubted { .. } | Event::Probed { .. } | Event::Named { .. }
            )
        };
        let doubted = |event: &Event| matches!(event, Event::Doubted { .. });
        let events = &self.events;
        self.kv.is_empty()
            && events.iter().any(|event| repeats(event) || doubted(event))
            && events.iter().all(|event| repeats(event) || about_it(event))
    }
}
