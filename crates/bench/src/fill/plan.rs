//! Which run comes when: kinds, namespaces, releases and times, all by number, so that the same seed
//! makes the same database.

use super::template::mix;

/// Over how many days the runs are spread.
pub(super) const DAYS: i64 = 60;

/// The namespaces that runs belong to: the first has most of them, the last has a hundred old ones.
pub(super) const NAMESPACES: [&str; 5] = ["default", "north", "south", "west", "quiet"];

/// How many runs the quiet namespace has.
const QUIET: u64 = 100;

/// How many runs of each rare kind there are at most.
const RARE_MAX: u64 = 3_000;

/// Kinds of runs, each with an original of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// Three calls, all done.
    Ordered,
    /// The same, and the key came twice.
    OrderedAgain,
    /// Three changes in the database.
    Stocked,
    /// Ended with a failure.
    Failed,
    /// Ended by an operator.
    Cancelled,
    /// Ended because another ran.
    Superseded,
    /// Stopped: an effect is in doubt.
    InDoubt,
    /// Stopped: its retries are used up.
    NeedsReview,
    /// Stopped: it made no progress.
    Quarantined,
    /// Waits for a callback.
    Waiting,
    /// Waits for a decision.
    Asking,
    /// Was decided.
    Asked,
    /// Sleeps.
    Sleeping,
    /// Has a task that no worker took.
    Working,
    /// Will try again.
    Retrying,
    /// Was accepted, and no worker took it.
    Queued,
    /// Came again with another payload, which was refused.
    Mismatched,
    /// Came again with another payload, which is held.
    Held,
    /// Emitted an event, which was delivered.
    Emitted,
    /// Has child runs.
    Batch,
    /// Of a flow with very few runs, all of them old.
    Seldom,
}

/// The kinds of which there are a few thousand, in the last third of the time.
const RARE: [Kind; 15] = [
    Kind::Superseded,
    Kind::InDoubt,
    Kind::NeedsReview,
    Kind::Quarantined,
    Kind::Waiting,
    Kind::Asking,
    Kind::Asked,
    Kind::Sleeping,
    Kind::Working,
    Kind::Retrying,
    Kind::Queued,
    Kind::Mismatched,
    Kind::Held,
    Kind::Emitted,
    Kind::Batch,
];

/// A release is chosen by so many of a thousand runs: most have the latest, few the first.
const FIRST_RELEASE: u64 = 1;
const SECOND_RELEASE: u64 = 300;

/// One run that is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Planned {
    pub(super) number: u64,
    pub(super) kind: Kind,
    /// The namespace's place among [`NAMESPACES`].
    pub(super) namespace: usize,
    /// The number of its release, as far as its flow has so many.
    pub(super) release: usize,
    /// How long before now it was accepted, in microseconds.
    pub(super) before: i64,
    /// What its identities are drawn from.
    pub(super) lot: u64,
}

/// What is to be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) runs: u64,
    pub(super) seed: u64,
}

impl Plan {
    /// The run of a number, from 0 for the oldest.
    pub(super) fn run(&self, number: u64) -> Planned {
        let lot = mix(self.seed, number);
        let span = DAYS * 86_400 * 1_000_000;
        // The youngest was accepted an hour ago.
        let age = u128::from(self.runs - number) * span.unsigned_abs() as u128;
        let age = (age / u128::from(self.runs.max(1))) as i64;
        let jitter = (lot % 1_000) as i64;
        let (kind, namespace) = self.kind_of(number, lot);
        Planned {
            number,
            kind,
            namespace,
            release: match lot >> 32 & 0x3ff {
                draw if draw < FIRST_RELEASE => 1,
                draw if draw < SECOND_RELEASE => 2,
                _ => 3,
            },
            before: age + 3_600_000_000 - jitter,
            lot,
        }
    }

    fn kind_of(&self, number: u64, lot: u64) -> (Kind, usize) {
        let stride = (self.runs / 10 / QUIET).max(1);
        if number < self.runs / 10 && number.is_multiple_of(stride) {
            let is_of_default = (number / stride).is_multiple_of(5);
            return match is_of_default {
                true => (Kind::Seldom, 0),
                false => (Kind::Ordered, NAMESPACES.len() - 1),
            };
        }
        // One of eight is in one of the small namespaces.
        let namespace = match lot >> 16 & 0x1f {
            small @ 0..=2 => 1 + small as usize,
            _ => 0,
        };
        (
            self.rare_kind(number).unwrap_or_else(|| common(lot)),
            namespace,
        )
    }

    /// Every so many runs of the last third, one of each rare kind in turn.
    fn rare_kind(&self, number: u64) -> Option<Kind> {
        let begin = self.runs / 3 * 2;
        let kinds = RARE.len() as u64;
        let each = (self.runs / 6 / kinds).min(RARE_MAX);
        let stride = (self.runs - begin) / (each * kinds).max(1);
        let place = number.checked_sub(begin)?;
        let is_rare = stride > 0 && place.is_multiple_of(stride) && place / stride < each * kinds;
        is_rare.then(|| RARE[(place / stride % kinds) as usize])
    }
}

/// More than half of the orders came twice, so that half of all runs have a repeat.
fn common(lot: u64) -> Kind {
    match lot >> 42 & 0x3ff {
        0..=4 => Kind::Failed,
        5..=7 => Kind::Cancelled,
        8..=107 => Kind::Stocked,
        108..=619 => Kind::OrderedAgain,
        _ => Kind::Ordered,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn count(plan: Plan) -> HashMap<Kind, u64> {
        let mut counts = HashMap::new();
        for number in 0..plan.runs {
            *counts.entry(plan.run(number).kind).or_default() += 1;
        }
        counts
    }

    #[test]
    fn every_kind_is_there_and_half_of_the_runs_came_twice() {
        let plan = Plan {
            runs: 90_000,
            seed: 7,
        };
        let counts = count(plan);
        for kind in RARE {
            assert_eq!(counts[&kind], 1_000, "{kind:?}");
        }
        assert!(counts[&Kind::OrderedAgain] > 35_000, "{counts:?}");
        assert_eq!(counts[&Kind::Seldom], 20, "{counts:?}");
        let quiet = (0..plan.runs).filter(|it| plan.run(*it).namespace == NAMESPACES.len() - 1);
        assert_eq!(quiet.count(), 80);
    }

    #[test]
    fn the_same_seed_makes_the_same_runs_and_another_makes_others() {
        let plan = |seed| Plan { runs: 1_000, seed };
        let all = |plan: Plan| (0..1_000).map(|it| plan.run(it)).collect::<Vec<_>>();
        assert_eq!(all(plan(1)), all(plan(1)));
        assert_ne!(all(plan(1)), all(plan(2)));
    }

    #[test]
    fn runs_are_spread_over_sixty_days_and_the_oldest_comes_first() {
        let plan = Plan {
            runs: 10_000,
            seed: 1,
        };
        let days = |number| plan.run(number).before / 86_400_000_000;
        assert_eq!((days(0), days(5_000), days(9_999)), (DAYS, DAYS / 2, 0));
    }
}
