//! Which lane an item takes.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::Batch;

/// A caller who waits, until it is dropped.
pub(super) struct Caller<'a>(pub(super) &'a AtomicUsize);

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The lane of an item: the first while few wait, here or together with those of the writer beside this one;
/// else that of its slot.
pub(super) fn lane_of<B: Batch>(others: usize, beside: usize, item: &B::Item) -> usize {
    let are_few_together = beside > 0 && others.saturating_add(beside) < B::SECOND_LANE_BESIDE;
    match others < B::SECOND_LANE_FROM || are_few_together {
        true => 0,
        false => usize::from(B::slot(item).number()) % B::LANES,
    }
}
