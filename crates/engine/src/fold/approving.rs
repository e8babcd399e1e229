//! Where an approval stands, and what its end means for the run.

use jiff::Timestamp;
use semel_model::approval::{Asked, Decision, OnTimeout, Told};
use semel_model::{Fault, WaitId};
use serde_json::{Value, json};

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

/// The step's result, or why the run does not go on.
pub(super) fn decided(decision: &Decision) -> Result<Value, Fault> {
    let Decision {
        approved,
        by,
        comment,
        at,
    } = decision;
    if *approved {
        return Ok(json!({ "approved": true, "by": by, "comment": comment, "at": at }));
    }
    let message = match comment {
        Some(comment) => format!("rejected by {by}: {comment}"),
        None => format!("rejected by {by}"),
    };
    Err(Fault::permanent("approval-rejected", message))
}

/// What holds where nobody decided in time.
pub(super) fn elapsed(policy: OnTimeout) -> Result<Value, Fault> {
    match policy {
        OnTimeout::Continue => {
            Ok(json!({ "approved": null, "by": null, "comment": null, "at": null }))
        }
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
