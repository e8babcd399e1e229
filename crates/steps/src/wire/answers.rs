//! Large answers: how many of them a process reads at once, and whose is next.
//!
//! ```text
//! waits ──▶ has a place ──┬─ is read ──▶ the place is free
//!                         └─ another waits, and this one is silent or has had its turn ──▶ cut
//! ```
//!
//! The place of an answer is free for the namespace that reads the fewest. What its server sends, and
//! when, is for strangers to say: so while others wait, an answer that is silent loses its place, and
//! one that has had its turn loses it to a namespace that reads fewer. While nobody waits, nothing is
//! cut.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

/// How many large answers a process reads at once.
const LARGE_ANSWERS_MAX: usize = 8;

/// How many of them are one namespace's.
pub(super) const LARGE_ANSWERS_OF_ONE_MAX: usize = 4;

/// For how long an answer may bring nothing while others wait.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(5);

/// For how long an answer keeps its place from a namespace that reads fewer.
const TURN_MAX: Duration = Duration::from_secs(10);

/// How often one that waits looks whether a place can be made free.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The large answers that a process reads, and those that wait.
#[derive(Debug, Default)]
pub(crate) struct LargeAnswers {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    last_id: u64,
    read: Vec<Read>,
    waiting: Vec<Waiting>,
}

/// An answer that has a place.
#[derive(Debug)]
struct Read {
    id: u64,
    namespace_id: i32,
    since: Instant,
    heard_at: Instant,
    waker: Waker,
}

/// An answer that waits for a place.
#[derive(Debug)]
struct Waiting {
    id: u64,
    namespace_id: i32,
    waker: Waker,
}

impl LargeAnswers {
    /// The line that a namespace's connection waits in.
    pub(crate) fn line_of(self: &Arc<Self>, namespace_id: i32) -> AnswerLine {
        AnswerLine {
            answers: self.clone(),
            namespace_id,
            asked: None,
            timer: None,
        }
    }

    fn ask(self: &Arc<Self>, namespace_id: i32, waker: &Waker) -> Place {
        let mut table = self.lock();
        table.last_id += 1;
        let id = table.last_id;
        table.waiting.push(Waiting {
            id,
            namespace_id,
            waker: waker.clone(),
        });
        table.grant(Instant::now());
        Place {
            answers: self.clone(),
            id,
        }
    }

    fn is_waiting(&self, id: u64, waker: &Waker) -> bool {
        let mut table = self.lock();
        let found = table.waiting.iter_mut().find(|it| it.id == id);
        found.is_some_and(|found| {
            found.waker.clone_from(waker);
            true
        })
    }

