//! Fields that several triggers have.

use semel_model::Mismatch;

use super::order::ORDER_SCHEMA;
use crate::grammar::{Field, FieldType, field};
use crate::tree::Record;

pub(super) const MISMATCH: Field = field(
    "mismatch",
    FieldType::Word(&["reject", "accept", "hold"]),
    "A known key with another payload: refused, accepted as a repeat, or held for an operator.",
)
.default("reject")
.renamed(&[("quarantine", "hold")]);

pub(super) const ON_REPEAT: Field = field(
    "on_repeat",
    FieldType::Word(&["answer", "resume", "replay"]),
    "A repeat of a failed run: returns the stored failure, or resumes the run, or replays it on the live release; completed effects are skipped.",
)
.default("answer");

pub(super) const ORDER: Field = field(
    "order",
    FieldType::Map(&ORDER_SCHEMA),
    "Which delivery about one object is newer; an older one that arrives later is only recorded.",
);

/// What happens to a known key with another payload.
pub(super) fn mismatch(record: &Record) -> Mismatch {
    match record.word("mismatch") {
        Some("accept") => Mismatch::Accept,
        Some("hold") => Mismatch::Hold,
        Some(_) | None => Mismatch::Reject,
    }
}

/// Whether a repeat resumes a run that failed.
pub(super) fn resumes(record: &Record) -> bool {
    record.word("on_repeat") == Some("resume")
}

/// Whether a repeat replays a run that failed.
pub(super) fn replays(record: &Record) -> bool {
    record.word("on_repeat") == Some("replay")
}
