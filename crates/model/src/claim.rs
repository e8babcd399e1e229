//! Claims: Semel's durable hold on a key.
//!
//! ```text
//! Held ──▶ Forgotten        past `keep`, and only when the run has ended
//!      └─▶ Dropped          by an operator, with a reason
//! ```
//!
//! Both ends free the key: the next delivery makes a new run, under the next incarnation.
//!
//! ```compile_fail
//! # use semel_model::claim::*;
//! fn twice(claim: Claim<Forgotten>) { claim.dropped("again".into()); }
//! ```

use crate::fingerprint::Fingerprint;
use crate::id::{ClaimId, RunId};
use crate::run::Ended;
use crate::seeded_bug::SeededBug;

/// A hold on a key, in a state the compiler knows.
#[derive(Debug)]
pub struct Claim<State> {
    id: ClaimId,
    run: RunId,
    state: State,
}

/// The key belongs to a run.
#[derive(Debug)]
pub struct Held {
    /// The payload that came with the first delivery.
    pub fingerprint: Fingerprint,
}

/// The key's time is over.
#[derive(Debug)]
pub struct Forgotten;

/// An operator freed the key.
#[derive(Debug)]
pub struct Dropped {
    /// Why, for the audit log.
    pub reason: String,
}

/// What a delivery found at its claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimVerdict {
    /// The first of its key: a run was made.
    New,
    /// A repeat: the same key and the same payload.
    Duplicate,
    /// The same key with another payload.
    Mismatch,
}

impl Claim<Held> {
    /// A hold that was just made or read back.
    pub fn held(id: ClaimId, run: RunId, fingerprint: Fingerprint) -> Self {
        Self {
            id,
            run,
            state: Held { fingerprint },
        }
    }

    /// What a later delivery of this key is.
    pub fn judge(&self, payload: Fingerprint) -> ClaimVerdict {
        if payload == self.state.fingerprint || SeededBug::FingerprintNotCompared.is_seeded() {
            ClaimVerdict::Duplicate
        } else {
            ClaimVerdict::Mismatch
        }
    }

    /// The key expired. Only a run that has ended can show an [`Ended`], so the key of a live run
    /// never expires.
    pub fn forgotten(self, _: Ended) -> Claim<Forgotten> {
        Claim {
            id: self.id,
            run: self.run,
            state: Forgotten,
        }
    }

    /// An operator frees the key, for a reason.
    pub fn dropped(self, reason: String) -> Claim<Dropped> {
        Claim {
            id: self.id,
            run: self.run,
            state: Dropped { reason },
        }
    }
}

impl<State> Claim<State> {
    /// The claim's identity.
    pub fn id(&self) -> ClaimId {
        self.id
    }

    /// The run that the key belongs to, or belonged to.
    pub fn run(&self) -> RunId {
        self.run
    }

    /// What is true in this state.
    pub fn state(&self) -> &State {
        &self.state
    }
}
