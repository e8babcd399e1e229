//! Identities. Each reads as a prefix and 32 hex digits, and is parsed once, at the edge.
//!
//! Claims, runs, effects and waits are *derived*: the same namespace, flow, key and path give the
//! same identity on any machine, at any time. That is how a repeat finds the first.
//!
//! ```text
//! claim   = SHA-256(namespace, flow, key)                          16 bytes, slot in front
//!           SHA-256(space, namespace, flow, key) for keys that Semel makes itself
//! run     = the claim, for the first run of the key
//!           8 bytes of the claim, 8 of SHA-256(claim, n), for the run after n others
//! child run = 8 bytes of its run, 8 of SHA-256(run, path, item)
//! effect  = 8 bytes of the first run, 8 of SHA-256(first run, path, item, generation)
//!           of a name: 8 bytes of the named effect, 8 of SHA-256(named effect, generation)
//! wait    = slot and bytes 8 to 13 of the run, 8 of SHA-256(run, path); `run` is the first run for
//!           callbacks, timers and events, and the run that asks for approvals
//! schedule = SHA-256(namespace, flow)                               16 bytes, slot in front
//! gate    = SHA-256(namespace, flow, kind, object)                 16 bytes, slot in front
//! named effect = SHA-256(namespace, scope, key)                    16 bytes, slot in front
//! duplicate = 8 bytes of what stopped it, 8 of SHA-256(that, its kind, fingerprint)
//! ```
//!
//! The *first run* is the first one of the key, or the child run at the same place in it: so an effect
//! and the address of a callback are the same in every later run. Everything of a key begins with
//! the same eight bytes: [`RunId::key_range`] finds its runs, their child runs and the effects of all of
//! them in one range of an index; which run an effect belongs to is a column of its row. Waits begin
//! with what tells runs of one key apart: [`RunId::wait_range`] finds those of one run. All are in the
//! slot of their key ([`InSlot`]).

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::fingerprint::Fingerprint;
use crate::key::{Key, KeySpace};
use crate::name::{FlowName, NamespaceName};
use crate::slot::{InSlot, Slot};

/// The text is not an identity of the kind that was asked for.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected} followed by 32 hex digits")]
pub struct ParseIdError {
    /// The prefix that this kind of identity begins with.
    pub expected: &'static str,
}

