//! A start by a program or a person, which `api` and `manual` share.

use semel_model::Mismatch;
use serde::Serialize;

use super::fields::{MISMATCH, ON_REPEAT, mismatch, replays, resumes};
use crate::expr::Expr;
use crate::grammar::{FieldType, MapSchema, Place, field};
use crate::tree::Record;

pub(super) static SCHEMA: MapSchema = MapSchema::new(
    ("a start", "start"),
    "A start through the API, or a manual start.",
    &[
        field(
            "key",
            FieldType::Expr(Place::Key),
            "The key: what two starts of one intent have in common. Absent: the caller provides it.",
        ),
        MISMATCH,
        ON_REPEAT,
    ],
);

/// The key that the caller names.
pub(super) const fn implied_key(_: &Record) -> &'static str {
    "named by the caller"
}

/// A start by a program or a person.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StartTrigger {
    /// What two starts of one intent have in common; otherwise the caller names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Expr>,
    /// What happens to a known key with another payload.
    pub mismatch: Mismatch,
    /// Whether a repeat resumes a run that failed, behind its ledger.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub resumes: bool,
    /// Whether a repeat replays a run that failed, on the release that is live then.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub replays: bool,
}

pub(super) fn lower(record: &Record) -> StartTrigger {
    StartTrigger {
        key: record.expr("key").map(|placed| placed.expr.clone()),
        mismatch: mismatch(record),
        resumes: resumes(record),
        replays: replays(record),
    }
}
