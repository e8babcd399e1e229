//! The nouns of Semel: identities, values, states and their legal moves.
//!
//! Everything here is pure. Nothing reads a clock, a socket or a table, so a law that holds here
//! holds wherever the noun is used. Read in this order: a [`key`] names one intent, its digest is
//! a [`claim`], the claim makes a [`run`], the run makes [`effect`]s and [`wait`]s, and what
//! happened is recorded in [`event`]s. Runs of one object pass a [`gate`] one at a time.

pub mod alert;
pub mod approval;
pub mod audit_chain;
pub mod claim;
pub mod connection;
pub mod database_identity;
pub mod effect;
pub mod event;
pub mod fingerprint;
pub mod gate;
pub mod guard;
pub mod host;
pub mod id;
pub mod json;
pub mod key;
pub mod kv;
pub mod name;
pub mod named_effect;
pub mod network;
pub mod outcome;
pub mod past_effect;
pub mod replay;
pub mod request;
pub mod resource;
pub mod retry;
pub mod right;
pub mod role;
pub mod run;
pub mod secret;
pub mod seeded_bug;
pub mod slot;
pub mod span;
pub mod storable;
pub mod task;
pub mod trigger;
pub mod version;
pub mod wait;

pub use alert::{AlertGroup, AlertKind};
pub use claim::{Claim, ClaimVerdict};
pub use connection::Connection;
pub use database_identity::DatabaseIdentity;
pub use event::Event;
pub use fingerprint::Fingerprint;
pub use guard::Guard;
pub use id::{
    ClaimId, DeliveryId, DuplicateId, EffectId, GateId, HolderId, NamedEffectId, ParseIdError,
    ReplayPlanId, RunId, RunJobId, ScheduleId, SessionId, TokenId, WaitId,
};
pub use key::{Key, KeySpace};
pub use name::{FlowName, Label, LabelError, NameError, NamespaceName, StepId};
pub use named_effect::{EffectName, EffectScope, NamedEffectState};
pub use network::{Network, NetworkError, Networks};
pub use outcome::{Doubt, Fault, FaultKind, Looked, Outcome, Receipt, Reserved, SettledBy};
pub use past_effect::{PastEffect, PastOutcome, PastResult};
pub use resource::{Resource, ResourceRef};
pub use retry::RetryPolicy;
pub use right::{Right, RightError, Rights};
pub use role::{Role, RoleError};
pub use secret::SecretText;
pub use seeded_bug::SeededBug;
pub use slot::{InSlot, Slot};
pub use span::Span;
pub use trigger::{Mismatch, TriggerKind};
pub use version::Version;
