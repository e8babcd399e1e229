//! The flood: every delivery many times over, all at once.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use semel_testkit::client::Answer;
use semel_testkit::{Cluster, Connection, Options, Peer, Program};
use serde_json::Value;
use tokio::time::sleep;

use crate::chance::Chance;
use crate::crowd::{self, Post};
use crate::servers::{Home, Served, serve};

/// How many different keys are delivered.
const KEYS: usize = 10_000;

/// How often each is delivered.
const TIMES: usize = 10;

/// How many senders there are.
const SENDERS: usize = 64;

/// How many senders deliver the same key at once.
const SAME_KEY_SENDERS: usize = 512;

/// How many deliveries bring a known key with another payload, per policy.
const MISMATCHES: usize = 200;

/// The most that the whole may take.
const PATIENCE: Duration = Duration::from_secs(90);

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_repeats_makes_one_run_and_one_effect_per_key() -> Result<()> {
    let cluster = Cluster::start(Options::durable()).await?;
    let home = Home::found(cluster.server()).await?;
    let peer = Peer::start().await?;
    let server = serve(Program::semel()?, &home.url(), "10s").await?;
    let post = "steps:\n  - id: act\n    http: { post: 'PEER/keyed/${{ input.id }}', json: { id: '${{ input.id }}' } }\n    guard: key\n";
    for (name, policy) in [("flood", "reject"), ("lenient", "accept"), ("wary", "hold")] {
        let source = format!(
            "flow: {name}\ntrigger:\n  webhook: {{ auth: none, key: input.id, mismatch: {policy} }}\n{post}"
        );
        home.publish(&server, name, &source.replace("PEER", &peer.url("")))
            .await?;
    }
    let client = home.connect().await?;
    let begun = Instant::now();

    flood(&server, &client, &peer).await?;
    same_key_at_once(&server, &client, &peer).await?;
    for (flow, status) in [("flood", 200), ("lenient", 202), ("wary", 202)] {
        mismatch(&server, &client, flow, status).await?;
    }

    println!("the flood took {:.1} s", begun.elapsed().as_secs_f64());
    ensure!(
        begun.elapsed() < PATIENCE,
        "too slow: {:?}",
        begun.elapsed()
    );
    Ok(())
}

async fn flood(server: &Served, client: &Connection, peer: &Peer) -> Result<()> {
    let begun = Instant::now();
    let mut posts: Vec<Post> = (0..KEYS * TIMES)
        .map(|index| delivery("flood", index % KEYS, &format!("order-{}", index % KEYS), 1))
        .collect();
    Chance::new("flood").shuffle(&mut posts);

    let answers = crowd::send(server, SENDERS, posts).await?;
    let delivered = begun.elapsed();
    until_succeeded(client, KEYS).await?;

    let mut runs: Vec<Option<String>> = vec![None; KEYS];
    let mut firsts = 0;
    for (key, answer) in &answers {
        let run = run_of(answer, 202)?;
        firsts += usize::from(answer.header("idempotency-replayed").is_none());
        let known = runs[*key].get_or_insert_with(|| run.clone());
        ensure!(*known == run, "order-{key} has {known} and {run}");
    }
    ensure!(
        firsts == KEYS,
        "{firsts} of {KEYS} answers say that they are the first"
    );
    ensure!(
        count_runs(client).await? == KEYS,
        "{} runs",
        count_runs(client).await?
    );
    let totals = peer.totals().await?;
    let seen = (totals.effects, totals.calls, totals.keys);
    ensure!(
        seen == (KEYS as u64, KEYS as u64, KEYS as u64),
        "{totals:?}"
    );
    println!(
        "{} deliveries in {:.1} s ({:.0}/s), all runs ended after {:.1} s",
        answers.len(),
        delivered.as_secs_f64(),
        answers.len() as f64 / delivered.as_secs_f64(),
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

async fn same_key_at_once(server: &Served, client: &Connection, peer: &Peer) -> Result<()> {
    let before = count_runs(client).await?;
    let posts = (0..KEYS)
        .map(|_| delivery("flood", 0, "the-one", 1))
        .collect();

    let answers = crowd::send(server, SAME_KEY_SENDERS, posts).await?;
    until_succeeded(client, before + 1).await?;

    let mut runs: Vec<String> = Vec::new();
    for (_, answer) in &answers {
        runs.push(run_of(answer, 202)?);
    }
    runs.sort_unstable();
    runs.dedup();
    ensure!(runs.len() == 1, "{} runs for one key", runs.len());
    ensure!(count_runs(client).await? == before + 1, "one more run");
    ensure!(peer.count("/keyed/the-one").await?.calls == 1, "one call");
    Ok(())
}

async fn mismatch(server: &Served, client: &Connection, flow: &str, status: u16) -> Result<()> {
    let key = format!("mismatch-{flow}");
    let first = vec![delivery(flow, 0, &key, 1)];
    let first = crowd::send(server, 1, first).await?;
    let run = run_of(&first[0].1, 202)?;
    let before = count_runs(client).await?;

    let others = (0..MISMATCHES)
        .map(|index| delivery(flow, 0, &key, index + 2))
        .collect();
    let answers = crowd::send(server, SENDERS, others).await?;

    for (_, answer) in &answers {
        let named = run_of(answer, status)?;
        ensure!(named == run, "{flow}: {named} instead of {run}");
    }
    ensure!(
        count_runs(client).await? == before,
        "{flow}: another payload made a run"
    );
    Ok(())
}

fn delivery(flow: &str, subject: usize, key: &str, version: usize) -> Post {
    Post {
        subject,
        path: format!("/hooks/default/{flow}"),
        body: format!(r#"{{"id":"{key}","version":{version}}}"#),
    }
}

fn run_of(answer: &Answer, status: u16) -> Result<String> {
    ensure!(
        answer.status == status,
        "{}: {}",
        answer.status,
        answer.text()
    );
    let body: Value = answer.json()?;
    let run = body["run"].as_str();
    Ok(run.with_context(|| format!("a run in {body}"))?.to_owned())
}

async fn count_runs(client: &Connection) -> Result<usize> {
    let row = client.query_one("SELECT count(*) FROM runs", &[]).await?;
    Ok(row.get::<_, i64>(0).unsigned_abs() as usize)
}

/// Waits until so many runs have succeeded.
pub(crate) async fn until_succeeded(client: &Connection, wanted: usize) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let succeeded = "SELECT count(*) FROM runs WHERE state = 'succeeded'";
        let row = client.query_one(succeeded, &[]).await?;
        let count = row.get::<_, i64>(0).unsigned_abs() as usize;
        if count >= wanted {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "{count} of {wanted} runs succeeded"
        );
        sleep(Duration::from_millis(20)).await;
    }
}
