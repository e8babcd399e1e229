//! Events: what a run's journal says happened, in order.
//!
//! The journal is enough to continue a run: folding its events gives everything that the next
//! decision needs, and nothing else is consulted. Instants in events are the database's.

mod amendment;
mod begun;
mod caller;
mod deferral;
mod doubt_plan;
mod followed_run;
mod gate_wait;
mod name;
mod named;
mod operator_step;
mod seen;
mod wait_end;

pub use amendment::ResultAmendment;
pub use begun::ChildBegun;
pub use caller::Caller;
pub use deferral::Deferral;
pub use doubt_plan::DoubtPlan;
pub use followed_run::FollowedRun;
pub use gate_wait::GateWait;
pub use named::{NameEvent, NameHolder, UndoneName};
pub use operator_step::{OperatorStep, StepVerb};
pub use seen::ProbeFinding;
pub use wait_end::WaitEnd;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::approval::{ApprovalDecision, ApprovalNotice, ApprovalRequest, OnTimeout};
use crate::effect::{ConfirmedBy, Licence};
use crate::gate;
use crate::guard::Guard;
use crate::id::{EffectId, RunId, WaitId};
use crate::outcome::{Doubt, Fault};
use crate::past_effect::{PastEffect, PastResult};
use crate::request::StepRequest;
use crate::run::{EndState, StopReason};
use crate::span::Span;
use crate::trigger::TriggerKind;

