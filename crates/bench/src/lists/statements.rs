//! How many statements a page makes and how many buffers they read, by pg_stat_statements.
//!
//! The server's own services make statements as well, all the time. How often each of them comes is
//! measured while nothing is asked, and taken off.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio_postgres::Client;

pub(super) const RESET: &str = "SELECT pg_stat_statements_reset()";

const READ: &str = "
    SELECT s.queryid, s.calls, s.shared_blks_hit + s.shared_blks_read, regexp_replace(s.query, '\\s+', ' ', 'g')
      FROM pg_stat_statements s
      JOIN pg_database d ON d.oid = s.dbid
     WHERE d.datname = current_database() AND s.queryid IS NOT NULL";

/// How long the services are watched alone.
const IDLE: Duration = Duration::from_secs(10);

/// What one page makes.
#[derive(Clone, Debug, Default)]
pub(super) struct Cost {
    pub(super) statements: u64,
    pub(super) buffers: u64,
    /// The statement that read most, for who has to repair it.
    pub(super) costliest: String,
}

/// Counts statements.
pub(super) struct Counter {
    client: Client,
    /// How often each statement comes in a second while nothing is asked.
    idle: HashMap<i64, f64>,
}

impl Counter {
    /// Watches the services for a while.
    pub(super) async fn start(client: Client) -> Result<Self> {
        client
            .batch_execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
            .await
            .context("this PostgreSQL has no pg_stat_statements: install its contrib modules")?;
        client.query_one(RESET, &[]).await.context(
            "pg_stat_statements is not loaded: start PostgreSQL with \
             shared_preload_libraries = 'pg_stat_statements'",
        )?;
        tokio::time::sleep(IDLE).await;
        let rows = client.query(READ, &[]).await?;
        let rate = |calls: i64| calls as f64 / IDLE.as_secs_f64();
        let idle = rows
            .iter()
            .map(|row| (row.get(0), rate(row.get(1))))
            .collect();
        Ok(Self { client, idle })
    }

    /// Begins to count.
    pub(super) async fn begin(&self) -> Result<Instant> {
        self.client.query_one(RESET, &[]).await?;
        Ok(Instant::now())
    }

    /// What each of so many calls cost.
    pub(super) async fn end(&self, begun: Instant, calls: usize) -> Result<Cost> {
        let elapsed = begun.elapsed().as_secs_f64();
        let mut cost = Cost::default();
        let mut most = 0.0;
        for row in self.client.query(READ, &[]).await? {
            let (id, made, buffers): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
            let idle = self.idle.get(&id).copied().unwrap_or_default();
            let ours = (made as f64 - idle * elapsed) / calls as f64;
            // What came now and then is a service's.
            if ours < 0.5 {
                continue;
            }
            cost.statements += ours.round() as u64;
            let read = buffers as f64 / made as f64 * ours;
            cost.buffers += read.round() as u64;
            if read > most {
                most = read;
                let text: &str = row.get(3);
                cost.costliest = text.trim().chars().take(300).collect();
            }
        }
        Ok(cost)
    }
}
