//! Gathering a batch: who is written together, and who has to wait for the next.

use std::collections::{HashSet, VecDeque};

use tokio::sync::oneshot;

use super::{BATCH_BYTES_MAX, BATCH_ITEMS_MAX, Batch, PASSED_OVER_MAX, WriteError};

/// An item that waits for the commit that carries it.
pub(super) struct Waiting<B: Batch> {
    pub(super) item: B::Item,
    pub(super) bytes: usize,
    pub(super) answer: Answer<B>,
}

/// Where a caller hears what happened to its item.
pub(super) type Answer<B> = oneshot::Sender<Result<<B as Batch>::Answer, WriteError>>;

/// A batch that gathers, and those who have to wait for the next.
pub(super) struct Gathering<B: Batch> {
    pub(super) items: Vec<B::Item>,
    pub(super) answers: Vec<Answer<B>>,
    pub(super) passed_over: VecDeque<Waiting<B>>,
    gathered: B::Gathered,
    subjects: HashSet<u128>,
    bytes: usize,
}

impl<B: Batch> Gathering<B> {
    /// A batch that begins with the items that were passed over, the oldest first, and takes in
    /// those of the others that fit.
    pub(super) fn begin(mut waiting: VecDeque<Waiting<B>>) -> Self {
        let mut gathering = Self {
            items: Vec::new(),
            answers: Vec::new(),
            passed_over: VecDeque::new(),
            gathered: B::Gathered::default(),
            subjects: HashSet::new(),
            bytes: 0,
        };
        while let Some(next) = waiting.pop_front() {
            gathering.offer(next);
        }
        gathering
    }

    /// Whether another item may be looked at.
    pub(super) fn has_room(&self) -> bool {
        self.items.len() < BATCH_ITEMS_MAX
            && self.bytes < BATCH_BYTES_MAX
            && self.passed_over.len() < PASSED_OVER_MAX
    }

    /// Takes an item into the batch, or passes it over.
    pub(super) fn offer(&mut self, next: Waiting<B>) {
        let subject = B::subject(&next.item);
        let fits = self.items.is_empty()
            || (self.items.len() < BATCH_ITEMS_MAX
                && self.bytes.saturating_add(next.bytes) <= BATCH_BYTES_MAX
                && !self.subjects.contains(&subject));
        if fits && B::admit(&mut self.gathered, &next.item) {
            self.bytes = self.bytes.saturating_add(next.bytes);
            self.items.push(next.item);
            self.answers.push(next.answer);
        } else {
            self.subjects.insert(subject);
            self.passed_over.push_back(next);
        }
    }
}
