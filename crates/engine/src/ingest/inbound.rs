//! A delivery as every trigger hands it to intake.

use std::sync::Arc;

use jiff::Timestamp;
use semel_flow::Scope;
use semel_model::event::Caller;
use semel_model::{Fingerprint, Key, KeySpace, Mismatch, TriggerKind};
use semel_store::schedules::ScheduleLease;
use serde_json::{Value, json};

use crate::catalogue::Release;

/// A delivery on its way through intake.
pub(crate) struct Inbound {
    pub(crate) release: Arc<Release>,
    pub(crate) trigger: TriggerKind,
    pub(crate) mismatch: Mismatch,
    /// Who named the key.
    pub(crate) space: KeySpace,
    pub(crate) key: Key,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) input: Value,
    pub(crate) text: String,
    pub(crate) headers: Value,
    pub(crate) query: Value,
    /// Who starts it, where the flow asks.
    pub(crate) by: Option<String>,
    /// The run that waits for the end of this one.
    pub(crate) caller: Option<Caller>,
    /// Whether a repeat resumes a run that failed.
    pub(crate) resumes: bool,
    /// Whether a repeat replays a run that failed.
    pub(crate) replays: bool,
    /// The instant that a schedule named.
    pub(crate) nominal: Option<Timestamp>,
    /// The number of the last run of the key that it may make, where that was recorded before.
    pub(crate) run_max: Option<i32>,
    /// The lease of the schedule that named the instant; without it, the instant starts nothing.
    pub(crate) lease: Option<ScheduleLease>,
}

impl Inbound {
    /// A delivery with a key and a payload, which is given as a value and as its JSON text. Repeats
    /// of it resume nothing.
    pub(crate) fn new(
        release: Arc<Release>,
        trigger: TriggerKind,
        (space, key): (KeySpace, Key),
        (input, text): (Value, String),
        mismatch: Mismatch,
    ) -> Self {
        Self {
            release,
            trigger,
            mismatch,
            space,
            key,
            fingerprint: Fingerprint::of(&input),
            input,
            text,
            headers: Value::Null,
            query: Value::Null,
            by: None,
            caller: None,
            resumes: false,
            replays: false,
            nominal: None,
            run_max: None,
            lease: None,
        }
    }
}

/// What the expressions of a trigger see of the request besides its payload.
#[derive(Default)]
pub(super) struct Request {
    pub(super) headers: Value,
    pub(super) query: Value,
}

impl Request {
    /// What the expressions of a trigger see; `trigger` is what [`describe`] gives.
    pub(super) fn scope<'a>(
        &'a self,
        release: &'a Release,
        trigger: &'a Value,
        input: &'a Value,
    ) -> Scope<'a> {
        Scope::new()
            .with("input", input)
            .with("headers", &self.headers)
            .with("query", &self.query)
            .with("trigger", trigger)
            .with("env", &release.flow.env)
    }
}

/// A kind of trigger as expressions see it.
pub(super) fn describe(trigger: TriggerKind) -> Value {
    json!({ "kind": trigger.as_str() })
}
