//! Whether there is room for what is to be filled.

use std::path::Path;

use anyhow::{Result, ensure};
use tokio_postgres::Client;

/// What a run takes with everything that belongs to it, indexes and log among it.
const BYTES_PER_RUN: u64 = 4_500;

/// What a database takes before its first run.
const BYTES_MIN: u64 = 200 << 20;

/// How much a number of runs needs.
pub(crate) fn needed(runs: u64) -> u64 {
    BYTES_MIN + runs * BYTES_PER_RUN
}

/// Refuses to begin what would fill the disk. A database on another machine is not looked at.
pub(super) async fn check(client: &Client, runs: u64) -> Result<()> {
    let row = client.query_one("SHOW data_directory", &[]).await?;
    let directory: String = row.get(0);
    let Some(free) = free(Path::new(&directory)) else {
        eprintln!("the data of this database are not on this machine: see to the room yourself");
        return Ok(());
    };
    let needed = needed(runs);
    ensure!(
        free >= needed,
        "{runs} runs need {} GB, and only {} GB are free: ask for fewer with --runs, or use another disk",
        needed >> 30,
        free >> 30
    );
    Ok(())
}

/// How many bytes are free where a directory is.
pub(crate) fn free(directory: &Path) -> Option<u64> {
    let space = rustix::fs::statvfs(directory).ok()?;
    Some(space.f_bavail * space.f_frsize)
}
