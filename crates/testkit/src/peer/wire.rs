//! What the peer and its handle tell each other.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One thing that the peer was made to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// Its place in the order of all effects, from zero.
    pub index: usize,
    /// The request's method.
    pub method: String,
    /// The request's path, without the query.
    pub path: String,
    /// The request's `Idempotency-Key`.
    pub key: Option<String>,
    /// The digest of the request's body, in hex.
    pub body_sha256: String,
    /// The request's body, where it is short.
    pub body: String,
    /// When it happened, by the clock that counts from boot.
    pub at_ns: u64,
    /// What a signed delivery says of itself: its `content-type` and its `webhook-` headers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub signed: BTreeMap<String, String>,
}

/// How often something was asked for, and how often it happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// Requests.
    pub calls: u64,
    /// Effects.
    pub effects: u64,
}

/// The peer's books in one line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// All requests but those of the handle.
    pub calls: u64,
    /// All effects.
    pub effects: u64,
    /// Different keys.
    pub keys: u64,
    /// Keys under which more than one effect happened.
    pub keys_with_several_effects: u64,
}

/// What the peer does with a request instead of its ordinary work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Behaviour {
    /// Reads no body until let go.
    HoldBeforeReadingBody,
    /// Reads the body, and does not act until let go.
    HoldBeforeEffect,
    /// Acts, and does not answer until let go.
    HoldBeforeAnswer,
    /// Closes the connection without having acted.
    CloseBeforeEffect,
    /// Acts, and closes the connection.
    CloseWithoutAnswer,
    /// Acts, and answers this status.
    AnswerStatus(u16),
    /// Answers this status without having acted.
    RefuseWith(u16),
}

/// A behaviour for the next requests under a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// How the path of such a request begins.
    pub path_prefix: String,
    /// How many requests it concerns.
    pub times: u32,
    /// What happens to them.
    pub behaviour: Behaviour,
}

/// A request that waits to be let go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Its number.
    pub id: u64,
    /// Its path.
    pub path: String,
    /// Its `Idempotency-Key`.
    pub key: Option<String>,
}
