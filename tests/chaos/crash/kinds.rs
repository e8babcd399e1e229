//! The crash table for every kind of step: what each leaves at its own destination.
//!
//! The table of guards asks what becomes of an effect; this one asks every executor the same, at
//! the points that only it has. Runs are placed one after another, one fault strikes them all, and
//! the destinations count: rows, lines, mails, runs, requests.

mod kind;
mod oracle;
mod page;
mod places;
mod table;

use anyhow::{Result, ensure};

use self::kind::{Cell, FAULTS, Kind, Point};
use self::places::Places;
use self::table::Kinds;
use super::fault::Fault;
use super::play::{play, play_all, violations};

/// The least cells that the table has.
const CELLS_MIN: usize = 100;

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_step_ends_as_its_table_says() -> Result<()> {
    let cells = Cell::all();
    ensure!(cells.len() >= CELLS_MIN, "only {} cells", cells.len());
    let places = Places::start().await?;

    let findings = play_all(&cells, FAULTS, async || Kinds::new(&places)).await?;

    page::keep(&findings)
}

/// A seeded bug, and the cells that must turn red by it where the server is killed.
type Watchful = (&'static str, &'static [(Kind, Point)]);

const WATCHFUL: [Watchful; 2] = [
    (
        "new-key-on-retry",
        &[
            (Kind::Db, Point::DbCommitted),
            (Kind::Db, Point::OutcomeBefore),
            (Kind::Http, Point::Answered),
        ],
    ),
    (
        "outcome-before-send",
        &[
            (Kind::Db, Point::OutcomeAfter),
            (Kind::SshMarked, Point::OutcomeAfter),
            (Kind::Ssh, Point::OutcomeAfter),
            (Kind::Mail, Point::OutcomeAfter),
        ],
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn seeded_mistakes_turn_kinds_red() -> Result<()> {
    let places = Places::start().await?;
    for (mistake, watched) in WATCHFUL {
        let fault = Fault::Kill;
        let at = |(kind, point): &(Kind, Point)| Cell {
            kind: *kind,
            point: *point,
            fault,
        };
        let cells = watched.iter().map(at).collect();

        let findings = play(Kinds::new(&places)?, fault, cells, Some(mistake)).await?;
        let violations = violations(&findings);

        println!("{mistake}:\n{}", violations.join("\n"));
        for blind in findings.iter().filter(|it| it.objections.is_empty()) {
            println!(
                "{} noticed nothing: {}, {:?}",
                blind.cell, blind.state, blind.counted
            );
        }
        // A cell may be blind once in a while, and its journal above says why. A bug that two pass over is not caught.
        ensure!(
            violations.len() + 1 >= watched.len(),
            "{} of {} cells noticed {mistake}",
            violations.len(),
            watched.len()
        );
    }
    Ok(())
}
