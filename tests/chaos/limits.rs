//! A destination that hangs delays only the runs that call it.

use std::time::Duration;

use anyhow::{Result, ensure};
use hyper::Method;
use semel_testkit::{Cluster, Connection, Options, Peer, Program, patience, until};
use serde_json::json;

use crate::campaign::{is_measured, scaled};
use crate::crowd::{self, Post};
use crate::invariants;
use crate::queries::{SUCCEEDED, count, until_count};
use crate::servers::{Home, Served, serve};

/// How many runs call the destination that hangs: about as many as a server has room for.
const HUNG: usize = 1_000;

/// How many runs call the other one, alone and beside those, unless `SEMEL_LIMITS_RUNS` says otherwise:
/// with every change, and in a campaign.
const OTHERS: usize = 100;
const OTHERS_FULL: usize = 400;

/// How many exchanges with one destination are allowed at once.
const CONCURRENCY: usize = 64;

/// How many connections the sender has.
const CONNECTIONS: usize = 4;

/// How much longer the other's runs may take, at the 99th of a hundred, where it is measured.
const RATIO_MAX: f64 = 2.0;

/// What the machine's own noise comes to: a time below it is taken for it.
const NOISE_MS: f64 = 50.0;

#[tokio::test(flavor = "multi_thread")]
async fn a_destination_that_hangs_delays_no_other() -> Result<()> {
    let others = scaled("SEMEL_LIMITS_RUNS", OTHERS, OTHERS_FULL)?;
    let cluster = Cluster::start(Options::quick()).await?;
    let home = Home::found(cluster.server()).await?;
    let server = serve(Program::semel()?, &home.url(), "10s").await?;
    let (stuck, fine) = (Peer::start().await?, Peer::start().await?);
    for (name, peer, path) in [("stuck", &stuck, "/hang/plain"), ("fine", &fine, "/plain")] {
        let connection = json!({ "connection": {
            "to": { "http": { "base_url": peer.url("") } },
            "limits": { "concurrency": CONCURRENCY } } });
        let at = format!("/v1/connections/{name}");
        home.command(&server, Method::PUT, &at, connection.to_string())
            .await?;
        home.publish(&server, name, &flow(name, path)).await?;
    }
    let client = home.connect().await?;

    deliver(&server, "fine", "warm", others / 4).await?;
    until_ended(&client, "warm", others / 4).await?;
    deliver(&server, "fine", "alone", others).await?;
    let alone = until_ended(&client, "alone", others).await?;
    deliver(&server, "stuck", "hung", HUNG).await?;
    stuck.until_held(CONCURRENCY / 2, patience()).await?;
    deliver(&server, "fine", "beside", others).await?;
    let beside = until_ended(&client, "beside", others).await?;

    // All others have ended while those still hang.
    let held = stuck.until_held(0, Duration::ZERO).await?.len();
    println!("p99 alone {alone:.0} ms, beside {held} that hang {beside:.0} ms");
    ensure!(
        (CONCURRENCY / 2..=CONCURRENCY).contains(&held),
        "{held} exchanges at once, where {CONCURRENCY} are allowed"
    );
    let ratio = beside / alone.max(NOISE_MS);
    ensure!(
        !is_measured() || ratio <= RATIO_MAX,
        "p99 rose from {alone:.0} ms to {beside:.0} ms"
    );
    invariants::hold(&home, &[&server]).await
}

/// How many runs wait for a destination that takes one a second, and how many of them are through when the others are
/// looked at: these have waited for as many seconds.
const QUEUED: usize = 24;
const THROUGH: usize = 16;

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_for_the_rate_of_its_connection_writes_nothing_meanwhile() -> Result<()> {
    let cluster = Cluster::start(Options::quick()).await?;
    let home = Home::found(cluster.server()).await?;
    let server = serve(Program::semel()?, &home.url(), "10s").await?;
    let peer = Peer::start().await?;
    let connection = json!({ "connection": {
        "to": { "http": { "base_url": peer.url("") } },
        "limits": { "per_second": 1 } } });
    let at = "/v1/connections/slow";
    home.command(&server, Method::PUT, at, connection.to_string())
        .await?;
    home.publish(&server, "slow", &flow("slow", "/plain"))
        .await?;
    let client = home.connect().await?;

    deliver(&server, "slow", "waits", QUEUED).await?;
    let through = async || count(&client, SUCCEEDED).await;
    until("most of the runs", through, |ended| *ended >= THROUGH).await?;
    let broken = invariants::list_breaches(&home).await?;

    ensure!(broken.is_empty(), "{broken:?}");
    Ok(())
}

fn flow(name: &str, path: &str) -> String {
    format!(
        "flow: {name}\ntrigger:\n  webhook: {{ auth: none, key: input.id }}\n\
         retry: {{ attempts: 50, delay: 1s, max_delay: 5s, within: 1h }}\n\
         steps:\n  - id: act\n    http: {{ connection: {name}, post: '{path}/${{{{ input.id }}}}', \
         json: {{}}, timeout: 5m }}\n    guard: review\n"
    )
}

async fn deliver(server: &Served, flow: &str, name: &str, count: usize) -> Result<()> {
    let post = |subject| Post {
        subject,
        path: format!("/hooks/default/{flow}"),
        body: format!(r#"{{"id":"{name}-{subject}"}}"#),
    };
    let answers = crowd::send(server, CONNECTIONS, (0..count).map(post).collect()).await?;
    for (_, answer) in answers {
        ensure!(answer.status.is_success(), "{}", answer.text());
    }
    Ok(())
}

/// Waits until runs have succeeded; how long the slowest hundredth took, in milliseconds.
async fn until_ended(client: &Connection, name: &str, count: usize) -> Result<f64> {
    let ended = format!(
        "SELECT count(*) FROM runs
          WHERE state = 'succeeded' AND convert_from(key, 'UTF8') LIKE '{name}-%'"
    );
    until_count(client, &ended, count).await?;
    let took = "SELECT percentile_cont(0.99) WITHIN GROUP (
                           ORDER BY extract(epoch FROM ended_at - accepted_at) * 1000)::float8
                  FROM runs WHERE convert_from(key, 'UTF8') LIKE $1";
    let keys = format!("{name}-%");
    Ok(client.query_one(took, &[&keys]).await?.get(0))
}