/// One thing that happened to a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The delivery that made the run.
    Accepted {
        /// The trigger that it came by.
        trigger: TriggerKind,
        /// Its payload.
        input: Value,
        /// The request's headers that expressions may read.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        headers: Value,
        /// The request's query parameters.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        query: Value,
        /// The run that asked for it, and waits for its end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        caller: Option<Caller>,
        /// Who started it, where a person or a program did by name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// The instant that a schedule named, or that of the reconcile pass that started the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        nominal: Option<Timestamp>,
    },
    /// A child run: an item of a `foreach`, or a branch of a `parallel`.
    Begun(ChildBegun),
    /// The run is not the first of its key: its effects have the keys that they had in the first,
    /// and what earlier runs did is not done again.
    Follows(FollowedRun),
    /// What the runs before this one did was read from their ledger.
    Inherited {
        /// Those runs, the latest first; none where their history is gone.
        runs: Vec<RunId>,
        /// Their effects, by step.
        effects: Vec<PastEffect>,
        /// The results of steps that change nothing and are not made again.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        results: Vec<PastResult>,
    },
    /// An earlier run of the key had performed the step's effect: its result is reused, and nothing
    /// is sent.
    Reused {
        /// The step's path.
        step: String,
        /// The effect.
        effect: EffectId,
        /// The run that performed it.
        run: RunId,
        /// The destination's identity for what was made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        external_id: Option<String>,
        /// The HTTP status, where there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
        /// The step's result.
        result: Value,
    },
    /// An earlier run of the key left the step's effect in doubt: this run stands at it now.
    TakenOver {
        /// The step's path.
        step: String,
        /// The effect.
        effect: EffectId,
    },
    /// Something happened to the name of the step's effect.
    Named {
        /// The step's path.
        step: String,
        /// What.
        named: NameEvent,
    },
    /// The run takes one of several cases.
    Switched {
        /// The step's path.
        step: String,
        /// The number of the case, from 0; absent where none was true.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        case: Option<u32>,
    },
    /// Child runs are to be created: items or branches.
    FanOpened {
        /// The step's path.
        step: String,
    },
    /// All child runs are stored, and the step need not look for more.
    FanLoaded {
        /// The step's path.
        step: String,
        /// How many there are.
        count: u32,
        /// How many items had the key of an earlier one, and are the same.
        #[serde(default, skip_serializing_if = "is_zero")]
        repeats: u32,
    },
    /// No further child run begins.
    FanStopped {
        /// The step's path.
        step: String,
        /// Whether child runs that have not ended are asked to end.
        cancels: bool,
        /// Why; absent where one child run was enough.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fault: Option<Fault>,
    },
    /// All child runs that began have ended.
    FanEnded {
        /// The step's path.
        step: String,
        /// Their outcome.
        result: Value,
        /// The results of the branches' steps, by step.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        joined: Value,
        /// What was wrong, where the step failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fault: Option<Fault>,
    },
    /// Another flow was asked for a run.
    Started {
        /// The step's path.
        step: String,
        /// That run.
        run: RunId,
        /// The wait that its end completes; absent where the run does not wait for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wait: Option<WaitId>,
    },
    /// The run failed, and begins to undo what it did.
    Undoing {
        /// Why it failed.
        fault: Fault,
    },
    /// The run waits at a gate before its first step.
    GateWaiting(GateWait),
    /// A gate admitted the run.
    Admitted {
        /// Which of the flow's gates.
        gate: gate::GateKind,
    },
    /// The run does none of its steps, and ends as another run does that held the gate.
    Joined {
        /// The other.
        run: RunId,
    },
    /// A step that changes nothing has a result.
    Computed {
        /// The step's path.
        step: String,
        /// Its result.
        result: Value,
        /// The HTTP status of a read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
        /// What a language model read and wrote for it, and what that cost.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        usage: Value,
    },
    /// A read did not succeed.
    ReadFailed {
        /// The step's path.
        step: String,
        /// Why.
        fault: Fault,
        /// When it is tried again; never, when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_at: Option<Timestamp>,
    },
    /// The step's condition was false.
    Skipped {
        /// The step's path.
        step: String,
    },
    /// The step cannot be carried out: an expression failed.
    Broken {
        /// The step's path; the flow's own result has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<String>,
        /// Why.
        fault: Fault,
    },
    /// An attempt is about to be made.
    Intended {
        /// The step's path.
        step: String,
        /// The effect.
        effect: EffectId,
        /// The attempt's number, from 1.
        attempt: u32,
        /// What is sent; recorded with the first attempt, and the same for all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<Box<StepRequest>>,
        /// What allows a doubtful effect to be performed again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        licence: Option<Licence>,
        /// How it is made safe, where the connection decided that when the intent was written.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        guard: Option<Guard>,
        /// How long the destination remembers the key, where the connection said so then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window: Option<Span>,
        /// How many times the effect was meant to happen again before; recorded with the first
        /// attempt.
        #[serde(default, skip_serializing_if = "is_zero")]
        generation: u32,
    },
    /// The effect happened.
    Done {
        /// The step's path.
        step: String,
        /// What confirms it.
        by: ConfirmedBy,
        /// The destination's identity for what was made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        external_id: Option<String>,
        /// The HTTP status, where there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
        /// The step's result.
        result: Value,
    },
    /// The effect is known not to have happened.
    Failed {
        /// The step's path.
        step: String,
        /// Why.
        fault: Fault,
        /// When it is tried again; never, when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_at: Option<Timestamp>,
    },
    /// Whether the effect happened is unknown.
    Doubted {
        /// The step's path.
        step: String,
        /// What was seen.
        doubt: Doubt,
        /// How the doubt is settled.
        plan: DoubtPlan,
    },
    /// A probe was made and did not find the effect.
    Probed {
        /// The step's path.
        step: String,
        /// What it saw.
        seen: ProbeFinding,
    },
    /// An operator says that the effect did not happen and must be performed.
    Licensed {
        /// The step's path.
        step: String,
        /// Why, in the operator's words.
        reason: String,
    },
    /// A wait began.
    WaitOpened {
        /// The step's path.
        step: String,
        /// The wait.
        wait: WaitId,
        /// When it ends by itself; never, when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
        /// The value that the awaited event must have at the topic's path, where the wait has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        about: Option<Value>,
    },
    /// A wait ended.
    WaitEnded {
        /// The step's path.
        step: String,
        /// How.
        how: WaitEnd,
    },
    /// People were asked for a decision.
    ApprovalOpened {
        /// The step's path.
        step: String,
        /// The approval.
        wait: WaitId,
        /// When it ends by itself; never, when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
        /// What they were asked.
        asked: Box<ApprovalRequest>,
    },
    /// They were reminded, or others were asked too.
    ApprovalTold {
        /// The step's path.
        step: String,
        /// What.
        what: ApprovalNotice,
    },
    /// A person decided.
    ApprovalDecided {
        /// The step's path.
        step: String,
        /// What.
        decision: ApprovalDecision,
    },
    /// No decision came in time.
    ApprovalElapsed {
        /// The step's path.
        step: String,
        /// What holds then.
        policy: OnTimeout,
    },
    /// The run is stopped until an operator acts.
    Stopped {
        /// Which of the stopped states it is in; a row without it is of a run that was quarantined
        /// unread.
        #[serde(default)]
        reason: StopReason,
        /// Why.
        fault: Fault,
    },
    /// A stopped or failed run continues.
    Resumed {
        /// Why, in the operator's words.
        reason: String,
        /// Who, where an operator did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// Whether people who rejected are asked again; otherwise their rejection stands.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        asks_again: bool,
    },
    /// A pause is over: deadlines of the current step are moved by its time.
    Deferred(Deferral),
    /// An operator has one done effect of the ended run undone, or performed again.
    OperatorStep(OperatorStep),
    /// An operator corrects the result that an operator gave a settled effect.
    Amended(ResultAmendment),
    /// The run ended.
    Ended {
        /// How.
        state: EndState,
        /// Its result, where it succeeded.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        result: Value,
        /// What was wrong, where it did not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fault: Option<Fault>,
    },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}
