//! Memory for what destinations answered, while it is read.
//!
//! ```text
//! text, within its bounds ─▶ room ─▶ read into values ─▶ outcome, with its room ─▶ counted for the run ─▶ room is free
//! ```
//!
//! A value takes many times the memory of its text, and a thousand runs may hear of their destinations at once. So a large
//! answer waits as text until there is room for its values, and keeps the room until nothing of its outcome is left. By then
//! the run has counted what it keeps.
//!
//! The wait has no limit: an answer has come, and what it says must not change because others are read. It is bounded
//! all the same, because an answer that has room asks for no other. No namespace has more than half; the namespace that has the
//! least is next.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use semel_model::Reserved;
use semel_model::json::parsed_bytes;
use tokio::sync::oneshot;

/// An answer whose values take no more needs no room: as many as there are runs fit beside everything else.
pub(crate) const FREE_BYTES: usize = 256 << 10;

/// How many times the values of an answer are there at once: as the answer, and as what the step makes of it.
const COPIES: usize = 2;

/// For each so many bytes of room, one read in pages may go on beyond what any other answer may have.
const ROOM_OF_LONG_READ: usize = 16 << 20;

/// The room of a process that was given no other.
const ROOM_BYTES: usize = 64 << 20;

/// Memory for what destinations answered.
#[derive(Debug)]
pub struct AnswerRoom {
    bytes_max: usize,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    last_id: u64,
    /// How many reads in pages are long, of each namespace.
    long_reads: HashMap<i32, usize>,
    taken_bytes: usize,
    taken_of: HashMap<i32, usize>,
    waiting: Vec<Waiting>,
}

/// An answer that waits for room.
#[derive(Debug)]
struct Waiting {
    id: u64,
    namespace_id: i32,
    bytes: usize,
    tell: oneshot::Sender<Taken>,
}

/// Room that an answer has. Dropping it gives it to others.
#[derive(Debug)]
struct Taken {
    room: Arc<AnswerRoom>,
    namespace_id: i32,
    bytes: usize,
}

/// A read in pages that may go on. Dropping it lets another.
#[derive(Debug)]
pub(crate) struct LongRead {
    room: Arc<AnswerRoom>,
    namespace_id: i32,
}

impl Drop for LongRead {
    fn drop(&mut self) {
        let mut table = self.room.lock();
        if let Some(count) = table.long_reads.get_mut(&self.namespace_id) {
            *count -= 1;
            if *count == 0 {
                table.long_reads.remove(&self.namespace_id);
            }
        }
    }
}

impl Default for AnswerRoom {
    fn default() -> Self {
        Self::of_bytes(ROOM_BYTES)
    }
}

