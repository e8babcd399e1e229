//! Room: how many runs this process holds at once, and how many of one namespace.
//!
//! Where there are several namespaces, none of them takes up all the room: an eighth is kept for the
//! others, so that a run of a quiet namespace begins although another one has a million due.
//!
//! So is an eighth of the memory for runs. A run that was taken and finds no place or no memory waits in a task of
//! its own. Few do so, and few continue without memory; one of each namespace may always. What is left goes back to
//! the queue.

mod quota;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_store::namespaces::NamespaceSettings;
use semel_store::queue::{NamespaceRoom, TAKE_MAX};
use tokio::time::Instant;

use crate::memory::{Budget, Portion, whole_units};
pub(crate) use quota::QuotaPermit;
use quota::{HeldByNamespace, HeldPart, Quota};

/// The part of the room that one namespace leaves to the others.
const KEPT_FOR_OTHERS: usize = 8;

/// How many runs that were taken wait for a place or for memory, besides the first of each namespace.
const WAITING_MAX: usize = 8;

/// The same of one namespace.
const WAITING_OF_ONE_MAX: usize = 4;

/// How many runs continue without the memory that they waited for, besides the first of each namespace.
const WITHOUT_MEMORY_MAX: usize = 8;

/// The same of one namespace.
const WITHOUT_MEMORY_OF_ONE_MAX: usize = 2;

/// How long no run of a namespace is taken after one of them could not begin for want of memory: each take reads
/// journals.
const CROWDED_FOR: Duration = Duration::from_millis(500);

/// The room of a process.
pub(crate) struct Room {
    places: Quota,
    waiting: Quota,
    without_memory: Quota,
    /// The bytes that each namespace holds.
    memory: Arc<HeldByNamespace>,
    capacity: usize,
    /// Whether there is more than one namespace.
    is_shared: AtomicBool,
    /// The namespaces of which no run is taken for a while.
    crowded: Mutex<HashMap<i32, Instant>>,
}

/// The place of one run, until it is dropped.
pub(crate) struct Place {
    permit: QuotaPermit,
    memory: RunMemory,
    /// The memory that the run has grown into.
    grown: Vec<RunMemory>,
}

/// The memory of a run.
pub(crate) enum RunMemory {
    /// It has what it takes.
    Counted {
        /// Of the budget of this process.
        _portion: Portion,
        /// Of what its namespace may have.
        held: HeldPart,
    },
    /// It takes so little that it is not counted, or goes before others.
    Uncounted,
    /// It continues without, as few do.
    Without {
        /// The right to.
        _permit: QuotaPermit,
    },
}

impl Place {
    const fn new(permit: QuotaPermit) -> Self {
        Self {
            permit,
            memory: RunMemory::Uncounted,
            grown: Vec::new(),
        }
    }

    /// The same place, with the memory of its run.
    pub(crate) fn with(self, memory: RunMemory) -> Self {
        Self { memory, ..self }
    }

    /// How many bytes are counted for the run.
    pub(crate) fn bytes(&self) -> usize {
        self.memory.bytes() + self.grown.iter().map(RunMemory::bytes).sum::<usize>()
    }
}

impl RunMemory {
    fn bytes(&self) -> usize {
        match self {
            Self::Counted { held, .. } => held.amount(),
            Self::Uncounted | Self::Without { .. } => 0,
        }
    }
}

