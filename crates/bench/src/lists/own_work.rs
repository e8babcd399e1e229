//! What the statements of the server's own work take: its services, which nobody asks for, and its workers.
//!
//! A server is started anew, so that what it does first counts as well, and moves what is due while it is watched. It
//! removes what has expired, so this comes after everything that reads the database as it was filled.

use std::time::Duration;

use anyhow::{Result, ensure};
use semel_testkit::semel::serve;
use tokio_postgres::Client;

use super::Listing;
use super::statements::RESET;

/// How long it is watched. Every service has a pass within 30 s; the walk through the history and the removal of acts
/// rest longer, and are seen once, at the start.
pub(super) const WATCHED: Duration = Duration::from_secs(180);

/// How many runs it moves at a time.
pub(super) const CAPACITY: &str = "64";

const READ: &str = "
    SELECT s.calls, s.mean_exec_time, s.max_exec_time, s.rows,
           (s.shared_blks_hit + s.shared_blks_read) / greatest(s.calls, 1),
           trim(regexp_replace(s.query, '\\s+', ' ', 'g'))
      FROM pg_stat_statements s
      JOIN pg_database d ON d.oid = s.dbid
     WHERE d.datname = current_database() AND s.query NOT LIKE '%pg_stat_statements%'
     ORDER BY s.max_exec_time DESC";

/// What one statement took.
pub(super) struct StatementCost {
    pub(super) calls: i64,
    pub(super) mean_ms: f64,
    pub(super) max_ms: f64,
    pub(super) rows: i64,
    pub(super) buffers: i64,
    pub(super) text: String,
}

/// Watches a server at work, slowest statement first.
pub(super) async fn watch(
    listing: &Listing,
    url: &str,
    client: &Client,
) -> Result<Vec<StatementCost>> {
    client.query_one(RESET, &[]).await?;
    let arguments = ["--capacity", CAPACITY];
    let (process, _) = serve(listing.program()?, url, "127.0.0.1:0", &arguments).await?;
    eprintln!("the services, for {} s", WATCHED.as_secs());
    tokio::time::sleep(WATCHED).await;
    let read = client.query(READ, &[]).await?;
    ensure!(
        !read.is_empty(),
        "no statement was made:\n{}",
        process.stderr()
    );
    let costs = read.iter().map(|row| StatementCost {
        calls: row.get(0),
        mean_ms: row.get(1),
        max_ms: row.get(2),
        rows: row.get(3),
        buffers: row.get(4),
        text: row.get::<_, &str>(5).chars().take(140).collect(),
    });
    Ok(costs.collect())
}