impl AnswerRoom {
    /// So many bytes.
    #[must_use]
    pub fn of_bytes(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            table: Mutex::default(),
        }
    }

    /// Room for the values of a text, as soon as there is some.
    pub(crate) async fn take_for(self: &Arc<Self>, namespace_id: i32, text: &[u8]) -> Reserved {
        self.take(namespace_id, parsed_bytes(text)).await
    }

    /// Room for values that take about so many bytes, as soon as there is some. An answer that has room asks for no other.
    pub async fn take(self: &Arc<Self>, namespace_id: i32, bytes: usize) -> Reserved {
        if bytes <= FREE_BYTES {
            return Reserved::default();
        }
        let told = self.ask(namespace_id, bytes);
        match told.await {
            Ok(taken) => Reserved::holding(taken),
            Err(_) => unreachable!("who waits is told, or told nothing because it waits no longer"),
        }
    }

    /// The right to hold the text of many pages while a stranger sends the next; none where others hold theirs.
    pub(crate) fn try_read_long(self: &Arc<Self>, namespace_id: i32) -> Option<LongRead> {
        let most = (self.bytes_max / ROOM_OF_LONG_READ).max(2);
        let mut table = self.lock();
        let all: usize = table.long_reads.values().sum();
        let own = table.long_reads.get(&namespace_id).copied();
        let own = own.unwrap_or_default();
        if all >= most || own >= most / 2 {
            return None;
        }
        table.long_reads.insert(namespace_id, own + 1);
        Some(LongRead {
            room: self.clone(),
            namespace_id,
        })
    }

    /// How many bytes are in use.
    pub fn taken_bytes(&self) -> usize {
        self.lock().taken_bytes
    }

    /// How many answers wait.
    pub fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    fn ask(self: &Arc<Self>, namespace_id: i32, bytes: usize) -> oneshot::Receiver<Taken> {
        let (tell, told) = oneshot::channel();
        let mut table = self.lock();
        table.last_id += 1;
        let id = table.last_id;
        table.waiting.push(Waiting {
            id,
            namespace_id,
            // An answer that takes more than a namespace may have gets all of that.
            bytes: bytes.saturating_mul(COPIES).min(self.most_of_one()),
            tell,
        });
        drop(table);
        self.give();
        told
    }

    fn most_of_one(&self) -> usize {
        self.bytes_max / 2
    }

    /// Gives room to those that wait, while there is some.
    fn give(self: &Arc<Self>) {
        // Outside of the lock: room that nobody waits for any more comes back at once, and is given again.
        while let Some((tell, taken)) = self.next() {
            drop(tell.send(taken));
        }
    }

    fn next(self: &Arc<Self>) -> Option<(oneshot::Sender<Taken>, Taken)> {
        let mut table = self.lock();
        table.waiting.retain(|it| !it.tell.is_closed());
        let index = table.find_next(self.most_of_one())?;
        let bytes = table.waiting[index].bytes;
        // One that does not fit is waited for: others, however small, would keep it waiting for ever.
        if table.taken_bytes + bytes > self.bytes_max {
            return None;
        }
        let Waiting {
            namespace_id, tell, ..
        } = table.waiting.swap_remove(index);
        table.taken_bytes += bytes;
        *table.taken_of.entry(namespace_id).or_default() += bytes;
        let taken = Taken {
            room: self.clone(),
            namespace_id,
            bytes,
        };
        Some((tell, taken))
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// The answer that is next: of the namespace that has the least, the one that came first.
    fn find_next(&self, most_of_one: usize) -> Option<usize> {
        let within = |(index, it): (usize, &Waiting)| {
            let taken = self.taken_of.get(&it.namespace_id).copied();
            let taken = taken.unwrap_or_default();
            (taken + it.bytes <= most_of_one).then_some((taken, it.id, index))
        };
        let next = self.waiting.iter().enumerate().filter_map(within).min();
        next.map(|(_, _, index)| index)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut table = self.room.lock();
        table.taken_bytes -= self.bytes;
        if let Some(taken) = table.taken_of.get_mut(&self.namespace_id) {
            *taken -= self.bytes;
            if *taken == 0 {
                table.taken_of.remove(&self.namespace_id);
            }
        }
        drop(table);
        self.room.give();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Poll;

    use futures_util::poll;

    use super::*;

    const MIB: usize = 1 << 20;

    /// Room for eight answers of a mebibyte, four of them of one namespace.
    fn room() -> Arc<AnswerRoom> {
        Arc::new(AnswerRoom::of_bytes(8 * COPIES * MIB))
    }

    #[tokio::test]
    async fn a_namespace_has_half_of_the_room_and_a_small_answer_needs_none() {
        let room = room();

        let mut read = Vec::new();
        for _ in 0..4 {
            read.push(room.take(1, MIB).await);
        }
        let mut fifth = pin!(room.take(1, MIB));
        assert!(poll!(fifth.as_mut()).is_pending());
        let other = room.take(2, 4 * MIB).await;
        let small = room.take(1, FREE_BYTES).await;

        assert_eq!(room.taken_bytes(), 8 * COPIES * MIB);
        drop(read.pop());
        assert!(poll!(fifth).is_ready());
        drop((read, other, small));
        assert_eq!((room.taken_bytes(), room.waiting()), (0, 0));
    }

    #[tokio::test]
    async fn room_that_is_free_goes_to_the_namespace_that_has_the_least() {
        let room = room();
        let (one, two) = (room.take(1, 4 * MIB).await, room.take(2, 4 * MIB).await);

        let mut early = pin!(room.take(1, MIB));
        let mut late = pin!(room.take(3, 4 * MIB));
        assert!(poll!(early.as_mut()).is_pending() && poll!(late.as_mut()).is_pending());
        drop(two);

        let Poll::Ready(given) = poll!(late.as_mut()) else {
            panic!("the third namespace has nothing yet");
        };
        assert!(poll!(early.as_mut()).is_pending());
        drop(one);
        assert!(poll!(early).is_ready());
        drop(given);
    }

    #[tokio::test]
    async fn an_answer_larger_than_the_room_has_all_that_a_namespace_may_and_keeps_its_turn() {
        let room = room();
        let small = room.take(1, MIB).await;

        let mut huge = pin!(room.take(1, 100 * MIB));
        assert!(poll!(huge.as_mut()).is_pending());
        drop(small);
        let Poll::Ready(huge) = poll!(huge) else {
            panic!("nothing else is read");
        };

        assert_eq!(room.taken_bytes(), 4 * COPIES * MIB);
        drop(huge);
        assert_eq!(room.taken_bytes(), 0);
    }

    #[test]
    fn few_reads_in_pages_are_long_and_half_of_them_one_namespaces() {
        let room = Arc::new(AnswerRoom::of_bytes(4 * ROOM_OF_LONG_READ));
        let begin = |namespace_id| room.try_read_long(namespace_id);

        let mut own: Vec<LongRead> = (0..4).filter_map(|_| begin(1)).collect();
        let others: Vec<LongRead> = (0..4).filter_map(|_| begin(2)).collect();

        assert_eq!((own.len(), others.len()), (2, 2));
        assert!(begin(3).is_none(), "there are enough");
        drop(own.pop());
        assert!(begin(3).is_some());
    }

    #[tokio::test]
    async fn an_answer_that_nobody_waits_for_any_more_takes_no_room() {
        let room = room();
        let all = room.take(1, 4 * MIB).await;
        let mut kept = Box::pin(room.take(1, 4 * MIB));
        let mut left = Box::pin(room.take(1, 4 * MIB));
        assert!(poll!(kept.as_mut()).is_pending() && poll!(left.as_mut()).is_pending());

        // Told, and gone before it heard of it.
        drop(all);
        drop(kept);
        let Poll::Ready(given) = poll!(left.as_mut()) else {
            panic!("the room came back");
        };
        drop(given);

        assert_eq!((room.taken_bytes(), room.waiting()), (0, 0));
    }
}