impl Room {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            places: Quota::new(capacity),
            waiting: Quota::new(WAITING_MAX),
            without_memory: Quota::new(WITHOUT_MEMORY_MAX),
            memory: Arc::default(),
            capacity,
            is_shared: AtomicBool::new(false),
            crowded: Mutex::default(),
        }
    }

    /// Notes whether there is more than one namespace.
    pub(crate) fn share(&self, is_shared: bool) {
        self.is_shared.store(is_shared, Ordering::Relaxed);
    }

    /// How many more runs may be held.
    pub(crate) fn free(&self) -> usize {
        self.places.free()
    }

    /// A place for a run of a namespace, unless there is none now.
    pub(crate) fn try_enter(&self, namespace_id: i32) -> Option<Place> {
        let permit = self
            .places
            .try_enter(namespace_id, self.most_of_one(self.capacity));
        permit.map(Place::new)
    }

    /// A place for a run that was taken, as soon as there is one; none where its namespace has all that it may.
    pub(crate) async fn enter(&self, namespace_id: i32) -> Option<Place> {
        let permit = self
            .places
            .enter(namespace_id, self.most_of_one(self.capacity));
        permit.await.map(Place::new)
    }

    /// A place for a run that goes before others, as soon as there is one.
    pub(crate) async fn enter_uncounted(&self) -> Option<Place> {
        self.places.enter_uncounted().await.map(Place::new)
    }

    /// Counts a place that goes before others for a namespace; false where that has all that it may.
    pub(crate) fn try_count(&self, place: &mut Place, namespace_id: i32) -> bool {
        let most = self.most_of_one(self.capacity);
        let held = self.places.held();
        place.permit.count_for(held, namespace_id, most)
    }

    /// More memory for a run that grows, unless there is too little now. One that has all that its namespace may
    /// have grows without.
    pub(crate) fn try_grow(
        &self,
        place: &mut Place,
        budget: &Budget,
        namespace_id: i32,
        bytes: usize,
    ) -> bool {
        let bytes = bytes.min(
            self.most_memory_of_one(budget)
                .saturating_sub(place.bytes()),
        );
        if bytes == 0 {
            return true;
        }
        let more = self.try_memory(budget, namespace_id, bytes);
        let is_there = more.is_some();
        place.grown.extend(more);
        is_there
    }

    /// Memory for a run of a namespace that has not all that it may, unless there is too little now.
    pub(crate) fn try_memory(
        &self,
        budget: &Budget,
        namespace_id: i32,
        bytes: usize,
    ) -> Option<RunMemory> {
        let most = self.most_memory_of_one(budget);
        let bytes = whole_units(bytes).min(most);
        let held = self.memory.enter(namespace_id, bytes, most)?;
        let portion = budget.try_take(bytes)?;
        Some(RunMemory::Counted {
            _portion: portion,
            held,
        })
    }

    /// The right to wait for a place or for memory.
    pub(crate) fn try_wait(&self, namespace_id: i32) -> Option<QuotaPermit> {
        self.waiting
            .try_enter_first(namespace_id, WAITING_OF_ONE_MAX)
    }

    /// The right to continue without memory.
    pub(crate) fn try_without_memory(&self, namespace_id: i32) -> Option<RunMemory> {
        let most = WITHOUT_MEMORY_OF_ONE_MAX;
        let permit = self.without_memory.try_enter_first(namespace_id, most)?;
        Some(RunMemory::Without { _permit: permit })
    }

    /// Notes that a run of a namespace found no memory.
    pub(crate) fn note_crowded(&self, namespace_id: i32) {
        let until = Instant::now() + CROWDED_FOR;
        self.lock_crowded().insert(namespace_id, until);
    }

    /// What a take has to know: the namespaces that have another weight than others, no room for a whole
    /// batch, or no memory.
    pub(crate) fn limits(&self, settings: &[NamespaceSettings]) -> Vec<NamespaceRoom> {
        let mut limits = match self.is_shared.load(Ordering::Relaxed) {
            true => self.shares(settings),
            false => Vec::new(),
        };
        let mut crowded = self.lock_crowded();
        crowded.retain(|_, until| *until > Instant::now());
        for namespace_id in crowded.keys().copied() {
            match limits.iter_mut().find(|it| it.namespace_id == namespace_id) {
                Some(limit) => limit.room = 0,
                None => limits.push(NamespaceRoom {
                    namespace_id,
                    weight: 1,
                    room: 0,
                }),
            }
        }
        limits
    }

    fn shares(&self, settings: &[NamespaceSettings]) -> Vec<NamespaceRoom> {
        let (free, held) = (self.free(), self.places.held().list());
        let limit = |namespace_id: i32, weight: i32, held: usize| NamespaceRoom {
            namespace_id,
            weight,
            room: self.most_of_one(self.capacity).saturating_sub(held),
        };
        let mut limits: Vec<NamespaceRoom> = settings
            .iter()
            .map(|one| limit(one.id, one.weight, self.places.held().count(one.id)))
            .collect();
        let is_known = |id: &i32| settings.iter().any(|one| one.id == *id);
        let others = held.iter().filter(|(id, _)| !is_known(id));
        let others = others.map(|(id, held)| limit(*id, 1, *held));
        limits.extend(others.filter(|it| it.room < free.min(TAKE_MAX)));
        limits
    }

    /// How many bytes one namespace may have, in whole units: so what a run takes in parts fits like the whole.
    fn most_memory_of_one(&self, budget: &Budget) -> usize {
        whole_units(self.most_of_one(budget.total()))
    }

    /// How much one namespace may have of so much.
    fn most_of_one(&self, all: usize) -> usize {
        match self.is_shared.load(Ordering::Relaxed) && all > 1 {
            true => all - (all / KEPT_FOR_OTHERS).max(1),
            false => all,
        }
    }

    fn lock_crowded(&self) -> MutexGuard<'_, HashMap<i32, Instant>> {
        self.crowded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use semel_testkit::until;

    use super::*;

    fn fill(room: &Room, namespace_id: i32) -> Vec<Place> {
        std::iter::from_fn(|| room.try_enter(namespace_id)).collect()
    }

    #[test]
    fn one_namespace_alone_has_all_the_room() {
        let room = Room::new(16);

        assert_eq!(fill(&room, 1).len(), 16);
        assert_eq!(room.free(), 16, "places are given back");
        assert_eq!(room.limits(&[]), []);
    }

    #[test]
    fn of_several_namespaces_none_takes_up_all_the_room() {
        let room = Room::new(16);
        room.share(true);

        let greedy = fill(&room, 1);
        let quiet = room.try_enter(2);

        assert_eq!(greedy.len(), 14);
        assert!(quiet.is_some());
        let none = NamespaceRoom {
            namespace_id: 1,
            weight: 1,
            room: 0,
        };
        assert_eq!(room.limits(&[]), [none], "the other one has room");
        drop((greedy, quiet));
        assert_eq!(room.limits(&[]), []);
    }

    #[tokio::test]
    async fn a_run_that_was_taken_enters_no_more_than_its_namespace_may() {
        let room = Room::new(16);
        room.share(true);
        let greedy = fill(&room, 1);

        assert!(room.enter(1).await.is_none());
        assert!(room.enter(2).await.is_some());
        assert_eq!((greedy.len(), room.free()), (14, 2));
    }

    #[tokio::test]
    async fn of_a_namespace_that_found_no_memory_nothing_is_taken_for_a_while() {
        let room = Room::new(16);

        let noted = Instant::now();
        room.note_crowded(1);
        let none = NamespaceRoom {
            namespace_id: 1,
            weight: 1,
            room: 0,
        };
        assert_eq!(room.limits(&[]), [none]);
        let limits = async || Ok(room.limits(&[]));
        let free = until("the namespace to have room", limits, Vec::is_empty).await;
        assert!(free.is_ok(), "{free:?}");
        assert!(noted.elapsed() >= CROWDED_FOR, "not before");
    }

    #[test]
    fn few_runs_wait_or_continue_without_memory_and_the_first_of_each_namespace_always() {
        let room = Room::new(16);
        let namespaces = 12;

        let waiting = (0..10 * namespaces).filter_map(|it| room.try_wait(it / 10));
        let waiting: Vec<QuotaPermit> = waiting.collect();
        let without = (0..10 * namespaces).filter_map(|it| room.try_without_memory(it / 10));
        let without: Vec<RunMemory> = without.collect();

        assert_eq!(waiting.len(), 12 + WAITING_MAX);
        assert_eq!(without.len(), 12 + WITHOUT_MEMORY_MAX);
        assert!(room.try_wait(13).is_some(), "its first");
        let of_one: Vec<QuotaPermit> = (0..10).filter_map(|_| room.try_wait(14)).collect();
        assert_eq!(of_one.len(), 1, "there are enough");
        drop((waiting, of_one));
        let of_one: Vec<QuotaPermit> = (0..10).filter_map(|_| room.try_wait(14)).collect();
        assert_eq!(of_one.len(), WAITING_OF_ONE_MAX);
    }

    #[test]
    fn of_several_namespaces_none_takes_up_all_the_memory() {
        let (room, kib) = (Room::new(16), 1024);
        let budget = Budget::of_bytes(16 * kib);

        let alone = room.try_memory(&budget, 1, 16 * kib);
        assert!(alone.is_some());
        drop(alone);
        room.share(true);
        let large = room.try_memory(&budget, 1, 20 * kib);

        assert!(large.is_some(), "one that takes more has all it may");
        assert!(room.try_memory(&budget, 1, kib).is_none());
        let quiet = room.try_memory(&budget, 2, 2 * kib);
        assert!(quiet.is_some());
        drop((large, quiet));
        assert!(room.try_memory(&budget, 1, 14 * kib).is_some());
    }

    #[test]
    fn a_run_grows_while_there_is_memory_and_beyond_all_that_its_namespace_may_have() {
        let (room, kib) = (Room::new(16), 1024);
        let budget = Budget::of_bytes(16 * kib);
        let entered = |bytes: usize| {
            let memory = room.try_memory(&budget, 1, bytes).unwrap();
            room.try_enter(1).unwrap().with(memory)
        };
        let (mut growing, other) = (entered(3 * kib + 1), entered(8 * kib));

        assert!(room.try_grow(&mut growing, &budget, 1, 4 * kib));
        assert!(
            !room.try_grow(&mut growing, &budget, 1, kib),
            "the other has the rest"
        );
        drop(other);
        assert!(room.try_grow(&mut growing, &budget, 1, 8 * kib));
        assert_eq!(growing.bytes(), 16 * kib);
        assert!(
            room.try_grow(&mut growing, &budget, 1, 64 * kib),
            "it has all that it may"
        );
        drop(growing);
        assert_eq!(
            entered(16 * kib).bytes(),
            16 * kib,
            "all of it is given back"
        );
    }

    #[test]
    fn a_weight_is_passed_on() {
        let room = Room::new(16);
        room.share(true);
        let heavy = NamespaceSettings {
            id: 3,
            weight: 5,
            backlog_max: None,
            history: None,
        };

        let limits = room.limits(&[heavy]);

        assert_eq!((limits[0].namespace_id, limits[0].weight), (3, 5));
        assert_eq!(limits[0].room, 14);
    }
}
