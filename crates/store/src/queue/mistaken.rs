//! Taking without counting and sleeping without listening, for the tests that show that such bugs
//! are noticed.

use semel_model::Mistake;

/// A statement of the queue, wrong where a bug is seeded.
pub(super) fn mistaken(text: &'static str) -> &'static str {
    let text = Mistake::TakesNotCounted.in_text(text, "q.takes + $3", "q.takes + 0 * $3");
    Mistake::WakeDropped.in_text(text, "WHEN woken OR (", "WHEN (")
}
