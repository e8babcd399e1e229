//! The crash table for every kind of step: what each leaves at its own destination.
//!
//! The table of guards asks what becomes of an effect; this one asks every executor the same, at
//! the points that only it has. Runs are placed one after another, one fault strikes them all, and
//! the destinations count: rows, lines, mails, runs, requests.

mod inspect;
mod kind;
mod oracle;
mod page;
mod places;
mod play;

use std::time::Instant;

use anyhow::{Result, ensure};
use futures_util::future::try_join_all;

use self::inspect::Finding;
use self::kind::{Cell, FAULTS, Kind, Point};
use self::places::Places;
use self::play::Lane;
use super::cell::Fault;

/// The least cells that the table has.
const CELLS_MIN: usize = 100;

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_step_ends_as_its_table_says() -> Result<()> {
    let begun = Instant::now();
    let cells = Cell::all();
    ensure!(cells.len() >= CELLS_MIN, "only {} cells", cells.len());
    let places = Places::start().await?;
    let lanes = FAULTS.map(|fault| {
        let cells: Vec<Cell> = cells
            .iter()
            .copied()
            .filter(|cell| cell.fault == fault)
            .collect();
        play(fault, cells, &places, None)
    });

    let findings: Vec<Finding> = try_join_all(lanes).await?.into_iter().flatten().collect();

    let violations = describe(&findings);
    println!(
        "{} cells, {} violations, {:.0} s",
        findings.len(),
        violations.len(),
        begun.elapsed().as_secs_f64()
    );
    ensure!(violations.is_empty(), "\n{}\n", violations.join("\n"));
    ensure!(findings.len() == cells.len(), "every cell was played");
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

        let violations = describe(&play(fault, cells, &places, Some(mistake)).await?);

        println!("{mistake}:\n{}", violations.join("\n"));
        ensure!(
            violations.len() == watched.len(),
            "{} of {} cells noticed {mistake}",
            violations.len(),
            watched.len()
        );
    }
    Ok(())
}

/// Plays cells of one fault, a round at a time, on a database of their own.
async fn play(
    fault: Fault,
    cells: Vec<Cell>,
    places: &Places,
    mistake: Option<&'static str>,
) -> Result<Vec<Finding>> {
    let mut lane = Lane::start(fault, places, mistake).await?;
    let mut findings = Vec::new();
    for cells in play::deal(cells) {
        findings.extend(lane.play(&cells).await?);
    }
    Ok(findings)
}

fn describe(findings: &[Finding]) -> Vec<String> {
    findings
        .iter()
        .filter(|finding| !finding.objections.is_empty())
        .map(|finding| format!("{}: {}", finding.cell, finding.objections.join("; ")))
        .collect()
}
