//! `event`: an event that a flow of the namespace emitted.

use semel_model::{Mismatch, TriggerKind};
use serde::Serialize;

use super::fields::{MISMATCH, ON_REPEAT, ORDER, mismatch, replays, resumes};
use super::order::{self, Order};
use super::{Proof, TriggerSpec};
use crate::expr::Expr;
use crate::grammar::{FieldType, MapSchema, Place, field};
use crate::tree::Record;

/// The kind.
pub(crate) static SPEC: TriggerSpec = TriggerSpec {
    kind: TriggerKind::Event,
    about: "An event that a flow emitted.",
    schema: &SCHEMA,
    check: None,
    implied_key: |_| "the event's delivery key",
    proof: |_| Proof::Inside,
    has_instant: false,
};

static SCHEMA: MapSchema = MapSchema::new(
    ("`event`", "event"),
    "Starts a run for an event that a flow of the namespace emitted. The key is its delivery key.",
    &[
        field("name", FieldType::Text, "The event.").needed("order.paid"),
        field(
            "key",
            FieldType::Expr(Place::Key),
            "Another key than the event's delivery key.",
        ),
        field(
            "when",
            FieldType::Condition(Place::Trigger),
            "Events for which this is false start no run.",
        ),
        ORDER,
        MISMATCH,
        ON_REPEAT,
    ],
);

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
    /// What happens to a known key with another payload.
    pub mismatch: Mismatch,
    /// Whether a repeat resumes a run that failed, behind its ledger.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub resumes: bool,
    /// Whether a repeat replays a run that failed, on the release that is live then.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub replays: bool,
}

pub(super) fn lower(record: &Record) -> Option<EventTrigger> {
    Some(EventTrigger {
        name: record.text("name")?.to_owned(),
        key: record.expr("key").map(|placed| placed.expr.clone()),
        when: record.expr("when").map(|placed| placed.expr.clone()),
        order: order::lower(record),
        mismatch: mismatch(record),
        resumes: resumes(record),
        replays: replays(record),
    })
}
