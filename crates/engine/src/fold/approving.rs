//! Where an approval stands, and what its end means for the run.

use jiff::Timestamp;
use semel_flow::Flow;
use semel_model::approval::{Asked, Decision, OnReject, OnTimeout, Told};
use semel_model::{Fault, WaitId};
use serde_json::{Value, json};

use super::{Current, RunState};

/// The fault of a run whose approval was rejected, or counts as rejected.
pub const REJECTED: &str = "approval-rejected";

/// An approval that nobody has decided yet.
#[derive(Clone, Debug)]
pub struct Approving {
    /// The approval.
    pub wait: WaitId,
    /// What people are asked.
    pub asked: Asked,
    /// When it ends by itself.
    pub until: Option<Timestamp>,
    /// How many times people were told again.
    pub reminders: u32,
    /// When they are told again.
    pub remind_at: Option<Timestamp>,
    /// When others are told too, where they were not yet.
    pub escalate_at: Option<Timestamp>,
}

impl Approving {
    pub(super) fn of(wait: WaitId, until: Option<Timestamp>, asked: &Asked) -> Self {
        Self {
            wait,
            until,
            reminders: 0,
            remind_at: asked.remind_at,
            escalate_at: asked.escalate_at,
            asked: asked.clone(),
        }
    }

    pub(super) fn told(&mut self, what: Told) {
        match what {
            Told::Reminded { number, next_at } => {
                self.reminders = number;
                self.remind_at = next_at;
            }
            Told::Escalated => self.escalate_at = None,
        }
    }
}

impl RunState {
    /// What a rejection of what people are asked now means.
    pub(super) fn on_reject(&self) -> OnReject {
        match &self.current {
            Current::Approving(approving) => approving.asked.on_reject,
            Current::Fresh
            | Current::Reading(_)
            | Current::Effect(_)
            | Current::Waiting { .. }
            | Current::Fan(_)
            | Current::Broken(_) => OnReject::Fail,
        }
    }

    pub(super) fn approval_ended(&mut self, flow: &Flow, step: &str, end: Result<Value, Fault>) {
        match end {
            Ok(result) => self.finish_step(flow, step, result, None, None),
            Err(fault) => self.current = Current::Broken(fault),
        }
    }
}

/// The step's result, or why the run does not go on.
pub(super) fn decided(decision: &Decision, on_reject: OnReject) -> Result<Value, Fault> {
    let Decision {
        approved,
        by,
        comment,
        at,
    } = decision;
    if *approved || on_reject == OnReject::Continue {
        return Ok(json!({ "approved": approved, "by": by, "comment": comment, "at": at }));
    }
    let message = match comment {
        Some(comment) => format!("rejected by {by}: {comment}"),
        None => format!("rejected by {by}"),
    };
    Err(Fault::permanent("approval-rejected", message))
}

/// What holds where nobody decided in time.
pub(super) fn elapsed(policy: OnTimeout, on_reject: OnReject) -> Result<Value, Fault> {
    let nobody = |approved: Option<bool>| json!({ "approved": approved, "by": null, "comment": null, "at": null });
    match policy {
        OnTimeout::Continue => Ok(nobody(None)),
        OnTimeout::Reject if on_reject == OnReject::Continue => Ok(nobody(Some(false))),
        OnTimeout::Reject => Err(Fault::permanent(
            "approval-rejected",
            "nobody decided in time, which counts as a rejection",
        )),
        OnTimeout::Fail => Err(Fault::permanent(
            "approval-timed-out",
            "nobody decided in time",
        )),
    }
}
