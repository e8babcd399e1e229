//! The orders of two actors' groups: lists of which actor goes next.

use std::collections::{BTreeSet, VecDeque};

use crate::Chance;

/// The most orders that are listed one by one. Of more, some are drawn.
const LISTED_MAX: u128 = 2_000;

/// How often a drawn order may be one that was played before, one after the other.
const REPEATS_MAX: usize = 1_000;

/// Orders of so many groups of each actor, none twice. First come those that are named, then those in which one actor
/// goes wholly between two groups of the other, then the others: all of them, or as many as are wanted by chance.
#[derive(Debug)]
pub(super) struct Schedules {
    counts: [usize; 2],
    /// How many orders there are.
    pub(super) possible: u128,
    first: VecDeque<Vec<u8>>,
    /// The others, where they are few enough to be listed.
    listed: Option<Vec<Vec<u8>>>,
    given: BTreeSet<Vec<u8>>,
    chance: Chance,
}

impl Schedules {
    pub(super) fn new(name: &str, counts: [usize; 2], named: &[&[u8]]) -> Self {
        let possible = binomial(counts[0] + counts[1], counts[0]);
        let mut chance = Chance::new(name);
        let listed = (possible <= LISTED_MAX).then(|| {
            let mut all = Vec::new();
            list(counts, &mut Vec::new(), &mut all);
            chance.shuffle(&mut all);
            all
        });
        let named = named.iter().map(|schedule| schedule.to_vec());
        Self {
            counts,
            possible,
            first: named.chain(nested(counts)).collect(),
            listed,
            given: BTreeSet::new(),
            chance,
        }
    }

    /// Whether one is left of those that are always played.
    pub(super) fn has_first(&self) -> bool {
        !self.first.is_empty()
    }

    fn draw(&mut self) -> Option<Vec<u8>> {
        if let Some(listed) = &mut self.listed {
            return listed.pop();
        }
        let actors = [vec![0; self.counts[0]], vec![1; self.counts[1]]];
        let mut schedule = actors.concat();
        for _ in 0..REPEATS_MAX {
            self.chance.shuffle(&mut schedule);
            if !self.given.contains(&schedule) {
                return Some(schedule);
            }
        }
        None
    }
}

impl Iterator for Schedules {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let next = match self.first.pop_front() {
                Some(first) => first,
                None => self.draw()?,
            };
            if self.given.insert(next.clone()) {
                return Some(next);
            }
        }
    }
}

/// The orders in which one actor goes wholly between two groups of the other.
fn nested(counts: [usize; 2]) -> impl Iterator<Item = Vec<u8>> {
    [0_u8, 1].into_iter().flat_map(move |outer| {
        let (outside, inside) = (counts[usize::from(outer)], counts[usize::from(1 - outer)]);
        (0..=outside).map(move |before| {
            let parts = [
                vec![outer; before],
                vec![1 - outer; inside],
                vec![outer; outside - before],
            ];
            parts.concat()
        })
    })
}

fn list(left: [usize; 2], begun: &mut Vec<u8>, all: &mut Vec<Vec<u8>>) {
    if left == [0, 0] {
        all.push(begun.clone());
    }
    for actor in [0_u8, 1] {
        let mut rest = left;
        let count = &mut rest[usize::from(actor)];
        if *count > 0 {
            *count -= 1;
            begun.push(actor);
            list(rest, begun, all);
            begun.pop();
        }
    }
}

/// In how many ways so many can be chosen of a number.
fn binomial(of: usize, chosen: usize) -> u128 {
    let mut ways: u128 = 1;
    for step in 0..chosen.min(of - chosen) {
        // Each product of so many neighbours can be divided by their number.
        ways = ways.saturating_mul((of - step) as u128) / (step as u128 + 1);
    }
    ways
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_of_few_groups_comes_once() {
        let schedules = Schedules::new("few", [3, 2], &[]);
        let possible = schedules.possible;
        let all: Vec<Vec<u8>> = schedules.collect();

        assert_eq!((all.len(), possible), (10, 10));
        let distinct: BTreeSet<&Vec<u8>> = all.iter().collect();
        assert_eq!(distinct.len(), 10);
        let zeros = |it: &Vec<u8>| it.iter().filter(|actor| **actor == 0).count();
        assert!(all.iter().all(|it| (it.len(), zeros(it)) == (5, 3)));
    }

    #[test]
    fn orders_that_were_named_come_first_and_then_one_actor_between_the_groups_of_the_other() {
        let schedules = Schedules::new("named", [2, 1], &[&[0, 1, 0]]);
        let all: Vec<Vec<u8>> = schedules.collect();

        assert_eq!(all, [vec![0, 1, 0], vec![1, 0, 0], vec![0, 0, 1]]);
    }

    #[test]
    fn many_orders_are_drawn_without_repeating_one() {
        let mut schedules = Schedules::new("many", [20, 20], &[]);

        let drawn: BTreeSet<Vec<u8>> = schedules.by_ref().take(300).collect();

        assert_eq!(drawn.len(), 300);
        assert_eq!(schedules.possible, 137_846_528_820);
        assert!(!schedules.has_first(), "40 of them are nested");
        assert!(drawn.iter().all(|it| it.len() == 40));
    }
}
