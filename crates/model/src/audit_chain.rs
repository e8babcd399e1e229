//! The chain of the audit record: each act is sealed with the digest of all before it.
//!
//! Whoever keeps a copy of one digest can show later that nothing before it was changed, removed or
//! put in between. The chain of a namespace covers its own acts, so that its export can be verified
//! without a server.

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::{RunId, TokenId};

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
    /// Its token, address and digests.
    pub traces: ActTraces<'a>,
}

/// The origin of an act, and the digests of its subject before and after. All absent: none was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActTraces<'a> {
    /// The token of the request.
    pub token: Option<TokenId>,
    /// The address of the client.
    pub address: Option<&'a str>,
    /// The digest of what was there before.
    pub old_digest: Option<[u8; 32]>,
    /// The digest of what is there now.
    pub new_digest: Option<[u8; 32]>,
}

/// The digest of something that an act changes.
#[must_use]
pub fn digest_of(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

impl SealedAct<'_> {
    /// The digest of this act and, through the digest of the one before it, of all before it.
    #[must_use]
    pub fn seal(&self, before: &[u8; 32]) -> [u8; 32] {
        let mut all = Sha256::new();
        let traces = self.traces;
        // An act without traces is sealed as acts were before there were any.
        let version: &[u8] = match traces == ActTraces::default() {
            true => b"semel.audit.1",
            false => b"semel.audit.2",
        };
        all.update(version);
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
        if traces != ActTraces::default() {
            let token = traces.token.as_ref();
            add(&mut all, token.map(|token| &token.as_uuid().as_bytes()[..]));
            add(&mut all, traces.address.map(str::as_bytes));
            for digest in [&traces.old_digest, &traces.new_digest] {
                add(&mut all, digest.as_ref().map(|digest| &digest[..]));
            }
        }
        all.finalize().into()
    }
}

/// How far a chain was followed: each act must fit the digest of all before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainEnd {
    /// The place of the last act.
    pub position: i64,
    /// The digest there.
    pub digest: [u8; 32],
}

/// Why a chain does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainBreak {
    /// Another position follows.
    #[error("an act is missing: position {0} is expected")]
    Missing(i64),
    /// The digest is another.
    #[error("it was changed, or something before it was")]
    Changed,
    /// Retention removed the acts that come next, before they were read.
    #[error("the acts from position {0} on were removed before they were read")]
    Overtaken(i64),
}

impl ChainEnd {
    /// Before the first act.
    pub const START: Self = Self {
        position: 0,
        digest: CHAIN_START,
    };

    /// The place of the next act. A file may say any number.
    #[must_use]
    pub const fn next(&self) -> i64 {
        self.position.saturating_add(1)
    }

    /// Goes on to the next act, which has this digest.
    ///
    /// # Errors
    ///
    /// If it does not follow from what is before it.
    pub fn follow(&mut self, act: &SealedAct<'_>, digest: &[u8]) -> Result<(), ChainBreak> {
        let position = self.next();
        if act.position != position {
            return Err(ChainBreak::Missing(position));
        }
        let sealed = act.seal(&self.digest);
        if sealed != digest {
            return Err(ChainBreak::Changed);
        }
        (self.position, self.digest) = (position, sealed);
        Ok(())
    }

    /// Goes on behind a stretch whose acts were removed and whose seal was kept.
    ///
    /// # Errors
    ///
    /// If it does not follow from what is before it.
    pub fn pass(&mut self, removed: &RemovedActs) -> Result<(), ChainBreak> {
        let position = self.next();
        if removed.first > position {
            return Err(ChainBreak::Missing(position));
        }
        if removed.first < position {
            return Err(ChainBreak::Overtaken(position));
        }
        if removed.digest_before != self.digest || removed.last < removed.first {
            return Err(ChainBreak::Changed);
        }
        (self.position, self.digest) = (removed.last, removed.digest);
        Ok(())
    }
}

/// A stretch of a chain whose acts were removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemovedActs {
    /// The place of its first act.
    pub first: i64,
    /// The place of its last act.
    pub last: i64,
    /// The digest that its first act followed.
    pub digest_before: [u8; 32],
    /// The digest of its last act.
    pub digest: [u8; 32],
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
            traces: ActTraces::default(),
        }
    }

    #[test]
    fn each_trace_of_an_act_is_sealed_and_none_stands_for_another() {
        let (one, other) = (Some([1; 32]), Some([2; 32]));
        let token = Some(TokenId::from_uuid(uuid::Uuid::from_u128(7)));
        let none = ActTraces::default();
        let all = [
            none,
            ActTraces { token, ..none },
            ActTraces {
                address: Some("192.0.2.1"),
                ..none
            },
            ActTraces {
                old_digest: one,
                ..none
            },
            ActTraces {
                new_digest: one,
                ..none
            },
            ActTraces {
                old_digest: one,
                new_digest: other,
                ..none
            },
            ActTraces {
                old_digest: other,
                new_digest: one,
                ..none
            },
        ];

        let seals = all.map(|traces| SealedAct { traces, ..act() }.seal(&CHAIN_START));

        let different: std::collections::BTreeSet<_> = seals.iter().collect();
        assert_eq!(different.len(), all.len());
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

    #[test]
    fn a_chain_goes_on_behind_what_was_removed_and_nowhere_else() {
        let mut whole = ChainEnd::START;
        let (one, two) = (
            act(),
            SealedAct {
                position: 2,
                ..act()
            },
        );
        let first = one.seal(&CHAIN_START);
        let second = two.seal(&first);
        whole.follow(&one, &first).unwrap();
        let removed = RemovedActs {
            first: 1,
            last: 1,
            digest_before: CHAIN_START,
            digest: first,
        };
        let mut rest = ChainEnd::START;
        rest.pass(&removed).unwrap();
        assert_eq!(rest, whole);
        assert_eq!(rest.follow(&two, &second), Ok(()));

        let mut behind = whole;
        assert_eq!(behind.pass(&removed), Err(ChainBreak::Overtaken(2)));
        let later = RemovedActs {
            first: 3,
            last: 4,
            ..removed
        };
        assert_eq!(behind.pass(&later), Err(ChainBreak::Missing(2)));
        let other = RemovedActs {
            digest_before: [1; 32],
            ..removed
        };
        let mut start = ChainEnd::START;
        assert_eq!(start.pass(&other), Err(ChainBreak::Changed));
        assert_eq!(start.follow(&two, &second), Err(ChainBreak::Missing(1)));
    }

    #[test]
    fn a_file_that_names_the_last_of_all_numbers_breaks_the_chain_and_nothing_else() {
        let mut end = ChainEnd {
            position: i64::MAX,
            ..ChainEnd::START
        };

        assert_eq!(
            end.follow(&act(), &CHAIN_START),
            Err(ChainBreak::Missing(i64::MAX))
        );
    }
}
