//! What one step forward of one run writes, and what it comes to.

use jiff::Timestamp;
use jiff::civil::Date;
use semel_model::event::Event;
use semel_model::run::RunState;
use semel_model::{EffectId, GateId, Guard, RunId, SessionId, WaitId, effect};

use super::Events;
use crate::alerts::RaisedAlert;
use crate::approvals::ApprovalChange;
use crate::attention;
use crate::audit::AuditEntry;
use crate::claims::NextRun;
use crate::event_waits::Topic;
use crate::kept_generations::GenerationChange;
use crate::kv::{self, Write};
use crate::named_effects::NameNotice;
use crate::outbox::Emitted;
use crate::runs::Stage;
use crate::tasks::TaskChange;

/// One step forward of one run.
#[derive(Debug)]
pub struct Transition {
    /// The run.
    pub run: RunId,
    /// The partition of its journal and effects.
    pub partition_date: Date,
    /// The namespace that owns it.
    pub namespace_id: i32,
    /// The session that believes that it holds the run.
    pub holder: SessionId,
    /// The lease under which it writes.
    pub epoch: i64,
    /// The number of the journal row that this one follows on.
    pub seq: i32,
    /// What happened.
    pub events: Events,
    /// What the ledger says from now on.
    pub effects: Vec<EffectChange>,
    /// Waits that open or run out.
    pub waits: Vec<WaitChange>,
    /// Tasks that open, open again or are withdrawn.
    pub tasks: Vec<TaskChange>,
    /// Approvals that open, are announced again, time out or are withdrawn.
    pub approvals: Vec<ApprovalChange>,
    /// The shared entries that are written in the same commit, each once. An operation whose event is
    /// made by the write is the only one.
    pub kv: Vec<Write>,
    /// Events that go out with the same commit.
    pub emitted: Vec<Emitted>,
    /// What people must learn of, where the namespace has alerts set.
    pub alerts: Vec<RaisedAlert>,
    /// The gates that a run leaves by its end.
    pub leaves_gates: Vec<GateId>,
    /// What the run came to at named effects, which have to know.
    pub notices: Vec<NameNotice>,
    /// What sets the generations of steps apart.
    pub kept_generations: Vec<GenerationChange>,
    /// What the record says from now on, where that changes.
    pub record: Option<RecordChange>,
    /// The next run of its key, where an operator replays the run and it ends by that.
    pub next_run: Option<Box<NextRun>>,
    /// The operators' acts that cause it, recorded in the same commit.
    pub acts: Vec<AuditEntry>,
    /// Its parent run, which has to know of its end.
    pub parent: Option<RunId>,
    /// Whether the worker knows that an operator asks for the run's end. Where it does not, a run
    /// that falls asleep is due at once.
    pub saw_cancel: bool,
    /// Whether the run made progress. An effect that was found without its outcome and is performed
    /// again may be what ended the process before: its takes are still counted.
    pub progresses: bool,
    /// The version of what is paused that it was decided under, where it must still be that one: an
    /// attempt begins, or the run falls asleep because of a pause.
    pub pause_version: Option<i64>,
    /// The pause because of which the run falls asleep.
    pub paused_by: Option<i64>,
    /// What happens to the lease.
    pub lease: LeaseChange,
}

impl Transition {
    /// Whether statements besides the one that every batch has are needed to write it.
    pub(super) fn needs_extra_statements(&self) -> bool {
        let parks = matches!(
            self.lease,
            LeaseChange::Return {
                stage: Stage::Stopped,
                ..
            }
        );
        let tells = !self.emitted.is_empty()
            || !self.leaves_gates.is_empty()
            || !self.notices.is_empty()
            || !self.kept_generations.is_empty()
            || !self.acts.is_empty()
            || !self.alerts.is_empty();
        parks
            || tells
            || attention::concerns(self)
            || !self.waits.is_empty()
            || self.ends_child()
            || self.next_run.is_some()
            || self.paused_by.is_some()
            || !self.tasks.is_empty()
            || !self.approvals.is_empty()
            || !self.kv.iter().all(kv::is_plain_set)
    }
}

