//! What a gate decides, one visit at a time.

use uuid::Uuid;

use super::*;
use crate::id::ClaimId;
use crate::span::Span;

fn run(number: u128) -> RunId {
    RunId::derive(ClaimId::from_uuid(Uuid::from_u128(number)), 0)
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

/// A gate and its runs, which were accepted one second after the other.
struct Door {
    book: AdmissionState,
    rules: GateRules,
}

impl Door {
    fn new(rules: GateRules) -> Self {
        let book = AdmissionState::new(at(0));
        Self { book, rules }
    }

    fn with_policy(policy: GatePolicy) -> Self {
        Self::new(GateRules::one_at_a_time(policy))
    }

    fn with_rate(most: u32, secs: u64) -> Self {
        let per = Span::from_secs(secs);
        let mut door = Self::new(GateRules {
            policy: GatePolicy::Queue,
            concurrency: None,
            rate: Some(Rate { most, per }),
            debounce: None,
        });
        door.book.free_starts.past = vec![None; most as usize].into();
        door
    }

    fn enter(&mut self, number: u128) -> GateVerdict {
        let accepted_at = at(i64::try_from(number).unwrap() - 100);
        self.book.enter(EntryRequest {
            run: run(number),
            accepted_at,
            since: 1,
            rules: self.rules,
        })
    }

    fn leave(&mut self, number: u128) {
        self.book.leave(run(number), 5);
    }

    fn summoned(&mut self) -> Vec<RunId> {
        let summons = self.book.take_summons();
        summons.into_iter().map(|summons| summons.run).collect()
    }

    fn place(&self, number: u128) -> Option<GatePlace> {
        let ticket = self.book.entries.get(&run(number));
        ticket.map(|ticket| ticket.place)
    }
}

fn behind(number: u128) -> GateVerdict {
    GateVerdict::Wait {
        behind: Some(run(number)),
        until: None,
    }
}

#[test]
fn the_run_accepted_first_is_granted_its_place_first() {
    let mut door = Door::with_policy(GatePolicy::Queue);

    assert_eq!(door.enter(2), GateVerdict::In);
    assert_eq!(door.enter(4), behind(2));
    assert_eq!(door.enter(3), behind(2));
    assert_eq!(door.enter(2), GateVerdict::In, "asked again, told the same");
    door.leave(2);

    assert_eq!(door.summoned(), [run(3)]);
    assert_eq!(door.enter(4), behind(3), "the one that is called counts");
    assert_eq!(door.enter(3), GateVerdict::In);
    door.leave(3);
    assert_eq!(door.summoned(), [run(4)]);
    assert_eq!(door.enter(4), GateVerdict::In);
    door.leave(4);
    assert!(door.book.is_empty());
}

#[test]
fn leaving_twice_admits_one_run() {
    let mut door = Door::with_policy(GatePolicy::Queue);
    door.enter(1);
    door.enter(2);
    door.enter(3);

    door.leave(1);
    door.leave(1);

    assert_eq!(door.summoned(), [run(2)]);
    assert_eq!(door.place(3), Some(GatePlace::Waiting));
    assert_eq!((door.book.running, door.book.granted), (0, 1));
}

#[test]
fn a_waiting_run_that_leaves_is_skipped() {
    let mut door = Door::with_policy(GatePolicy::Queue);
    door.enter(1);
    door.enter(2);
    door.enter(3);

    door.leave(2);
    assert_eq!(door.summoned(), []);
    door.leave(1);
    assert_eq!(door.summoned(), [run(3)]);
    // Granted its place, and cancelled before it came.
    door.leave(3);

    assert!(door.book.is_empty());
}

#[test]
fn a_limit_admits_that_many_runs() {
    let mut door = Door::new(GateRules {
        concurrency: Some(2),
        ..GateRules::one_at_a_time(GatePolicy::Queue)
    });

    let verdicts = [door.enter(1), door.enter(2), door.enter(3), door.enter(4)];
    door.leave(1);
    door.leave(2);

    assert_eq!(verdicts[..2], [GateVerdict::In, GateVerdict::In]);
    assert!(matches!(verdicts[2], GateVerdict::Wait { .. }));
    assert_eq!(door.summoned(), [run(3), run(4)]);
}

#[test]
fn a_run_that_is_skipped_leaves_no_trace() {
    let mut door = Door::with_policy(GatePolicy::Skip);
    door.enter(1);

    assert_eq!(door.enter(2), GateVerdict::Skip { by: run(1) });
    assert_eq!(door.place(2), None);
    door.leave(1);
    assert_eq!(door.enter(3), GateVerdict::In);
}

#[test]
fn only_a_run_that_joined_is_woken_at_the_end() {
    let mut door = Door::with_policy(GatePolicy::Join);
    let joined = |ended| GateVerdict::Join { run: run(1), ended };
    door.enter(1);

    assert_eq!(door.enter(2), joined(false));
    assert_eq!(door.enter(3), joined(false));
    door.leave(1);

    assert_eq!(door.summoned(), [run(2), run(3)]);
    assert_eq!(door.enter(2), joined(true));
    door.leave(2);
    assert_eq!(door.summoned(), []);
    assert_eq!(door.enter(4), GateVerdict::In, "who joined is not inside");
}

#[test]
fn the_newest_takes_the_place_and_all_others_give_way() {
    let mut door = Door::with_policy(GatePolicy::Replace);
    door.enter(1);

    assert_eq!(door.enter(3), behind(1));
    assert_eq!(door.book.take_wanted(), Some(run(1)));
    assert_eq!(door.enter(3), behind(1));
    assert_eq!(door.book.take_wanted(), Some(run(1)), "and again");
    let older = door.enter(2);
    assert_eq!(older, GateVerdict::Dropped { by: run(3) });
    assert_eq!(door.enter(4), behind(1));
    assert_eq!(door.summoned(), [run(3)]);
    assert_eq!(door.enter(3), GateVerdict::Dropped { by: run(4) });
    door.leave(3);
    door.leave(1);

    assert_eq!(door.summoned(), [run(4)]);
    assert_eq!(door.enter(4), GateVerdict::In);
}

#[test]
fn an_older_run_does_not_replace_the_running_one() {
    let mut door = Door::with_policy(GatePolicy::Replace);
    door.enter(5);

    assert_eq!(door.enter(4), GateVerdict::Dropped { by: run(5) });
    assert_eq!(door.book.take_wanted(), None);
}

#[test]
fn debounce_waits_for_quiet_and_starts_only_the_newest() {
    let mut door = Door::new(GateRules {
        concurrency: None,
        debounce: Some(Span::from_secs(200)),
        ..GateRules::one_at_a_time(GatePolicy::Queue)
    });

    assert_eq!(door.enter(1), wait_until(at(101)));
    assert_eq!(door.enter(2), wait_until(at(102)));
    assert_eq!(door.summoned(), [run(1)]);
    assert_eq!(door.enter(1), GateVerdict::Dropped { by: run(2) });
    door.book.now = at(102);

    assert_eq!(door.enter(2), GateVerdict::In);
    assert_eq!(door.enter(3), wait_until(at(103)), "a start is not undone");
}

#[test]
fn no_stretch_of_time_sees_more_starts_than_the_rate() {
    let mut door = Door::with_rate(2, 10);

    assert_eq!([door.enter(1), door.enter(2)], [GateVerdict::In; 2]);
    assert_eq!(door.enter(3), wait_until(at(10)), "first in line is called");
    assert_eq!(door.enter(5), behind(1));
    assert_eq!(door.enter(4), behind(1));
    door.book.now = at(9);
    assert_eq!(door.enter(3), wait_until(at(10)));
    door.book.now = at(13);
    assert_eq!(door.enter(3), GateVerdict::In);
    assert_eq!(door.summoned(), [run(4)]);
    assert_eq!(door.enter(4), GateVerdict::In);
    assert_eq!(door.summoned(), [run(5)]);
    // The starts of 13 count from 13, not from when they could have been.
    assert_eq!(door.enter(5), wait_until(at(23)));
    assert_eq!(door.book.free_starts.started, 4);
}

#[test]
fn a_rate_counts_runs_that_have_left() {
    let mut door = Door::with_rate(1, 10);
    door.enter(1);
    door.leave(1);

    assert_eq!(door.enter(2), wait_until(at(10)));
}

#[test]
fn an_end_before_a_run_was_resumed_does_not_take_its_place_away() {
    let mut door = Door::with_policy(GatePolicy::Queue);
    door.enter(1);

    door.book.leave(run(1), 1);

    assert_eq!(door.place(1), Some(GatePlace::Running));
    door.leave(1);
    assert!(door.book.is_empty());
}
