//! Room: how many runs this process holds at once, and how many of one namespace.
//!
//! Where there are several namespaces, none of them takes up all the room: an eighth is kept for the
//! others, so that a run of a quiet namespace begins although another one has a million due.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use semel_store::namespaces::NamespaceSettings;
use semel_store::queue::{NamespaceRoom, TAKE_MAX};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The part of the room that one namespace leaves to the others.
const KEPT_FOR_OTHERS: usize = 8;

/// The room of a process.
pub(crate) struct Room {
    permits: Arc<Semaphore>,
    capacity: usize,
    /// Whether there is more than one namespace.
    is_shared: AtomicBool,
    held: Arc<Held>,
}

/// How many runs of each namespace are held.
#[derive(Default)]
struct Held(Mutex<HashMap<i32, usize>>);

impl Held {
    fn change(&self, namespace_id: i32, change: impl FnOnce(usize) -> usize) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = held.entry(namespace_id).or_default();
        *count = change(*count);
        if *count == 0 {
            held.remove(&namespace_id);
        }
    }

    fn count(&self, namespace_id: i32) -> usize {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.get(&namespace_id).copied().unwrap_or_default()
    }

    fn list(&self) -> Vec<(i32, usize)> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.iter().map(|(id, count)| (*id, *count)).collect()
    }
}

/// The place of one run, until it is dropped.
pub(crate) struct Place {
    _permit: OwnedSemaphorePermit,
    counted: Option<(Arc<Held>, i32)>,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some((held, namespace_id)) = &self.counted {
            held.change(*namespace_id, |count| count.saturating_sub(1));
        }
    }
}

impl Room {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(capacity)),
            capacity,
            is_shared: AtomicBool::new(false),
            held: Arc::default(),
        }
    }

    /// Notes whether there is more than one namespace.
    pub(crate) fn share(&self, is_shared: bool) {
        self.is_shared.store(is_shared, Ordering::Relaxed);
    }

    /// How many more runs may be held.
    pub(crate) fn free(&self) -> usize {
        self.permits.available_permits()
    }

    /// A place for a run of a namespace, unless there is none now.
    pub(crate) fn try_enter(&self, namespace_id: i32) -> Option<Place> {
        if self.left(self.held.count(namespace_id)) == 0 {
            return None;
        }
        let permit = self.permits.clone().try_acquire_owned().ok()?;
        Some(self.place(permit, Some(namespace_id)))
    }

    /// A place for a run that was taken, as soon as there is one.
    pub(crate) async fn enter(&self, namespace_id: i32) -> Option<Place> {
        let permit = self.permits.clone().acquire_owned().await.ok()?;
        Some(self.place(permit, Some(namespace_id)))
    }

    /// A place for a run that an operator asks for, as soon as there is one.
    pub(crate) async fn enter_for_operator(&self) -> Option<Place> {
        let permit = self.permits.clone().acquire_owned().await.ok()?;
        Some(self.place(permit, None))
    }

    /// What a take has to know: the namespaces that have another weight than others, or no room for a
    /// whole batch.
    pub(crate) fn limits(&self, settings: &[NamespaceSettings]) -> Vec<NamespaceRoom> {
        if !self.is_shared.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let (free, held) = (self.free(), self.held.list());
        let limit = |namespace_id: i32, weight: i32, held: usize| NamespaceRoom {
            namespace_id,
            weight,
            room: self.left(held),
        };
        let mut limits: Vec<NamespaceRoom> = settings
            .iter()
            .map(|one| limit(one.id, one.weight, self.held.count(one.id)))
            .collect();
        let is_known = |id: &i32| settings.iter().any(|one| one.id == *id);
        let others = held.iter().filter(|(id, _)| !is_known(id));
        let others = others.map(|(id, held)| limit(*id, 1, *held));
        limits.extend(others.filter(|it| it.room < free.min(TAKE_MAX)));
        limits
    }

    /// How many more runs a namespace may have that has so many.
    fn left(&self, held: usize) -> usize {
        let kept = match self.is_shared.load(Ordering::Relaxed) && self.capacity > 1 {
            true => (self.capacity / KEPT_FOR_OTHERS).max(1),
            false => 0,
        };
        (self.capacity - kept).saturating_sub(held)
    }

    fn place(&self, permit: OwnedSemaphorePermit, namespace_id: Option<i32>) -> Place {
        let counted = namespace_id.map(|id| {
            self.held.change(id, |count| count + 1);
            (self.held.clone(), id)
        });
        Place {
            _permit: permit,
            counted,
        }
    }
}

#[cfg(test)]
mod tests {
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
