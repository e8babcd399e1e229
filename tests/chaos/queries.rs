//! Questions to the database of an installation.

use std::time::Duration;

use anyhow::{Result, ensure};
use semel_testkit::Connection;
use tokio::time::{Instant, sleep};

/// How often the database is asked.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Runs that have not come to rest.
pub(crate) const ACTIVE: &str = "SELECT count(*) FROM runs WHERE state = 'active'";

/// Runs that have not ended.
pub(crate) const UNENDED: &str = "SELECT count(*) FROM runs WHERE ended_at IS NULL";

/// The number that a statement returns.
pub(crate) async fn count(client: &Connection, sql: &str) -> Result<usize> {
    let row = client.query_one(sql, &[]).await?;
    Ok(usize::try_from(row.get::<_, i64>(0))?)
}

/// Waits until a statement counts nothing.
pub(crate) async fn until_none(client: &Connection, sql: &str, within: Duration) -> Result<()> {
    let deadline = Instant::now() + within;
    loop {
        let left = count(client, sql).await?;
        if left == 0 {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{left} are left of: {sql}");
        sleep(LOOK_EVERY).await;
    }
}