impl Transition {
    /// Whether a child run ends with it.
    pub(super) fn ends_child(&self) -> bool {
        self.parent.is_some() && self.lease == LeaseChange::End
    }
}

/// What a transition makes of the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseChange {
    /// The worker continues.
    Keep,
    /// The run sleeps: until an instant, or until an operator or a callback wakes it.
    Return {
        /// When it is due again.
        due_at: Option<Timestamp>,
        /// Why it sleeps.
        stage: Stage,
    },
    /// The run has ended.
    End,
}

/// What the ledger says of an effect from now on.
#[derive(Clone, Debug)]
pub struct EffectChange {
    /// The effect.
    pub effect: EffectId,
    /// The step's path.
    pub step: String,
    /// The kind of step.
    pub kind: &'static str,
    /// How it is made safe.
    pub guard: Guard,
    /// Its state.
    pub state: effect::EffectState,
    /// The number of its latest attempt.
    pub attempt: u32,
    /// Whether the ledger has no row of it yet.
    pub first: bool,
    /// Whether an earlier run of the key may have left a row of it.
    pub follows: bool,
    /// Whether the ledger has it in doubt before this.
    pub was_in_doubt: bool,
    /// The destination's identity for what was made.
    pub external_id: Option<String>,
    /// What was seen, if it did not simply succeed.
    pub note: Option<String>,
}

/// What happens to a wait.
#[derive(Clone, Debug)]
pub enum WaitChange {
    /// The run came to it.
    Open {
        /// The wait.
        wait: WaitId,
        /// The step's path.
        step: String,
        /// When it ends by itself.
        until: Option<Timestamp>,
        /// The event that it is for.
        topic: Option<Topic>,
    },
    /// A pause is over, and it ends by itself later.
    Defer {
        /// The wait.
        wait: WaitId,
        /// When.
        until: Option<Timestamp>,
    },
    /// Its time is over, and no callback came.
    Elapse {
        /// The wait.
        wait: WaitId,
    },
    /// The run ends while it is open.
    Cancel {
        /// The wait.
        wait: WaitId,
    },
}

/// What the record says of a run from now on.
#[derive(Clone, Debug)]
pub struct RecordChange {
    /// Its state.
    pub state: RunState,
    /// Its result, as JSON text.
    pub result: Option<String>,
    /// Its fault, as JSON text.
    pub fault: Option<String>,
    /// The code of the fault.
    pub fault_code: Option<String>,
    /// Whether it read what earlier runs of its key did, where it ends.
    pub has_inherited: bool,
    /// Whether the run was stopped until an operator acts before this.
    pub was_stopped: bool,
}

impl RecordChange {
    /// A state, and nothing else to say.
    pub fn to(state: RunState) -> Self {
        Self {
            state,
            result: None,
            fault: None,
            fault_code: None,
            has_inherited: false,
            was_stopped: false,
        }
    }
}

/// The result of a transition.
#[derive(Clone, Debug)]
pub enum TransitionResult {
    /// It is committed.
    Committed {
        /// Whether an operator asks for the run's end.
        cancel: bool,
        /// The event that the write itself made, where it was not known before.
        made: Option<Event>,
    },
    /// The lease is another's: nothing was written.
    Fenced,
    /// Something was paused or resumed since it was decided: nothing was written, and the lease holds.
    PausesChanged,
    /// A callback ended the wait whose time was up: nothing was written, and the lease holds.
    Overtaken,
}

/// One row of a run's journal.
#[derive(Clone, Debug)]
pub struct JournalRow {
    /// Its number.
    pub seq: i32,
    /// When it was written.
    pub at: Timestamp,
    /// Its events, as JSON text.
    pub events: String,
}