    /// Makes places free for those that wait: at most one for each of their namespaces.
    pub(super) fn make_room(&self, now: Instant) {
        let mut table = self.lock();
        let waiting: BTreeSet<_> = table.waiting.iter().map(|it| it.namespace_id).collect();
        for namespace_id in waiting {
            if let Some(index) = table.find_yielding(namespace_id, now) {
                table.read.swap_remove(index).waker.wake();
                table.grant(now);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn count_of(&self, namespace_id: i32) -> usize {
        let own = self
            .read
            .iter()
            .filter(|it| it.namespace_id == namespace_id);
        own.count()
    }

    /// Gives free places away: first to the namespace that reads the fewest, then to the first that came.
    fn grant(&mut self, now: Instant) {
        while self.read.len() < LARGE_ANSWERS_MAX {
            let with_count = |(index, it): (usize, &Waiting)| {
                let count = self.count_of(it.namespace_id);
                (count < LARGE_ANSWERS_OF_ONE_MAX).then_some((count, it.id, index))
            };
            let next = self.waiting.iter().enumerate().filter_map(with_count).min();
            let Some((_, _, index)) = next else {
                return;
            };
            let Waiting {
                id,
                namespace_id,
                waker,
            } = self.waiting.remove(index);
            waker.wake_by_ref();
            self.read.push(Read {
                id,
                namespace_id,
                since: now,
                heard_at: now,
                waker,
            });
        }
    }

    /// The answer that yields its place to one of this namespace that waits.
    fn find_yielding(&self, namespace_id: i32, now: Instant) -> Option<usize> {
        let count = self.count_of(namespace_id);
        let is_full = count >= LARGE_ANSWERS_OF_ONE_MAX;
        let silent = self.read.iter().enumerate().filter(|(_, it)| {
            (!is_full || it.namespace_id == namespace_id)
                && now.saturating_duration_since(it.heard_at) >= SILENCE_MAX
        });
        if let Some((index, _)) = silent.min_by_key(|(_, it)| it.heard_at) {
            return Some(index);
        }
        let slow = self.read.iter().enumerate().filter(|(_, it)| {
            !is_full
                && it.namespace_id != namespace_id
                && now.saturating_duration_since(it.since) >= TURN_MAX
                && (count == 0 || self.count_of(it.namespace_id) > count + 1)
        });
        let first = slow.min_by_key(|(_, it)| (Reverse(self.count_of(it.namespace_id)), it.since));
        first.map(|(index, _)| index)
    }
}

/// A place for a large answer, or one in the line for it. It is given up when dropped.
#[derive(Debug)]
pub(super) struct Place {
    answers: Arc<LargeAnswers>,
    id: u64,
}

impl Place {
    /// Whether the answer has not lost its place. The task that reads it is woken when that happens.
    pub(super) fn is_kept(&self, waker: Option<&Waker>) -> bool {
        let mut table = self.answers.lock();
        let found = table.read.iter_mut().find(|it| it.id == self.id);
        found.is_some_and(|found| {
            if let Some(waker) = waker {
                found.waker.clone_from(waker);
            }
            true
        })
    }

    /// Something of the answer came.
    pub(super) fn heard(&self, now: Instant) {
        let mut table = self.answers.lock();
        let found = table.read.iter_mut().find(|it| it.id == self.id);
        if let Some(found) = found {
            found.heard_at = now;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.answers.lock();
        table.waiting.retain(|it| it.id != self.id);
        table.read.retain(|it| it.id != self.id);
        table.grant(Instant::now());
    }
}

/// A connection's place in the line for large answers.
#[derive(Debug)]
pub(crate) struct AnswerLine {
    answers: Arc<LargeAnswers>,
    namespace_id: i32,
    /// The place that is waited for.
    asked: Option<Place>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl AnswerLine {
    pub(super) fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<Place> {
        let place = match self.asked.take() {
            Some(place) => place,
            None => self.answers.ask(self.namespace_id, context.waker()),
        };
        // A place may be lost before it is seen here: then the reader finds it so.
        while self.answers.is_waiting(place.id, context.waker()) {
            let timer = self
                .timer
                .get_or_insert_with(|| Box::pin(sleep(LOOK_EVERY)));
            if timer.as_mut().poll(context).is_pending() {
                self.asked = Some(place);
                return Poll::Pending;
            }
            self.timer = None;
            self.answers.make_room(Instant::now());
        }
        self.timer = None;
        Poll::Ready(place)
    }

    /// Gives the place up: the answer is not wanted any more.
    pub(super) fn leave(&mut self) {
        self.asked = None;
        self.timer = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(answers: &Arc<LargeAnswers>, namespace_id: i32) -> Place {
        answers.ask(namespace_id, Waker::noop())
    }

    fn fill(answers: &Arc<LargeAnswers>) -> Vec<Place> {
        let places = [1, 1, 1, 1, 2, 2, 2, 2].map(|namespace_id| ask(answers, namespace_id));
        assert_eq!(places.len(), LARGE_ANSWERS_MAX);
        places.into()
    }

    fn count_kept(places: &[Place]) -> usize {
        places.iter().filter(|place| place.is_kept(None)).count()
    }

    #[test]
    fn answers_that_never_pause_share_their_places_with_namespaces_that_wait() {
        let answers = Arc::<LargeAnswers>::default();
        let busy = fill(&answers);
        let now = Instant::now();
        let turn_over = now + 2 * TURN_MAX;
        for place in &busy {
            place.heard(turn_over);
        }
        answers.make_room(turn_over);
        assert_eq!(count_kept(&busy), LARGE_ANSWERS_MAX, "nobody waits");

        let others: Vec<_> = (0..4).map(|_| ask(&answers, 3)).collect();
        answers.make_room(now);
        assert_eq!(count_kept(&others), 0, "their turn is not over");
        for _ in 0..4 {
            answers.make_room(turn_over);
        }

        assert_eq!(count_kept(&others), 2);
        assert_eq!(count_kept(&busy[..4]), 3);
        assert_eq!(count_kept(&busy[4..]), 3);
    }

    #[test]
    fn a_place_that_is_free_goes_to_the_namespace_that_reads_the_fewest() {
        let answers = Arc::<LargeAnswers>::default();
        let mut read = fill(&answers);
        let (early, late) = (ask(&answers, 2), ask(&answers, 3));

        drop(read.remove(0));
        assert!(late.is_kept(None) && !early.is_kept(None));
        drop(read.pop());

        assert!(early.is_kept(None));
    }
}
