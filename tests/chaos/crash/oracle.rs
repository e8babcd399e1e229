//! What each cell must come to, worked out from the design.
//!
//! Three things decide: how far the effect had come, what its guard allows, and whether the server
//! kept its lease. A server that loses only its database for a moment keeps the lease, finds out
//! what it had committed, and continues. One that is killed or paused is followed by another, which
//! knows the journal and nothing else.

use super::cell::{Cell, Guard, Point};
use super::fault::Fault;
use super::table::{Counted, End, Expected};

/// How far the effect had come, as far as the world and the journal are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// Nothing of it is recorded, and nothing happened.
    Nothing,
    /// The intent is recorded; not a byte was sent.
    Intended,
    /// The destination has seen a request that it cannot act on.
    Begun,
    /// The destination has acted; at most the server knows.
    Acted,
    /// The outcome is recorded.
    Recorded,
}

fn reach(cell: Cell) -> Reach {
    match cell.point {
        Point::AcceptBefore
        | Point::AcceptUnanswered
        | Point::AcceptAfter
        | Point::OpeningBefore
        | Point::IntentBefore => Reach::Nothing,
        Point::OpeningUnanswered
        | Point::OpeningAfter
        | Point::IntentUnanswered
        | Point::IntentAfter
        | Point::Connected => Reach::Intended,
        Point::HalfSent => Reach::Begun,
        // The effect is part of the commit that has not been made.
        Point::OutcomeBefore if cell.guard == Guard::Transaction => Reach::Intended,
        Point::Sent | Point::Answered | Point::OutcomeBefore => Reach::Acted,
        Point::OutcomeUnanswered | Point::OutcomeAfter => Reach::Recorded,
    }
}

/// What a cell must come to.
pub(crate) fn expect(cell: Cell) -> Expected {
    match cell.fault {
        Fault::Cut | Fault::Postgres => once(cell.guard),
        Fault::Kill | Fault::Pause => match reach(cell) {
            Reach::Nothing | Reach::Recorded => once(cell.guard),
            Reach::Intended => taken_over(cell, 0, 0),
            Reach::Begun => taken_over(cell, 0, 1),
            Reach::Acted => taken_over(cell, 1, 1),
        },
    }
}

/// As if there had been no fault.
fn once(guard: Guard) -> Expected {
    let (calls, by) = match guard {
        Guard::Transaction => (0, "commit"),
        Guard::Key | Guard::Natural | Guard::Probe | Guard::Review | Guard::Repeat => (1, "answer"),
    };
    Expected {
        end: End::Succeeded,
        counted: counted(1, calls),
        by: Some(by),
    }
}

/// Another server finds the intent without an outcome, after so many effects and calls.
fn taken_over(cell: Cell, effects: u64, calls: u64) -> Expected {
    let done = |effects, calls, by| Expected {
        end: End::Succeeded,
        counted: counted(effects, calls),
        by: Some(by),
    };
    match cell.guard {
        Guard::Transaction => done(1, 0, "commit"),
        // The second request is the first again, or sets what is set.
        Guard::Key | Guard::Natural => done(1, calls + 1, "answer"),
        Guard::Probe if effects == 1 => done(1, calls, "probe"),
        Guard::Probe => done(1, calls + 1, "answer"),
        // The author accepted repeats of this one.
        Guard::Repeat => done(effects + 1, calls + 1, "answer"),
        // The paused server wakes up with a response: it counts as a late response.
        Guard::Review if cell.fault == Fault::Pause && effects == 1 => {
            done(1, calls, "late_response")
        }
        Guard::Review => Expected {
            end: End::InDoubt,
            counted: counted(effects, calls),
            by: None,
        },
    }
}

fn counted(effects: u64, calls: u64) -> Counted {
    Counted {
        effects,
        calls: Some(calls),
    }
}

#[test]
fn an_effect_without_a_guard_never_happens_twice() {
    let twice = |cell: &Cell| expect(*cell).counted.effects > 1;

    let cells: Vec<Cell> = Cell::all().into_iter().filter(twice).collect();

    assert!(
        cells.iter().all(|cell| cell.guard == Guard::Repeat),
        "{cells:?}"
    );
}
