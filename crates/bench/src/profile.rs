//! What each statement costs, by pg_stat_statements.

use anyhow::{Context, Result};
use semel_testkit::Options;

use crate::ground::{self, Ground};

/// How many statements are shown.
const STATEMENTS_MAX: i64 = 20;

const TOP: &str = "
    SELECT s.calls, s.rows, s.total_exec_time + s.total_plan_time, s.wal_bytes::float8,
           regexp_replace(s.query, '\\s+', ' ', 'g')
      FROM pg_stat_statements s
      JOIN pg_database d ON d.oid = s.dbid
     WHERE d.datname = current_database()
     ORDER BY 3 DESC
     LIMIT $1";

/// A cluster that counts.
pub(crate) fn options() -> Options {
    ground::options()
        .with("shared_preload_libraries", "pg_stat_statements")
        .with("pg_stat_statements.track", "top")
}

/// The costliest statements of a database.
pub(crate) async fn table(ground: &Ground, database: &str) -> Result<String> {
    let client = ground.connect(database).await?;
    client
        .batch_execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        .await
        .context("this PostgreSQL has no pg_stat_statements")?;
    let mut text = format!("{database}: calls, rows, ms in all, µs per call, log bytes per call\n");
    for row in client.query(TOP, &[&STATEMENTS_MAX]).await? {
        let (calls, rows, ms): (i64, i64, f64) = (row.get(0), row.get(1), row.get(2));
        let (log, statement): (f64, &str) = (row.get(3), row.get(4));
        let each = ms * 1e3 / calls as f64;
        let statement: String = statement.trim().chars().take(90).collect();
        text.push_str(&format!(
            "{calls:>8} {rows:>8} {ms:>10.1} {each:>8.1} {:>8.0}  {statement}\n",
            log / calls as f64
        ));
    }
    Ok(text)
}
