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

/// The lane of an item: the first while few wait, else that of its slot.
pub(super) fn lane_of<B: Batch>(others: usize, item: &B::Item) -> usize {
    match others < B::SECOND_LANE_FROM {
        true => 0,
        false => usize::from(B::slot(item).number()) % B::LANES,
    }
}
