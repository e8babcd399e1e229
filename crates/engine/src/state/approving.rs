//! Where an approval stands.

use jiff::Timestamp;
use semel_model::WaitId;
use semel_model::approval::Asked;

/// An approval that is not decided yet.
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
    /// An approval that people were just asked for.
    pub fn of(wait: WaitId, until: Option<Timestamp>, asked: &Asked) -> Self {
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
