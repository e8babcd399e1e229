//! The `duplicates` table: the record of every repeat that was stopped.
//!
//! A storm of repeats costs a row. Repeats are counted in memory and written by a [`Tally`] a few
//! times a second, so that an answer never waits for a commit of its own. A process that is killed
//! loses the counts of its last moment, and nothing else.
//!
//! Of what differs from the first delivery, the first few payloads of each subject are kept whole;
//! the others are counted in one row that has no payload, so that a sender who knows a key cannot
//! fill the disk.

mod forget;
mod gathering;
mod held;
mod list;
mod statements;
mod tally;

pub use forget::forget;
pub use gathering::PAYLOADS_MAX;
pub use held::{
    ArrivalColumns, DecisionKind, DecisionView, HeldArrival, HeldDecision, HeldDelivery, decide,
    find_held, finish, reopen,
};
pub use list::{DuplicatePosition, DuplicateView, ListedDuplicates, list, list_held, list_of_run};
pub use tally::Tally;

use jiff::Timestamp;
use semel_model::{ClaimId, DuplicateId, EffectId, Fingerprint, RunId, WaitId};
use uuid::Uuid;

pub(crate) const LISTS: &[&str] = list::STATEMENTS;
pub(crate) const STATEMENTS: &[&str] = &[
    statements::TALLY,
    statements::TALLY_AND_RAISE,
    statements::KNOWN,
    held::FIND,
    held::DECIDE,
    held::FINISH,
    held::REOPEN,
    forget::FORGET,
];

/// What stopped a repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// The claim of its key.
    Claim(ClaimId),
    /// The wait that had been answered.
    Wait(WaitId),
    /// The claim under which the same signed body came first.
    Replay(ClaimId),
    /// The effect that an earlier run had performed.
    Effect(EffectId),
    /// The effect that its destination had already, before anything was sent.
    Found(EffectId),
}

impl Subject {
    fn uuid(&self) -> Uuid {
        match self {
            Self::Claim(claim) | Self::Replay(claim) => *claim.as_uuid(),
            Self::Wait(wait) => *wait.as_uuid(),
            Self::Effect(effect) | Self::Found(effect) => *effect.as_uuid(),
        }
    }

    fn stopped_by(&self) -> &'static str {
        match self {
            Self::Claim(_) => "claim",
            Self::Wait(_) => "wait",
            Self::Replay(_) => "replay",
            Self::Effect(_) => "ledger",
            Self::Found(_) => "destination",
        }
    }
}

/// What happened to a repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DuplicateVerdict {
    /// The same payload: answered as the first.
    Repeat,
    /// Another payload: refused, or answered as a repeat, as the trigger says.
    Mismatch,
    /// Another payload, or a signed body under another key: held for an operator.
    Held,
}

impl DuplicateVerdict {
    fn as_str(self) -> &'static str {
        match self {
            Self::Repeat => "repeat",
            Self::Mismatch => "mismatch",
            Self::Held => "held",
        }
    }
}

/// A repeat that was stopped.
#[derive(Clone, Debug)]
pub struct StoppedRepeat {
    /// By what.
    pub subject: Subject,
    /// The namespace that owns it.
    pub namespace_id: i32,
    /// The run that answered.
    pub run: RunId,
    /// Its payload's fingerprint; of a replayed body, that of its payload and its key.
    pub fingerprint: Fingerprint,
    /// What happened to it.
    pub kind: DuplicateVerdict,
    /// Its payload as JSON text, where it differs from the first's.
    pub payload: Option<String>,
    /// Everything besides the payload that a run of its own needs, where it is held.
    pub arrival: Option<ArrivalColumns>,
    /// When it came.
    pub at: Timestamp,
}

impl StoppedRepeat {
    /// What it is counted under.
    pub fn id(&self) -> DuplicateId {
        let subject = self.subject.uuid();
        DuplicateId::derive(&subject, self.subject.stopped_by(), self.fingerprint)
    }
}
