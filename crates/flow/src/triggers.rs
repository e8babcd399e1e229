//! What starts runs: one file for each kind of trigger, and this registry.
//!
//! A kind's file holds the table of its fields, its own checks, how it is lowered, and what it is in
//! a release. How a delivery proves where it comes from is a field without a default.

mod api;
mod event;
mod fields;
mod manual;
mod order;
mod schedule;
mod signature;
mod start;
mod webhook;

pub use event::EventTrigger;
pub use order::{Order, object_of};
pub use schedule::ScheduleTrigger;
pub use signature::{Scheme, Sent, SentAt, Signature, SignedPart};
pub use start::StartTrigger;
pub use webhook::{Webhook, WebhookAuth};

pub(crate) use schedule::{check_recurrence, recurrence};
pub(crate) use webhook::{provider_of, unsigned};

use semel_model::{FlowName, TriggerKind};
use serde::Serialize;

use crate::diagnostic::Report;
use crate::expr::Expr;
use crate::grammar::{Field, FieldType, MapSchema, field};
use crate::tree::Record;

/// Everything that the language knows about one way in which runs start.
pub struct TriggerSpec {
    /// Which one it is.
    pub kind: TriggerKind,
    /// What starts runs then, in a few words.
    pub about: &'static str,
    /// Its fields.
    pub(crate) schema: &'static MapSchema,
    /// What no table can say about it: which fields go together.
    pub(crate) check: Option<fn(&mut Report<'_>, &Record)>,
    /// The key of a start whose author says no `key`.
    pub(crate) implied_key: fn(&Record) -> &'static str,
    /// How a delivery proves where it comes from.
    pub(crate) proof: fn(&Record) -> Proof,
    /// Whether `trigger.nominal` is the instant that started the run.
    pub(crate) has_instant: bool,
}

/// How a delivery proves where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// Not at all: anyone who knows the address can deliver.
    Nothing,
    /// By a signature over what is sent.
    Signature,
    /// By a shared secret that is sent along.
    Token,
    /// By the token of an API caller.
    Caller,
    /// It comes from inside: a time that came, or an event that a flow of the namespace emitted.
    Inside,
}

impl Proof {
    /// The words that people read.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nothing => "nothing: open to anyone who knows the address",
            Self::Signature => "a signature",
            Self::Token => "a token",
            Self::Caller => "the caller's token",
            Self::Inside => "Semel itself",
        }
    }
}

/// Every way that a flow can name, in the order of the documentation.
pub static TRIGGERS: &[&TriggerSpec] = &[
    &webhook::SPEC,
    &schedule::SPEC,
    &event::SPEC,
    &api::SPEC,
    &manual::SPEC,
];

/// The way of a word that an author writes.
#[must_use]
pub fn find(word: &str) -> Option<&'static TriggerSpec> {
    TRIGGERS.iter().copied().find(|spec| spec.name() == word)
}

/// The ways that a flow declares, each with what it says.
pub(crate) fn declared(trigger: &Record) -> impl Iterator<Item = (&'static TriggerSpec, &Record)> {
    let entries = trigger.fields.iter();
    entries.filter_map(|entry| Some((find(entry.name)?, trigger.map(entry.name)?)))
}

impl TriggerSpec {
    /// The word that a flow writes.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.kind.as_str()
    }
}

impl std::fmt::Debug for TriggerSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TriggerSpec({})", self.name())
    }
}

pub(crate) static TRIGGER: MapSchema = MapSchema::new(
    ("`trigger`", "trigger"),
    "What starts runs; at least one.",
    &FIELDS,
)
.any_of(&[
    &["webhook"],
    &["schedule"],
    &["event"],
    &["api"],
    &["manual"],
]);

static FIELDS: [Field; TRIGGERS.len()] = {
    let mut fields = [of_spec(TRIGGERS[0]); TRIGGERS.len()];
    let mut at = 1;
    while at < fields.len() {
        fields[at] = of_spec(TRIGGERS[at]);
        at += 1;
    }
    fields
};

const fn of_spec(spec: &TriggerSpec) -> Field {
    field(spec.name(), FieldType::Map(spec.schema), spec.about)
}

/// The ways in which runs of a flow start; at least one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Triggers {
    /// A request to a hook.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Webhook>,
    /// A program, through the API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api: Option<StartTrigger>,
    /// A person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manual: Option<StartTrigger>,
    /// An event that a flow emitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<EventTrigger>,
    /// The time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleTrigger>,
}

impl Triggers {
    /// What is declared for starts of a kind; nothing if runs do not start so.
    #[must_use]
    pub const fn start(&self, kind: TriggerKind) -> Option<&StartTrigger> {
        match kind {
            TriggerKind::Api => self.api.as_ref(),
            TriggerKind::Manual => self.manual.as_ref(),
            TriggerKind::Webhook
            | TriggerKind::Event
            | TriggerKind::Schedule
            | TriggerKind::Reconcile
            | TriggerKind::Call => None,
        }
    }

    /// What two deliveries of one intent have in common, where a trigger computes it from what
    /// comes.
    #[must_use]
    pub fn key(&self) -> Option<&Expr> {
        let starts = [&self.api, &self.manual].into_iter().flatten();
        let mut starts = starts.filter_map(|start| start.key.as_ref());
        let webhook = self.webhook.as_ref().map(|webhook| &webhook.key);
        let event = self.event.as_ref().and_then(|event| event.key.as_ref());
        webhook.or(event).or_else(|| starts.next())
    }

    /// Whether runs can start in this way.
    #[must_use]
    pub const fn allow(&self, kind: TriggerKind) -> bool {
        match kind {
            TriggerKind::Webhook => self.webhook.is_some(),
            TriggerKind::Api => self.api.is_some(),
            TriggerKind::Manual => self.manual.is_some(),
            TriggerKind::Event => self.event.is_some(),
            // What a flow's `reconcile` lists starts runs whatever its triggers are.
            TriggerKind::Call | TriggerKind::Reconcile => true,
            TriggerKind::Schedule => self.schedule.is_some(),
        }
    }
}

/// The declared ways, lowered: what a preset brings is written out, so that a release stands by
/// itself.
pub(crate) fn lower(trigger: &Record, flow: &FlowName) -> Option<Triggers> {
    let webhook = trigger.map("webhook").map(|it| webhook::lower(it, flow));
    Some(Triggers {
        webhook: all(webhook)?,
        api: trigger.map("api").map(start::lower),
        manual: trigger.map("manual").map(start::lower),
        event: all(trigger.map("event").map(event::lower))?,
        schedule: all(trigger.map("schedule").map(schedule::lower))?,
    })
}

/// What is declared is lowered, or nothing is.
#[expect(
    clippy::option_option,
    reason = "not declared, declared and lowered, or not lowered"
)]
fn all<T>(lowered: Option<Option<T>>) -> Option<Option<T>> {
    match lowered {
        Some(None) => None,
        Some(some) => Some(some),
        None => Some(None),
    }
}
