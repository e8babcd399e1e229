//! What each cell must come to, worked out from the design.

use super::super::fault::Fault;
use super::super::table::{Counted, End, Expected};
use super::kind::{Cell, Kind, Point};

/// How far the effect had come, as far as the world and the journal are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// Nothing of it is recorded, and nothing happened.
    Nothing,
    /// The intent is recorded, and the destination has not acted.
    Intended,
    /// The destination has acted; at most the server knows.
    Acted,
    /// The outcome is recorded.
    Recorded,
}

fn reach(cell: Cell) -> Reach {
    match cell.point {
        Point::IntentBefore => Reach::Nothing,
        // A transaction that is open when its session ends never was.
        Point::IntentAfter
        | Point::Connected
        | Point::HalfSent
        | Point::DbMarked
        | Point::DbCommit
        | Point::SshConnected
        | Point::MailAnnounced => Reach::Intended,
        // Events and sets are part of the commit that has not been made, and so are their intents.
        Point::OutcomeBefore if matches!(cell.kind, Kind::Emit | Kind::Sets) => Reach::Nothing,
        Point::Sent
        | Point::Answered
        | Point::DbCommitted
        | Point::SshEnded
        | Point::MailAnswered
        | Point::OutcomeBefore => Reach::Acted,
        Point::OutcomeAfter | Point::SpreadBefore | Point::SpreadAfter => Reach::Recorded,
    }
}

/// What a cell must come to.
pub(super) fn expect(cell: Cell) -> Expected {
    let done = |by| Expected {
        end: End::Succeeded,
        counted: counted(1),
        by: Some(by),
    };
    let once = match cell.kind {
        Kind::Emit | Kind::Sets => done("commit"),
        Kind::Db | Kind::SshMarked | Kind::Ssh | Kind::Mail | Kind::Persist | Kind::Http => {
            done("answer")
        }
    };
    let acted = match (cell.fault, reach(cell)) {
        (Fault::Cut | Fault::Postgres, _)
        | (Fault::Kill | Fault::Pause, Reach::Nothing | Reach::Recorded) => return once,
        (Fault::Kill | Fault::Pause, Reach::Intended) => false,
        (Fault::Kill | Fault::Pause, Reach::Acted) => true,
    };
    match cell.kind {
        // The second attempt meets the marker, the digest, the key, or nothing.
        Kind::Db | Kind::Emit | Kind::Sets | Kind::Persist | Kind::Http => once,
        Kind::SshMarked if acted => done("probe"),
        Kind::SshMarked => once,
        // The paused server wakes up with a response: it counts as a late response.
        Kind::Ssh | Kind::Mail if cell.fault == Fault::Pause && acted => done("late_response"),
        Kind::Ssh | Kind::Mail => Expected {
            end: End::InDoubt,
            counted: counted(u64::from(acted)),
            by: None,
        },
    }
}

fn counted(effects: u64) -> Counted {
    Counted {
        effects,
        calls: None,
    }
}

#[test]
fn no_kind_of_step_ever_happens_twice() {
    let most = Cell::all()
        .into_iter()
        .map(|cell| expect(cell).counted.effects);

    assert_eq!(most.max(), Some(1));
}
