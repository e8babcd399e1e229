//! A long list under fire: one run, many items, servers that die in the middle, and what an item
//! costs.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use hyper::Method;
use semel_testkit::{Cluster, Connection, Peer, Program, until};
use serde_json::{Value, json};

use crate::campaign::{keep_figures, scaled, size, storage};
use crate::invariants;
use crate::servers::{Home, Served, serve};

/// How many items the list has, unless `SEMEL_LIST_ITEMS` says otherwise.
const ITEMS: usize = 500;

/// How many items the short list has that memory is compared with.
const FEW: usize = 100;

/// How often the server is killed, each time with as many more items done, unless `SEMEL_LIST_KILLS` says
/// otherwise: with every change, and in a campaign.
const KILLS: usize = 2;
const KILLS_FULL: usize = 20;

/// The servers' lease.
const LEASE: &str = "2s";

/// How many items run at the same time.
const PARALLEL: usize = 64;

/// How much more memory a server may take for the long list than for the short one. A hundred
/// thousand items would be ten times as much if they were held.
const MORE_KIB_MAX: u64 = 48 * 1024;

fn flow(peer: &Peer) -> String {
    format!(
        "flow: list
trigger:
  api: {{}}
retry: {{ attempts: 20, delay: 100ms, max_delay: 2s, within: 1h }}
steps:
  - id: read
    http: {{ get: '{}${{{{ input.count }}}}' }}
  - id: each
    foreach:
      in: steps.read.result
      key: string(item.id)
      parallel: {PARALLEL}
      steps:
        - id: act
          http: {{ post: '{}${{{{ run.key }}}}', json: '${{{{ item }}}}' }}
          guard: key
result: steps.each.result
",
        peer.url("/list/"),
        peer.url("/keyed/"),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn no_item_of_a_long_list_is_done_twice_or_left_out() -> Result<()> {
    let wanted = size("SEMEL_LIST_ITEMS", ITEMS)?;
    let kills = scaled("SEMEL_LIST_KILLS", KILLS, KILLS_FULL)?;
    let cluster = Cluster::start(storage()).await?;
    let home = Home::found(cluster.server()).await?;
    let peer = Peer::start().await?;
    let outputs = tempfile::tempdir()?;
    let program =
        || -> Result<Program> { Ok(Program::semel()?.env("SEMEL_RESOURCES", outputs.path())) };
    let mut server = serve(program()?, &home.url(), LEASE).await?;
    home.publish(&server, "list", &flow(&peer)).await?;
    let client = home.connect().await?;

    // The short list: what a server takes for a few items, and what an item costs.
    let short = start(&home, &server, "short", FEW).await?;
    until_effects(&peer, FEW as u64).await?;
    until_ended(&client, &short).await?;
    let few_kib = peak_kib(&server)?;
    let effects = peer.totals().await?.effects;
    ensure!(effects == FEW as u64, "{effects} effects of {FEW}");

    let before = Costs::read(&client).await?;
    let begun = Instant::now();
    let run = start(&home, &server, "long", wanted).await?;
    let mut many_kib = 0;
    for kill in 1..=kills {
        let done = (FEW + wanted * kill / (kills + 1)) as u64;
        until_effects(&peer, done).await?;
        many_kib = many_kib.max(peak_kib(&server)?);
        server.process.sigkill()?;
        server = serve(program()?, &home.url(), LEASE).await?;
    }
    until_effects(&peer, (FEW + wanted) as u64).await?;
    until_ended(&client, &run).await?;
    many_kib = many_kib.max(peak_kib(&server)?);
    let took = begun.elapsed();
    let after = Costs::read(&client).await?;

    let row = client
        .query_one(
            "SELECT state::text, result::text FROM runs WHERE key = convert_to($1, 'UTF8')",
            &[&"long"],
        )
        .await?;
    let (state, result): (String, Option<String>) = (row.get(0), row.get(1));
    let result: Value = serde_json::from_str(&result.unwrap_or_default()).unwrap_or_default();
    let effects = peer.totals().await?.effects - FEW as u64;
    let again = "SELECT count(*) FROM effects WHERE attempt > 1";
    let again: i64 = client.query_one(again, &[]).await?.get(0);
    let per_item = |whole: i64| (whole as f64 / wanted as f64 * 100.0).round() / 100.0;
    let figures = json!({
        "items": wanted,
        "kills": kills,
        "seconds": took.as_secs(),
        "effects": effects,
        "performed_more_than_once": again,
        "peak_kib_for_100_items": few_kib,
        "peak_kib": many_kib,
        "commits_per_item": per_item(after.commits - before.commits),
        "wal_bytes_per_item": per_item(after.wal_bytes - before.wal_bytes),
        "table_bytes_per_item": per_item(after.table_bytes - before.table_bytes),
    });
    println!("{figures:#}");
    ensure!(state == "succeeded", "the run is {state}");
    ensure!(result["succeeded"] == json!(wanted), "{result}");
    ensure!(effects == wanted as u64, "{effects} effects of {wanted}");
    ensure!(
        many_kib < few_kib + MORE_KIB_MAX,
        "{many_kib} KiB for {wanted} items, {few_kib} KiB for {FEW}"
    );
    keep_figures("long-list", &figures)?;
    invariants::hold(&home, &[&server]).await
}

async fn start(home: &Home, server: &Served, key: &str, count: usize) -> Result<String> {
    let body = json!({ "key": key, "input": { "count": count } }).to_string();
    let path = "/v1/flows/list/runs";
    let bearer = format!("Bearer {}", home.token());
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
    ];
    let sent = server
        .client
        .send(Method::POST, path, &headers, body.into());
    let answer = sent.await?;
    ensure!(answer.status.is_success(), "{}", answer.text());
    let answer: Value = answer.json()?;
    let run = answer["run"].as_str().context("a run")?;
    Ok(run.to_owned())
}

async fn ended(client: &Connection, run: &str) -> Result<bool> {
    let ended = "SELECT ended_at IS NOT NULL FROM runs WHERE id = replace($1, 'run_', '')::uuid";
    Ok(client.query_one(ended, &[&run]).await?.get(0))
}

async fn until_ended(client: &Connection, run: &str) -> Result<()> {
    let look = async || ended(client, run).await;
    let over = until("the list to end", look, |is_over| *is_over).await;
    if over.is_err() {
        let items = progress(client, run).await?;
        over.context(items)?;
    }
    Ok(())
}

/// Waits until the destination has acted so often. Each step has the patience of a whole wait. The
/// database is not asked: its commits are counted.
async fn until_effects(peer: &Peer, wanted: u64) -> Result<()> {
    let mut seen = 0;
    while seen < wanted {
        let what = format!("{wanted} effects, not {seen}");
        let look = async || -> Result<u64> { Ok(peer.totals().await?.effects) };
        let before = seen;
        seen = until(&what, look, |now| *now > before).await?;
    }
    Ok(())
}

/// The states of the items, to explain why it took too long.
async fn progress(client: &Connection, run: &str) -> Result<String> {
    let states = "SELECT state::text, count(*) FROM child_runs
                   WHERE parent_id = replace($1, 'run_', '')::uuid GROUP BY state";
    let rows = client.query(states, &[&run]).await?;
    let counts = rows.iter().map(|row| {
        let (state, count): (String, i64) = (row.get(0), row.get(1));
        format!("{count} {state}")
    });
    Ok(counts.collect::<Vec<_>>().join(", "))
}

/// What the database has done so far.
struct Costs {
    commits: i64,
    wal_bytes: i64,
    table_bytes: i64,
}

impl Costs {
    async fn read(client: &Connection) -> Result<Self> {
        let read = "SELECT (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()),
                           (pg_current_wal_lsn() - '0/0')::int8, pg_database_size(current_database())";
        let row = client.query_one(read, &[]).await?;
        Ok(Self {
            commits: row.get(0),
            wal_bytes: row.get(1),
            table_bytes: row.get(2),
        })
    }
}

/// The most memory that a server has had.
fn peak_kib(server: &Served) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.process.id()))?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(kib.context("a peak")?.parse()?)
}