macro_rules! identity {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uuid);

        impl $name {
            const PREFIX: &str = $prefix;

            /// Takes the identity as the store keeps it.
            pub fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// The identity as the store keeps it.
            pub fn as_uuid(&self) -> &Uuid {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}{}", Self::PREFIX, self.0.simple())
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                text.strip_prefix(Self::PREFIX)
                    .filter(|digits| digits.len() == 32)
                    .and_then(|digits| Uuid::try_parse(digits).ok())
                    .map(Self)
                    .ok_or(ParseIdError { expected: Self::PREFIX })
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

identity!(
    /// Semel's durable hold on a key: the digest of namespace, flow and key.
    ClaimId, "claim_"
);
identity!(
    /// One execution of a release, from its trigger to its end.
    RunId, "run_"
);
identity!(
    /// One change to the outside world. Its text is the key that the destination is sent.
    EffectId, "eff_"
);
identity!(
    /// One durable pause of a run.
    WaitId, "wait_"
);
identity!(
    /// The schedule of a flow, whatever its release.
    ScheduleId, "schedule_"
);
identity!(
    /// What the runs of one object pass one at a time. It lives in a slot of its own.
    GateId, "gate_"
);
identity!(
    /// An effect whose key people choose. It lives in a slot of its own, outside of any run.
    NamedEffectId, "name_"
);
identity!(
    /// One process that wants to perform a named effect, made anew by each.
    HolderId, "holder_"
);
identity!(
    /// One server's life as a worker, for as long as its lease is renewed.
    SessionId, "session_"
);
identity!(
    /// What an API token is known by: the part of it that is no secret.
    TokenId, "tok_"
);
identity!(
    /// One arrival at a trigger, made anew each time: it tells this process's write from another's.
    DeliveryId, "delivery_"
);
identity!(
    /// A set of runs that an operator replays together.
    ReplayPlanId, "plan_"
);
identity!(
    /// A set of runs that an operator cancels or resumes together. Control data, in no slot.
    RunJobId, "job_"
);
identity!(
    /// The repeats that one place stopped with one payload. It lives in the slot of that place.
    DuplicateId, "dup_"
);

macro_rules! in_slot {
    ($($name:ident),*) => {$(
        impl InSlot for $name {
            fn slot(&self) -> Slot {
                Slot::of(self.0.as_bytes())
            }
        }
    )*};
}

in_slot!(
    ClaimId,
    RunId,
    EffectId,
    WaitId,
    ScheduleId,
    GateId,
    NamedEffectId,
    DuplicateId
);

impl ClaimId {
    /// Derives the claim of a key.
    pub fn derive(namespace: &NamespaceName, flow: &FlowName, key: &Key) -> Self {
        let parts = [
            namespace.as_str().as_bytes(),
            flow.as_str().as_bytes(),
            key.as_bytes(),
        ];
        Self(Uuid::from_bytes(digest("semel.claim.1", &parts)))
    }

    /// Derives the claim of a key in its space. What senders and authors name is as it always was.
    pub fn derive_in(
        space: KeySpace,
        namespace: &NamespaceName,
        flow: &FlowName,
        key: &Key,
    ) -> Self {
        match space {
            KeySpace::Given => Self::derive(namespace, flow, key),
            KeySpace::Schedule | KeySpace::Call | KeySpace::Event => {
                let parts = [
                    space.as_str().as_bytes(),
                    namespace.as_str().as_bytes(),
                    flow.as_str().as_bytes(),
                    key.as_bytes(),
                ];
                Self(Uuid::from_bytes(digest("semel.claim.internal.1", &parts)))
            }
        }
    }

    /// Derives a name for a delivery that started nothing, by what was read of its unsigned parts. No key has
    /// it.
    pub fn passed_over(namespace: &NamespaceName, flow: &FlowName, read: &[u8]) -> Self {
        let parts = [
            namespace.as_str().as_bytes(),
            flow.as_str().as_bytes(),
            read,
        ];
        Self(Uuid::from_bytes(digest("semel.passed-over.1", &parts)))
    }

    /// Derives the claims that a key may have, for people who know its text and not its space.
    pub fn derive_all(
        namespace: &NamespaceName,
        flow: &FlowName,
        key: &Key,
    ) -> [Self; KeySpace::ALL.len()] {
        KeySpace::ALL.map(|space| Self::derive_in(space, namespace, flow, key))
    }
}

impl RunId {
    /// Derives the run of a claim. `number` counts the runs of the key before it: 0 for the first.
    pub fn derive(claim: ClaimId, number: u32) -> Self {
        let first = Self(claim.0);
        if number == 0 {
            return first;
        }
        let parts: [&[u8]; 2] = [claim.0.as_bytes(), &number.to_be_bytes()];
        Self(first.owned("semel.run.1", &parts))
    }

    /// Derives a child run: an item or a branch of one of the run's steps. It lives in the slot of
    /// its parent.
    pub fn child(&self, step: &str, item: &str) -> Self {
        let parts = [
            self.0.as_bytes().as_slice(),
            step.as_bytes(),
            item.as_bytes(),
        ];
        Self(self.owned("semel.part.1", &parts))
    }

    /// The lowest and the highest identity that belongs to the key of this run: of its runs, of
    /// their child runs, and of the effects of all of them.
    pub fn key_range(&self) -> (Uuid, Uuid) {
        range(*self.0.as_bytes())
    }

    /// The lowest and the highest identity that a wait of this run can have. Child runs of one key
    /// differ here, so that a run among a hundred thousand finds its own.
    pub fn wait_range(&self) -> (Uuid, Uuid) {
        range(self.wait_head())
    }

    /// The slot, then what tells this run from others of its key.
    fn wait_head(&self) -> [u8; 16] {
        let mut head = *self.0.as_bytes();
        head.copy_within(8..14, 2);
        head
    }

    fn owned(&self, domain: &str, parts: &[&[u8]]) -> Uuid {
        in_front(self.0.as_bytes(), domain, parts)
    }
}

/// The first eight bytes of `head`, then eight bytes of a digest.
fn in_front(head: &[u8; 16], domain: &str, parts: &[&[u8]]) -> Uuid {
    let mut bytes = digest(domain, parts);
    bytes.copy_within(0..8, 8);
    bytes[..8].copy_from_slice(&head[..8]);
    Uuid::from_bytes(bytes)
}

/// The lowest and the highest identity that begins with the first eight bytes of `head`.
fn range(head: [u8; 16]) -> (Uuid, Uuid) {
    let (mut low, mut high) = (head, head);
    low[8..].fill(0x00);
    high[8..].fill(0xff);
    (Uuid::from_bytes(low), Uuid::from_bytes(high))
}

impl EffectId {
    /// Derives an effect. `first` is the first run of the key, or the child run that stands at the
    /// same place in it. No attempt, no worker, no release and no later run enters into it, so every
    /// try at the same change carries the same key. `generation` is 0 unless the effect is meant to
    /// happen again: it was undone, an operator redoes it, or another request replaces one that
    /// failed.
    pub fn derive(first: RunId, path: &str, item: &str, generation: u32) -> Self {
        let parts: [&[u8]; 4] = [
            first.0.as_bytes(),
            path.as_bytes(),
            item.as_bytes(),
            &generation.to_be_bytes(),
        ];
        Self(first.owned("semel.effect.1", &parts))
    }
}

impl WaitId {
    /// Derives a wait of a run, so that its address is known before the wait begins.
    pub fn derive(run: RunId, path: &str) -> Self {
        let parts: [&[u8]; 2] = [run.0.as_bytes(), path.as_bytes()];
        Self(in_front(&run.wait_head(), "semel.wait.1", &parts))
    }
}

impl ScheduleId {
    /// Derives the schedule of a flow.
    pub fn derive(namespace: &NamespaceName, flow: &FlowName) -> Self {
        let parts = [namespace.as_str().as_bytes(), flow.as_str().as_bytes()];
        Self(Uuid::from_bytes(digest("semel.schedule.1", &parts)))
    }
}

impl DuplicateId {
    /// Derives it from the claim, wait or effect that stopped the repeats, the name of that place, and
    /// the fingerprint of their payload.
    pub fn derive(subject: &Uuid, stopped_by: &str, fingerprint: Fingerprint) -> Self {
        let parts: [&[u8]; 3] = [
            subject.as_bytes(),
            stopped_by.as_bytes(),
            fingerprint.as_uuid().as_bytes(),
        ];
        Self(in_front(subject.as_bytes(), "semel.duplicate.1", &parts))
    }

    /// The lowest and the highest identity that what stopped it can have.
    pub fn subject_range(&self) -> (Uuid, Uuid) {
        range(*self.0.as_bytes())
    }
}

impl SessionId {
    /// A new session.
    pub fn generate() -> Self {
        Self(Uuid::now_v7())
    }
}

impl DeliveryId {
    /// A new delivery.
    pub fn generate() -> Self {
        Self(Uuid::now_v7())
    }
}

impl RunJobId {
    /// A new job.
    pub fn generate() -> Self {
        Self(Uuid::now_v7())
    }
}

impl ReplayPlanId {
    /// A new plan.
    pub fn generate() -> Self {
        Self(Uuid::now_v7())
    }
}

impl HolderId {
    /// A new process.
    pub fn generate() -> Self {
        Self(Uuid::now_v7())
    }
}

/// Sixteen bytes of SHA-256 over length-prefixed parts: no two lists of parts read the same.
pub fn digest(domain: &str, parts: &[&[u8]]) -> [u8; 16] {
    let mut hasher = Sha256::new();
    hasher.update(domain.as_bytes());
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    let full = hasher.finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&full[..16]);
    bytes
}
