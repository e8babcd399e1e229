//! Checks that the tree keeps the promises that its documents make about it.
//!
//! Each check lists everything it objects to, so that one run shows all there is to fix.

mod binaries;
mod cells;
mod circles;
mod crates;
mod faults;
mod invariants;
mod layers;
mod logs;
mod modules;
mod namespaces;
mod packaging;
mod promises;
mod rehearsals;
mod security;
mod seeded;
mod sources;
mod strangers_json;
mod tls;
mod tree;
mod waiting;
mod wakes;
mod words;

use anyhow::Result;

/// Fails with all objections, one to a line.
fn expect_none(objections: &[String]) -> Result<()> {
    anyhow::ensure!(objections.is_empty(), "\n{}\n", objections.join("\n"));
    Ok(())
}
