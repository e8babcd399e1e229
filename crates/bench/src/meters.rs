//! What a slice cost: processor time by process, commits and bytes of the log.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tokio_postgres::Client;

/// Readings of everything that only ever grows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// Seconds of the server under measurement.
    pub(crate) server_s: f64,
    /// Seconds of all of PostgreSQL.
    pub(crate) postgres_s: f64,
    /// Seconds of this process.
    pub(crate) bench_s: f64,
    /// Transactions that wrote something.
    pub(crate) commits: i64,
    /// Bytes of the write-ahead log.
    pub(crate) wal_bytes: i64,
}

impl Reading {
    /// What was used since an earlier reading.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            server_s: self.server_s - earlier.server_s,
            postgres_s: self.postgres_s - earlier.postgres_s,
            bench_s: self.bench_s - earlier.bench_s,
            commits: self.commits - earlier.commits,
            wal_bytes: self.wal_bytes - earlier.wal_bytes,
        }
    }
}

/// Reads the meters of one cluster.
pub(crate) struct Meters {
    admin: Client,
    postmaster: u32,
    ticks_per_s: f64,
}

impl Meters {
    /// Meters over the cluster of a directory, read through a connection of its own.
    pub(crate) fn new(admin: Client, home: &Path) -> Result<Self> {
        let pid_file: PathBuf = home.join("data/postmaster.pid");
        let text = fs::read_to_string(&pid_file)?;
        let postmaster = text.lines().next().unwrap_or_default().trim().parse()?;
        Ok(Self {
            admin,
            postmaster,
            ticks_per_s: rustix::param::clock_ticks_per_second() as f64,
        })
    }

    /// Reads everything. The server is a process of its own, or none.
    pub(crate) async fn read(&self, server: Option<u32>) -> Result<Reading> {
        // Every transaction that writes takes a number, at once and exactly; the statistics views
        // count reads as well and lag behind.
        let row = self
            .admin
            .query_one(
                "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::int8,
                        (pg_current_wal_insert_lsn() - '0/0')::int8",
                &[],
            )
            .await?;
        let server_s = match server {
            Some(pid) => self.seconds(pid, false)?,
            None => 0.0,
        };
        Ok(Reading {
            server_s,
            postgres_s: self.postgres()?,
            bench_s: self.seconds(std::process::id(), false)?,
            commits: row.get(0),
            wal_bytes: row.get(1),
        })
    }

    fn postgres(&self) -> Result<f64> {
        let mut seconds = self.seconds(self.postmaster, true)?;
        for entry in fs::read_dir("/proc")?.flatten() {
            let name = entry.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            // A process that ends meanwhile is counted with its parent next time.
            if let Ok(fields) = stat(pid)
                && fields.get(1) == Some(&f64::from(self.postmaster))
            {
                seconds += (fields[11] + fields[12]) / self.ticks_per_s;
            }
        }
        Ok(seconds)
    }

    fn seconds(&self, pid: u32, with_children: bool) -> Result<f64> {
        let fields = stat(pid).with_context(|| format!("process {pid}"))?;
        let own = fields[11] + fields[12];
        let children = fields[13] + fields[14];
        let ticks = if with_children { own + children } else { own };
        Ok(ticks / self.ticks_per_s)
    }
}

/// The fields of `/proc/PID/stat` behind the name: state, parent and so on.
fn stat(pid: u32) -> Result<Vec<f64>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, behind) = text.rsplit_once(')').context("a name in brackets")?;
    let fields = behind.split_whitespace();
    Ok(fields.map(|field| field.parse().unwrap_or(0.0)).collect())
}

/// The middle of some values.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[odd / 2],
        even => (sorted[even / 2 - 1] + sorted[even / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_an_even_number_lies_between_two() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
    }
}
