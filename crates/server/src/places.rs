//! Places: how many of something there are at once, and how many of them one holder has.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

fn lock<K>(taken: &Mutex<Taken<K>>) -> MutexGuard<'_, Taken<K>> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
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
}
