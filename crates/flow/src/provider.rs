//! Presets: what is known of the sources that people receive deliveries from.
//!
//! A preset says where the key stands, how a delivery proves where it comes from, for how long the
//! source may deliver the same again, and what orders two deliveries about one object. It holds
//! facts only: nothing here verifies, and nothing here reads a delivery. Each preset's page in
//! `docs/presets/` names the sources of its facts.

mod cloudevents;
mod github;
mod hubspot;
mod idempotency_key;
mod linear;
mod pagerduty;
mod shopify;
mod signature;
mod slack;
mod standard_webhooks;
mod stripe;
mod twilio;
mod typeform;

pub use signature::{
    Algorithm, Encoding, PresetPart, PresetScheme, PresetSent, PresetSentAt, PresetSignature,
    SecretEncoding, Unit,
};

use semel_model::Span;
use serde::Serialize;

/// A source of deliveries whose habits are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Provider {
    /// What a flow writes after `provider:`.
    pub name: &'static str,
    /// Its name, for people.
    pub title: &'static str,
    /// The key, as an expression over `input` and `headers`.
    pub key: &'static str,
    /// Where the key stands.
    pub key_source: Source,
    /// How a delivery is signed; nothing if the source does not sign by itself.
    pub signature: Option<PresetSignature>,
    /// The headers that the signature covers, in lower case.
    pub covers_headers: &'static [&'static str],
    /// How long the source may deliver the same again, on its own or when a person asks it to.
    pub redelivery: Option<Span>,
    /// What orders two deliveries about one object; nothing if no field does so for all events.
    pub order: Option<PresetOrder>,
    /// Paths in the payload that may differ between two deliveries of one event. `*` is each item
    /// of a list.
    pub clock_fields: &'static [&'static str],
    /// What the source asks before it delivers, where it does.
    pub challenge: Option<Challenge>,
}

/// What a source asks of an address before it delivers to it. The answer starts no run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Challenge {
    /// A signed delivery of the type `url_verification`, whose `challenge` is sent back as text.
    UrlVerification,
    /// A request with the method OPTIONS that asks whether events may be sent, and how many.
    RequestOrigin,
}

/// Where a key stands in a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// In the payload.
    Body,
    /// In the header of this name, in lower case.
    Header(&'static str),
}

/// Two expressions that tell which of two deliveries is the newer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PresetOrder {
    /// What the delivery is about.
    pub object: &'static str,
    /// What grows each time the object changes.
    pub version: &'static str,
}

impl Provider {
    /// Whether only the source can have chosen the key.
    ///
    /// Where it is false, a captured delivery can be sent again under another key, and only its
    /// payload tells that it is the same.
    #[must_use]
    pub fn signs_key(&self) -> bool {
        match self.key_source {
            Source::Body => {
                let signature = self.signature.as_ref();
                signature.is_some_and(PresetSignature::settles_payload)
            }
            Source::Header(name) => self.covers_headers.contains(&name),
        }
    }
}

/// Every preset, sorted by name.
const ALL: &[Provider] = &[
    cloudevents::PRESET,
    github::PRESET,
    hubspot::PRESET,
    idempotency_key::PRESET,
    linear::PRESET,
    pagerduty::PRESET,
    shopify::PRESET,
    slack::PRESET,
    standard_webhooks::PRESET,
    stripe::PRESET,
    twilio::PRESET,
    typeform::PRESET,
];

/// The preset of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Provider> {
    ALL.iter().find(|provider| provider.name == name)
}

/// Every preset, sorted by name.
#[must_use]
pub const fn all() -> &'static [Provider] {
    ALL
}

/// A span of whole hours.
const fn hours(count: u64) -> Span {
    Span::from_const_secs(count * 3_600)
}

/// A span of whole days.
const fn days(count: u64) -> Span {
    hours(count * 24)
}
