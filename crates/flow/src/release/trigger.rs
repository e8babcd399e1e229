//! Triggers, checked.

use semel_model::{Mismatch, TriggerKind};
use serde::Serialize;
use serde_json::Value;

use super::{Order, Signature};
use crate::expr::Expr;
use crate::schedule::{Missed, Rhythm};

/// The ways in which runs of a flow start; at least one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Triggers {
    /// A request to a hook.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Webhook>,
    /// A program, through the API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api: Option<Start>,
    /// A person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manual: Option<Start>,
    /// An event that a flow emitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<EventTrigger>,
    /// The time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
}

/// Runs by the clock. The nominal instant of a tick is its key.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Schedule {
    /// When it is due.
    pub rhythm: Rhythm,
    /// What becomes of instants that passed while nothing ran.
    pub missed: Missed,
    /// The most instants that `missed: all` catches up on.
    pub most: u32,
    /// The input of each run.
    pub input: Value,
}

/// Runs by an event.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EventTrigger {
    /// The event.
    pub name: String,
    /// Another key than the one that the event carries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Expr>,
    /// Events for which this is false start nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<Expr>,
    /// Which event about one object is newer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    /// What becomes of a known key with another payload.
    pub mismatch: Mismatch,
    /// Whether a repeat resumes a run that failed, behind its ledger.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub resumes: bool,
}

impl Triggers {
    /// What is declared for starts of a kind; nothing where runs do not start so.
    #[must_use]
    pub const fn start(&self, kind: TriggerKind) -> Option<&Start> {
        match kind {
            TriggerKind::Api => self.api.as_ref(),
            TriggerKind::Manual => self.manual.as_ref(),
            TriggerKind::Webhook
            | TriggerKind::Event
            | TriggerKind::Schedule
            | TriggerKind::Call => None,
        }
    }

    /// Whether runs can start in this way.
    #[must_use]
    pub const fn allow(&self, kind: TriggerKind) -> bool {
        match kind {
            TriggerKind::Webhook => self.webhook.is_some(),
            TriggerKind::Api => self.api.is_some(),
            TriggerKind::Manual => self.manual.is_some(),
            TriggerKind::Event => self.event.is_some(),
            TriggerKind::Call => true,
            TriggerKind::Schedule => self.schedule.is_some(),
        }
    }
}

/// A hook at `/hooks/{namespace}/{path}`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Webhook {
    /// The last part of its address.
    pub path: String,
    /// How a delivery proves where it comes from.
    pub auth: WebhookAuth,
    /// What two deliveries of one intent have in common.
    pub key: Expr,
    /// Deliveries for which this is false start nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<Expr>,
    /// Which delivery about one object is newer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    /// What becomes of a known key with another payload.
    pub mismatch: Mismatch,
    /// Whether a repeat resumes a run that failed, behind its ledger.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub resumes: bool,
    /// Whether a signed body that comes again under another key is held for a person. True only
    /// where the signature does not cover the key.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub holds_replays: bool,
    /// Paths of the payload that may differ between two deliveries of one event, and so are no
    /// mismatch. `*` is each item of a list.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clock_fields: Vec<String>,
}

/// How a delivery proves where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WebhookAuth {
    /// Not at all: whoever knows the address may deliver.
    None,
    /// By a signature over what is sent.
    Signature {
        /// The secret that it is made with, by name.
        secret: String,
        /// How it is made.
        signature: Signature,
    },
    /// By a shared secret that is sent along.
    Token {
        /// The header that carries it, in lower case.
        header: String,
        /// The secret, by name.
        secret: String,
    },
}

/// A start by a program or a person.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Start {
    /// What two starts of one intent have in common; otherwise the caller names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Expr>,
    /// What becomes of a known key with another payload.
    pub mismatch: Mismatch,
    /// Whether a repeat resumes a run that failed, behind its ledger.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub resumes: bool,
}
