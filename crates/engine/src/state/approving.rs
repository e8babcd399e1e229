//! The state of an approval.

use jiff::Timestamp;
use semel_model::WaitId;
use semel_model::approval::{ApprovalDecision, ApprovalRequest};
use serde_json::{Value, json};

/// An approval that is not decided yet.
#[derive(Clone, Debug)]
pub struct Approving {
    /// The approval.
    pub wait: WaitId,
    /// What people are asked.
    pub asked: ApprovalRequest,
    /// When it ends by itself.
    pub until: Option<Timestamp>,
    /// How many reminders were sent.
    pub reminders: u32,
    /// When the next reminder is due.
    pub remind_at: Option<Timestamp>,
    /// When others are asked too, where they were not yet.
    pub escalate_at: Option<Timestamp>,
}

impl Approving {
    /// An approval that people were just asked for.
    pub fn of(wait: WaitId, until: Option<Timestamp>, asked: &ApprovalRequest) -> Self {
        Self {
            wait,
            until,
            reminders: 0,
            remind_at: asked.remind_at,
            escalate_at: asked.escalate_at,
            asked: asked.clone(),
        }
    }
}

/// The result of an approval that was given.
pub(crate) fn approved(decision: &ApprovalDecision) -> Value {
    let ApprovalDecision {
        approved,
        by,
        comment,
        at,
    } = decision;
    json!({ "approved": approved, "by": by, "comment": comment, "at": at })
}
