//! What an earlier run of a key came to at a step: the ledger as a later run of that key meets it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fingerprint::Fingerprint;
use crate::guard::Guard;
use crate::id::{EffectId, RunId};
use crate::outcome::{Fault, SettledBy};
use crate::request::StepRequest;
use crate::span::Span;

/// An effect of an earlier run of the same key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PastEffect {
    /// The step's path.
    pub step: String,
    /// The effect: the key that the destination was sent, unless it had a business key.
    pub effect: EffectId,
    /// The key that the destination was sent under a business key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_as: Option<EffectId>,
    /// How many times the effect was meant to happen again before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub generation: u32,
    /// The run that performed it.
    pub run: RunId,
    /// The kind of step, e.g. http.
    pub kind: String,
    /// The connection that it went over, where it went over one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<String>,
    /// The fingerprint of the request.
    pub fingerprint: Fingerprint,
    /// What it came to.
    pub outcome: PastOutcome,
}

/// What an effect of an earlier run came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum PastOutcome {
    /// It happened.
    Done {
        /// The destination's identity for what was made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        external_id: Option<String>,
        /// The HTTP status, where there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
        /// The step's result.
        result: Value,
    },
    /// It did not happen.
    Failed {
        /// Why.
        fault: Fault,
    },
    /// It happened and was undone, or the key came back as a new intent: it counts as not done.
    Undone,
    /// Whether it happened is unknown: an operator failed it while it was in doubt.
    InDoubt {
        /// What was sent.
        request: Box<StepRequest>,
        /// How it is made safe.
        guard: Guard,
        /// The number of the latest attempt.
        attempt: u32,
        /// How long the destination remembers the key, where the connection said so at the intent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window: Option<Span>,
        /// When the first intent was written.
        since: Timestamp,
        /// When the latest intent was written.
        intended_at: Timestamp,
        /// Why the operator failed it.
        fault: Fault,
        /// Who settles the doubt.
        settled_by: SettledBy,
    },
    /// The same, and its request was erased: nobody can look into it or send it again.
    DoubtErased {
        /// Why it was given up, without its message.
        fault: Fault,
    },
}

/// What a step of an earlier run gave that changes nothing: a read, a function, a timer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PastResult {
    /// The step's path.
    pub step: String,
    /// Its result.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub result: Value,
    /// The HTTP status of a read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

impl PastEffect {
    /// Whether it happened, and still counts as done.
    pub fn is_done(&self) -> bool {
        matches!(self.outcome, PastOutcome::Done { .. })
    }

    /// Whether a request is of the same kind and goes to the same destination.
    pub fn goes_where(&self, request: &StepRequest) -> bool {
        self.kind == request.kind() && self.connection.as_deref() == request.connection()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}
