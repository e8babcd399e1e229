//! The crash table for every kind of step: what each leaves at its own destination.
//!
//! The table of guards asks what becomes of an effect; this one asks every executor the same, at the
//! points that only it has. Runs are placed one after another, one fault strikes them all, and the
//! destinations count: rows, lines, mails, runs, requests.

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
use self::kind::{Cell, FAULTS};
use self::places::Places;
use self::play::Lane;

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
        let places = &places;
        async move {
            let mut lane = Lane::start(fault, places).await?;
            let mut findings = Vec::new();
            for cells in play::deal(cells) {
                findings.extend(lane.play(&cells).await?);
            }
            Ok::<_, anyhow::Error>(findings)
        }
    });

    let findings: Vec<Finding> = try_join_all(lanes).await?.into_iter().flatten().collect();

    let violations: Vec<String> = findings
        .iter()
        .filter(|finding| !finding.objections.is_empty())
        .map(|finding| format!("{}: {}", finding.cell, finding.objections.join("; ")))
        .collect();
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
