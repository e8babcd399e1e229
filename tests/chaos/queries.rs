//! Questions to the database of an installation.

use anyhow::Result;
use semel_testkit::{Connection, until};

/// Runs that have not come to rest.
pub(crate) const ACTIVE: &str = "SELECT count(*) FROM runs WHERE state = 'active'";

/// Runs that have not ended.
pub(crate) const UNENDED: &str = "SELECT count(*) FROM runs WHERE ended_at IS NULL";

/// Runs that have succeeded.
pub(crate) const SUCCEEDED: &str = "SELECT count(*) FROM runs WHERE state = 'succeeded'";

/// The number that a statement returns.
pub(crate) async fn count(client: &Connection, sql: &str) -> Result<usize> {
    let row = client.query_one(sql, &[]).await?;
    Ok(usize::try_from(row.get::<_, i64>(0))?)
}

/// Waits until a statement counts nothing.
pub(crate) async fn until_none(client: &Connection, sql: &str) -> Result<()> {
    until_count(client, sql, 0).await
}

/// Waits until a statement counts so many. Each step towards the number has the patience of a whole
/// wait, so that a campaign may wait for any number.
pub(crate) async fn until_count(client: &Connection, sql: &str, wanted: usize) -> Result<()> {
    let mut found = count(client, sql).await?;
    while found != wanted {
        let (before, what) = (found, format!("{wanted} instead of {found} by {sql}"));
        let look = async || count(client, sql).await;
        let is_nearer = |now: &usize| now.abs_diff(wanted) < before.abs_diff(wanted);
        found = until(&what, look, is_nearer).await?;
    }
    Ok(())
}
