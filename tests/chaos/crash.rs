//! The crash table: a fault at every point of an effect's life, under every guard.
//!
//! What each cell must come to is worked out from the design by [`oracle`], never from what was
//! seen. The table that readers get is written by the test that checks it: `docs/crash-table.md`.

mod cell;
mod inspect;
mod kinds;
mod lane;
mod oracle;
mod page;
mod round;

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Result, ensure};
use futures_util::future::try_join_all;

use self::cell::{Cell, FAULTS, Fault, Guard, Point};
use self::inspect::Finding;
use self::lane::Lane;

/// The least cells that the table has.
const CELLS_MIN: usize = 200;

#[tokio::test(flavor = "multi_thread")]
async fn every_crash_ends_as_the_table_says() -> Result<()> {
    let begun = Instant::now();
    let cells = Cell::all();
    ensure!(cells.len() >= CELLS_MIN, "only {} cells", cells.len());
    let lanes = FAULTS.map(|fault| {
        let cells: Vec<Cell> = cells
            .iter()
            .copied()
            .filter(|cell| cell.fault == fault)
            .collect();
        play(fault, cells, None)
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

/// A seeded bug, the fault that shows it, and the cells that are played.
type Watchful = (&'static str, Fault, &'static [(Point, Guard)]);

/// The cells in which a seeded bug must show.
const WATCHFUL: [Watchful; 3] = [
    (
        "missing-fence",
        Fault::Pause,
        &[
            (Point::IntentBefore, Guard::Key),
            (Point::AcceptAfter, Guard::Review),
            (Point::OutcomeBefore, Guard::Repeat),
            (Point::OutcomeBefore, Guard::Transaction),
        ],
    ),
    (
        "outcome-before-send",
        Fault::Kill,
        &[
            (Point::OutcomeAfter, Guard::Review),
            (Point::OutcomeAfter, Guard::Key),
            (Point::OutcomeAfter, Guard::Probe),
        ],
    ),
    (
        "new-key-on-retry",
        Fault::Kill,
        &[
            (Point::Sent, Guard::Key),
            (Point::Answered, Guard::Key),
            (Point::OutcomeBefore, Guard::Key),
            (Point::HalfSent, Guard::Key),
        ],
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn seeded_mistakes_turn_cells_red() -> Result<()> {
    let lanes = WATCHFUL.map(|(mistake, fault, places)| async move {
        let cells = places
            .iter()
            .map(|(point, guard)| Cell::new(*point, *guard, fault))
            .collect();
        Ok::<_, anyhow::Error>((mistake, play(fault, cells, Some(mistake)).await?))
    });

    let caught: BTreeMap<&str, Vec<Finding>> = try_join_all(lanes).await?.into_iter().collect();

    for (mistake, findings) in &caught {
        let violations = describe(findings);
        println!("{mistake}:\n{}", violations.join("\n"));
        ensure!(!violations.is_empty(), "nothing noticed {mistake}");
    }
    Ok(())
}

/// Plays cells of one fault, a round at a time, on a database of their own.
async fn play(fault: Fault, cells: Vec<Cell>, mistake: Option<&str>) -> Result<Vec<Finding>> {
    let mut lane = Lane::start(fault, mistake).await?;
    let mut findings = Vec::new();
    for cells in round::deal(cells) {
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
