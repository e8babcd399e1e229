//! The chain of the audit record: each act is sealed with the digest of all before it.
//!
//! Whoever keeps a copy of one digest can show later that nothing before it was changed, removed or
//! put in between. The chain of a namespace covers its own acts, so that its export can be verified
//! without a server.

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::RunId;

/// What the first act of a chain follows.
pub const CHAIN_START: [u8; 32] = [0; 32];

/// An act as it is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedAct<'a> {
    /// Its place in the chain, from 1.
    pub position: i64,
    /// Its number in the record.
    pub id: i64,
    /// When, to the microsecond.
    pub at: Timestamp,
    /// Who.
    pub actor: &'a str,
    /// What was done.
    pub action: &'a str,
    /// What it was done to.
    pub subject: &'a str,
    /// Why.
    pub reason: Option<&'a str>,
    /// The run that it concerns.
    pub run: Option<RunId>,
}

impl SealedAct<'_> {
    /// The digest of this act and, through the digest of the one before it, of all before it.
    #[must_use]
    pub fn seal(&self, before: &[u8; 32]) -> [u8; 32] {
        let mut all = Sha256::new();
        all.update(b"semel.audit.1");
        all.update(before);
        all.update(self.position.to_be_bytes());
        all.update(self.id.to_be_bytes());
        all.update(self.at.as_microsecond().to_be_bytes());
        for text in [
            Some(self.actor),
            Some(self.action),
            Some(self.subject),
            self.reason,
        ] {
            add(&mut all, text.map(str::as_bytes));
        }
        add(
            &mut all,
            self.run.as_ref().map(|run| &run.as_uuid().as_bytes()[..]),
        );
        all.finalize().into()
    }
}

/// With its length first, so that no two lists of fields are the same bytes; a missing one differs
/// from an empty one.
fn add(all: &mut Sha256, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            all.update([1]);
            all.update((bytes.len() as u64).to_be_bytes());
            all.update(bytes);
        }
        None => all.update([0]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn act() -> SealedAct<'static> {
        SealedAct {
            position: 1,
            id: 7,
            at: Timestamp::UNIX_EPOCH,
            actor: "token:ada",
            action: "key.drop",
            subject: "orders 1",
            reason: Some("sent twice"),
            run: None,
        }
    }

    #[test]
    fn whatever_is_changed_changes_the_seal() {
        let seal = act().seal(&CHAIN_START);
        let changed = [
            SealedAct {
                position: 2,
                ..act()
            },
            SealedAct { id: 8, ..act() },
            SealedAct {
                at: Timestamp::from_microsecond(1).unwrap(),
                ..act()
            },
            SealedAct {
                actor: "token:ad",
                action: "akey.drop",
                ..act()
            },
            SealedAct {
                subject: "orders 2",
                ..act()
            },
            SealedAct {
                reason: None,
                ..act()
            },
            SealedAct {
                reason: Some(""),
                ..act()
            },
            SealedAct {
                run: Some(RunId::from_uuid(uuid::Uuid::nil())),
                ..act()
            },
        ];

        assert_eq!(act().seal(&CHAIN_START), seal);
        assert_ne!(act().seal(&[1; 32]), seal, "what came before");
        for other in changed {
            assert_ne!(other.seal(&CHAIN_START), seal, "{other:?}");
        }
    }
}
