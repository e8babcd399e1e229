//! What a waiting run costs: its rows, and no query.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use semel_testkit::{Cluster, Connection, Options, Program};
use serde_json::json;
use tokio::time::sleep;

use crate::campaign::{keep_figures, size};
use crate::crowd::{self, Post};
use crate::servers::{Home, serve};

/// How many runs sleep, unless `SEMEL_SLEEPERS` says otherwise.
const SLEEPERS: usize = 3_000;

/// How many senders deliver.
const SENDERS: usize = 32;

/// How long the server is watched, without sleeping runs and with all of them.
const WATCHED: Duration = Duration::from_secs(10);

/// How much busier the server may be with sleepers than without: the machine's own noise, and far
/// less than one look at each of them would be.
const RATIO_MAX: f64 = 1.5;

/// PostgreSQL counts what a connection did up to ten seconds after the connection fell idle.
const COUNTED_LATE: Duration = Duration::from_secs(12);

/// The most bytes that a sleeper may take in all tables and indexes.
const BYTES_MAX: i64 = 4_096;

/// How long the runs may take to fall asleep.
const PATIENCE: Duration = Duration::from_secs(120);

const FLOW: &str = "flow: sleeper
trigger:
  webhook: { auth: none, key: input.id }
steps:
  - { id: long, wait: { for: 60d } }
";

#[tokio::test(flavor = "multi_thread")]
async fn sleeping_runs_cost_only_their_rows() -> Result<()> {
    let wanted = size("SEMEL_SLEEPERS", SLEEPERS)?;
    let cluster = Cluster::start(Options::quick()).await?;
    let home = Home::found(cluster.server()).await?;
    let program = Program::semel()?.env("SEMEL_HOOK_RATE", "0");
    let server = serve(program, &home.url(), "30s").await?;
    home.publish(&server, "sleeper", FLOW).await?;
    let client = home.connect().await?;
    sleep(Duration::from_secs(3)).await;

    let idle = commits_while(&client, WATCHED).await?;
    let before = bytes(&client).await?;
    let posts = (0..wanted).map(|number| {
        let path = "/hooks/default/sleeper".to_owned();
        let body = format!(r#"{{"id":"sleeper-{number:07}"}}"#);
        Post {
            subject: number,
            path,
            body,
        }
    });
    crowd::send(&server, SENDERS, posts.collect()).await?;
    until_asleep(&client, wanted).await?;
    sleep(COUNTED_LATE).await;
    let asleep = commits_while(&client, WATCHED).await?;
    let after = bytes(&client).await?;

    let per_run = (after - before) / i64::try_from(wanted)?;
    let hourly = |commits: i64| commits * 3600 / WATCHED.as_secs() as i64;
    let figures = json!({
        "runs": wanted,
        "bytes_per_waiting_run": per_run,
        "commits_per_hour_of_a_server_with_nobody_asleep": hourly(idle),
        "commits_per_hour_of_a_server_with_all_asleep": hourly(asleep),
    });
    println!("{figures:#}");
    ensure!(per_run < BYTES_MAX, "{per_run} bytes a run");
    ensure!(
        (asleep as f64) < idle as f64 * RATIO_MAX + 5.0,
        "{asleep} commits with sleepers, {idle} without"
    );
    keep_figures("sleepers", &figures)
}

/// How many transactions the database commits for others within a while.
async fn commits_while(client: &Connection, watched: Duration) -> Result<i64> {
    let read = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()";
    let before: i64 = client.query_one(read, &[]).await?.get(0);
    sleep(watched).await;
    let after: i64 = client.query_one(read, &[]).await?.get(0);
    Ok(after - before)
}

/// What all tables and indexes take.
async fn bytes(client: &Connection) -> Result<i64> {
    client.batch_execute("CHECKPOINT").await?;
    let read = "SELECT pg_database_size(current_database())";
    Ok(client.query_one(read, &[]).await?.get(0))
}

async fn until_asleep(client: &Connection, wanted: usize) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let asleep = "SELECT count(*) FROM queue WHERE stage = 'waiting' AND holder IS NULL";
        let asleep: i64 = client.query_one(asleep, &[]).await?.get(0);
        if asleep >= i64::try_from(wanted)? {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{asleep} of {wanted} sleep");
        sleep(Duration::from_millis(100)).await;
    }
}
