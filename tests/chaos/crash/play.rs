//! Playing a whole table, one lane to each fault.

use std::time::Instant;

use anyhow::{Result, ensure};
use futures_util::future::try_join_all;

use super::fault::Fault;
use super::lane::Lane;
use super::table::{CrashCell, Finding, Table};
use crate::invariants;

/// Plays every cell of a table and returns what was found, which must violate nothing.
pub(crate) async fn play_all<T: Table, const FAULTS: usize>(
    cells: &[T::Cell],
    faults: [Fault; FAULTS],
    start: impl AsyncFn() -> Result<T>,
) -> Result<Vec<Finding<T::Cell>>> {
    let begun = Instant::now();
    let start = &start;
    let lanes = faults.map(|fault| async move {
        let cells = cells.iter().copied().filter(|cell| cell.fault() == fault);
        play(start().await?, fault, cells.collect(), None).await
    });

    let findings: Vec<Finding<T::Cell>> =
        try_join_all(lanes).await?.into_iter().flatten().collect();

    let violations = violations(&findings);
    println!(
        "{} cells, {} violations, {:.0} s",
        findings.len(),
        violations.len(),
        begun.elapsed().as_secs_f64()
    );
    ensure!(violations.is_empty(), "\n{}\n", violations.join("\n"));
    ensure!(findings.len() == cells.len(), "every cell was played");
    Ok(findings)
}

/// Plays cells of one fault, a round at a time, on a database of their own.
pub(crate) async fn play<T: Table>(
    table: T,
    fault: Fault,
    cells: Vec<T::Cell>,
    mistake: Option<&'static str>,
) -> Result<Vec<Finding<T::Cell>>> {
    let mut lane = Lane::start(table, fault, mistake).await?;
    let mut findings = Vec::new();
    for cells in T::deal(cells) {
        findings.extend(lane.play(&cells).await?);
    }
    if lane.mistake.is_none() && violations(&findings).is_empty() {
        invariants::hold(&lane.home, &[&lane.second]).await?;
    }
    Ok(findings)
}

/// What is not as it must be, a line to each cell.
pub(crate) fn violations<C: CrashCell>(findings: &[Finding<C>]) -> Vec<String> {
    findings
        .iter()
        .filter(|finding| !finding.objections.is_empty())
        .map(|finding| format!("{}: {}", finding.cell, finding.objections.join("; ")))
        .collect()
}
