//! What a waiting run costs: its rows, and no query.

use std::time::Duration;

use anyhow::{Result, ensure};
use semel_testkit::{Cluster, Connection, Options, Program, let_pass, until};
use serde_json::json;

use crate::campaign::{is_measured, keep_figures, size};
use crate::crowd::{self, Post};
use crate::invariants;
use crate::queries::until_count;
use crate::servers::{Home, serve};

/// How many runs sleep, unless `SEMEL_SLEEPERS` says otherwise.
const SLEEPERS: usize = 3_000;

/// How many senders deliver.
const SENDERS: usize = 32;

/// How long the server is watched with all runs asleep: as long as a service may pause that looked at them.
const WATCHED: Duration = Duration::from_secs(10);

/// How long it is watched without any: with every change, and in a campaign.
const ALONE: Duration = Duration::from_secs(4);
const ALONE_FULL: Duration = WATCHED;

/// How much busier the server may be with sleepers than without: the machine's own noise, and far
/// less than one look at each of them would be.
const RATIO_MAX: f64 = 1.5;

/// PostgreSQL counts what a connection did up to ten seconds after the connection fell idle.
const COUNTED_LATE: Duration = Duration::from_secs(12);

/// The most bytes that a sleeper may take in all tables and indexes.
const BYTES_MAX: i64 = 4_096;

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
    let alone = match is_measured() {
        true => ALONE_FULL,
        false => ALONE,
    };

    settle_counters().await;
    let idle = commits_while(&client, alone).await?;
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
    let sleeping = "SELECT count(*) FROM queue WHERE stage = 'waiting' AND holder IS NULL";
    until_count(&client, sleeping, wanted).await?;
    settle_counters().await;
    // Commits that PostgreSQL counts late may be in the first window.
    let look = async || commits_while(&client, WATCHED).await;
    let longer = WATCHED.as_secs_f64() / alone.as_secs_f64();
    let most = idle as f64 * longer * RATIO_MAX + 5.0;
    let is_quiet = |commits: &i64| (*commits as f64) < most;
    let asleep = until("a server as quiet as without sleepers", look, is_quiet).await?;
    let after = bytes(&client).await?;

    let per_run = (after - before) / i64::try_from(wanted)?;
    let hourly = |commits: i64, watched: Duration| commits * 3600 / watched.as_secs() as i64;
    let figures = json!({
        "runs": wanted,
        "bytes_per_waiting_run": per_run,
        "commits_per_hour_of_a_server_with_nobody_asleep": hourly(idle, alone),
        "commits_per_hour_of_a_server_with_all_asleep": hourly(asleep, WATCHED),
    });
    println!("{figures:#}");
    ensure!(per_run < BYTES_MAX, "{per_run} bytes a run");
    invariants::hold(&home, &[&server]).await?;
    keep_figures("sleepers", &figures)
}

/// For figures, lets PostgreSQL count everything that was done so far.
async fn settle_counters() {
    if is_measured() {
        let late = "PostgreSQL counts what a connection did up to ten seconds after it fell idle";
        let_pass(COUNTED_LATE, late).await;
    }
}

/// How many transactions the database commits for others within a while.
async fn commits_while(client: &Connection, watched: Duration) -> Result<i64> {
    let read = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()";
    let before: i64 = client.query_one(read, &[]).await?.get(0);
    let_pass(watched, "commits are counted by PostgreSQL in real time").await;
    let after: i64 = client.query_one(read, &[]).await?.get(0);
    Ok(after - before)
}

/// What all tables and indexes take.
async fn bytes(client: &Connection) -> Result<i64> {
    client.batch_execute("CHECKPOINT").await?;
    let read = "SELECT pg_database_size(current_database())";
    Ok(client.query_one(read, &[]).await?.get(0))
}
