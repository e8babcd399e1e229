//! Places: how many of something there are at once, and how many of them one holder has.
//!
//! A holder that has its share finds no other place, so that some are left to the others. For [`FairPlaces`]
//! holders wait, in two lines: each in its own until it has less than its share, and then in that of all. So no
//! more than its share of a holder stands before anybody else, however much it asks for.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Places that are taken and left.
#[derive(Debug)]
pub(crate) struct Places<K> {
    all: usize,
    each: usize,
    taken: Arc<Mutex<Taken<K>>>,
}

#[derive(Debug)]
struct Taken<K> {
    all: usize,
    each: HashMap<K, usize>,
}

/// A place that is taken. Dropping it leaves.
#[derive(Debug)]
pub(crate) struct Place<K: Eq + Hash> {
    holder: K,
    taken: Arc<Mutex<Taken<K>>>,
}

impl<K: Clone + Eq + Hash> Places<K> {
    /// So many in all, and so many of them for one holder.
    pub(crate) fn new(all: usize, each: usize) -> Self {
        let none = Taken {
            all: 0,
            each: HashMap::new(),
        };
        Self {
            all,
            each,
            taken: Arc::new(Mutex::new(none)),
        }
    }

    /// Takes a place; nothing where there is none, or its holder has its share.
    pub(crate) fn take(&self, holder: K) -> Option<Place<K>> {
        let mut taken = lock(&self.taken);
        let own = taken.each.get(&holder).copied().unwrap_or_default();
        if taken.all >= self.all || own >= self.each {
            return None;
        }
        taken.all += 1;
        taken.each.insert(holder.clone(), own + 1);
        let taken = self.taken.clone();
        Some(Place { holder, taken })
    }

    /// How many places are taken.
    pub(crate) fn count(&self) -> usize {
        lock(&self.taken).all
    }
}

impl<K: Eq + Hash> Drop for Place<K> {
    fn drop(&mut self) {
        let mut taken = lock(&self.taken);
        taken.all -= 1;
        if let Some(own) = taken.each.get_mut(&self.holder) {
            *own -= 1;
            if *own == 0 {
                taken.each.remove(&self.holder);
            }
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Places that holders wait for.
#[derive(Debug)]
pub(crate) struct FairPlaces<K> {
    all: Arc<Semaphore>,
    each: usize,
    /// Of the holders that have a place or wait for one.
    shares: Mutex<HashMap<K, Weak<Semaphore>>>,
}

/// A place that was waited for. Dropping it leaves.
#[derive(Debug)]
pub(crate) struct FairPlace {
    _of_all: OwnedSemaphorePermit,
    _own: OwnedSemaphorePermit,
}

impl<K: Eq + Hash> FairPlaces<K> {
    /// So many in all, and so many of them for one holder.
    pub(crate) fn new(all: usize, each: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(all)),
            each,
            shares: Mutex::new(HashMap::new()),
        }
    }

    /// Waits for a place; nothing where there is none in that time.
    pub(crate) async fn wait(&self, holder: K, patience: Duration) -> Option<FairPlace> {
        let share = self.share_of(holder);
        let waiting = async {
            let own = share.acquire_owned().await.ok()?;
            let of_all = self.all.clone().acquire_owned().await.ok()?;
            Some(FairPlace {
                _of_all: of_all,
                _own: own,
            })
        };
        timeout(patience, waiting).await.ok().flatten()
    }

    fn share_of(&self, holder: K) -> Arc<Semaphore> {
        let mut shares = lock(&self.shares);
        shares.retain(|_, share| share.strong_count() > 0);
        if let Some(share) = shares.get(&holder).and_then(Weak::upgrade) {
            return share;
        }
        let share = Arc::new(Semaphore::new(self.each));
        shares.insert(holder, Arc::downgrade(&share));
        share
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::poll;

    use super::*;

    #[test]
    fn a_holder_has_its_share_and_leaves_the_others_theirs() {
        let places = Places::new(3, 2);

        let (one, two) = (places.take("a"), places.take("a"));
        let beyond_its_share = places.take("a");
        let other = places.take("b");
        let beyond_all = places.take("c");
        drop(one);
        let again = places.take("c");

        assert!(two.is_some() && other.is_some() && again.is_some());
        assert!(beyond_its_share.is_none() && beyond_all.is_none());
    }

    #[test]
    fn nothing_is_kept_of_who_has_left() {
        let places = Places::new(3, 2);

        drop(places.take("a"));

        assert!(lock(&places.taken).each.is_empty());
    }

    /// Longer than any test.
    const LONG: Duration = Duration::from_secs(3_600);

    #[tokio::test]
    async fn many_who_wait_of_one_holder_stand_before_nobody_else() {
        let places = FairPlaces::new(2, 1);
        let first = places.wait("a", LONG).await;
        let mut crowd: Vec<_> = (0..10).map(|_| Box::pin(places.wait("a", LONG))).collect();
        for one in &mut crowd {
            assert!(poll!(one).is_pending(), "it has its share");
        }

        let other = places.wait("b", LONG).await;
        let mut third = pin!(places.wait("c", LONG));
        assert!(poll!(third.as_mut()).is_pending(), "all are taken");
        drop(first);

        assert!(third.await.is_some(), "before the next of the crowd");
        drop(other);
        assert!(crowd.remove(0).await.is_some());
    }

    #[tokio::test]
    async fn nothing_is_kept_of_who_has_left_or_waits_no_longer() {
        let places = FairPlaces::new(2, 1);

        let held = places.wait("a", LONG).await;
        let none = places.wait("a", Duration::ZERO).await;
        drop(held);
        drop(places.wait("b", LONG).await);
        drop(places.wait("c", LONG).await);

        assert!(none.is_none());
        assert_eq!(lock(&places.shares).len(), 1, "the last one");
    }
}
