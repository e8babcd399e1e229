//! Taking without counting and sleeping without checking for answers, for the tests that show that
//! such bugs are noticed.

use semel_model::SeededBug;

/// A statement of the queue, wrong where a bug is seeded.
pub(super) fn mistaken(text: &'static str) -> &'static str {
    let text =
        SeededBug::TakesNotCounted.in_text(text, "q.stalled_takes + 1", "q.stalled_takes + 0");
    SeededBug::WakeDropped.in_text(text, "WHEN woken OR (", "WHEN (")
}
