//! The flood: every delivery many times over, all at once.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use semel_testkit::client::Answer;
use semel_testkit::{Chance, Cluster, Connection, Peer, Program};
use serde_json::Value;

use crate::campaign::{scaled, storage};
use crate::crowd::{self, Post};
use crate::invariants;
use crate::queries::{SUCCEEDED, count, until_count};
use crate::servers::{Home, Served, serve};

/// How many different keys are delivered, and how often the one that all senders deliver at once, unless
/// `SEMEL_FLOOD_KEYS` says otherwise: with every change, and in a campaign.
const KEYS: usize = 1_000;
const KEYS_FULL: usize = 10_000;

/// How often each is delivered.
const TIMES: usize = 10;

/// How many senders there are.
const SENDERS: usize = 64;

/// How many senders deliver the same key at once.
const SAME_KEY_SENDERS: usize = 512;

/// How many deliveries bring a known key with another payload, per policy.
const MISMATCHES: usize = 200;

const RUNS: &str = "SELECT count(*) FROM runs";

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_repeats_makes_one_run_and_one_effect_per_key() -> Result<()> {
    let keys = scaled("SEMEL_FLOOD_KEYS", KEYS, KEYS_FULL)?;
    let cluster = Cluster::start(storage()).await?;
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

    flood(&server, &client, &peer, keys).await?;
    same_key_at_once(&server, &client, &peer, keys).await?;
    for (flow, status) in [("flood", 200), ("lenient", 202), ("wary", 202)] {
        mismatch(&server, &client, flow, status).await?;
    }

    println!("the flood took {:.1} s", begun.elapsed().as_secs_f64());
    invariants::hold(&home, &[&server]).await
}

async fn flood(server: &Served, client: &Connection, peer: &Peer, keys: usize) -> Result<()> {
    let begun = Instant::now();
    let mut posts: Vec<Post> = (0..keys * TIMES)
        .map(|index| delivery("flood", index % keys, &format!("order-{}", index % keys), 1))
        .collect();
    Chance::new("flood").shuffle(&mut posts);

    let answers = crowd::send(server, SENDERS, posts).await?;
    let delivered = begun.elapsed();
    until_count(client, SUCCEEDED, keys).await?;

    let mut runs: Vec<Option<String>> = vec![None; keys];
    let mut firsts = 0;
    for (key, answer) in &answers {
        let run = run_of(answer, 202)?;
        firsts += usize::from(answer.header("idempotency-replayed").is_none());
        let known = runs[*key].get_or_insert_with(|| run.clone());
        ensure!(*known == run, "order-{key} has {known} and {run}");
    }
    // The first answer is lost where a slow machine made its sender ask again.
    ensure!(
        (1..=keys).contains(&firsts),
        "{firsts} of {keys} answers say that they are the first"
    );
    let made = count(client, RUNS).await?;
    ensure!(made == keys, "{made} runs");
    let totals = peer.totals().await?;
    let (seen, wanted) = ((totals.effects, totals.keys), keys as u64);
    ensure!(seen == (wanted, wanted), "{totals:?}");
    println!(
        "{} deliveries in {:.1} s ({:.0}/s), all runs ended after {:.1} s",
        answers.len(),
        delivered.as_secs_f64(),
        answers.len() as f64 / delivered.as_secs_f64(),
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

async fn same_key_at_once(
    server: &Served,
    client: &Connection,
    peer: &Peer,
    times: usize,
) -> Result<()> {
    let before = count(client, RUNS).await?;
    let posts = (0..times)
        .map(|_| delivery("flood", 0, "the-one", 1))
        .collect();

    let answers = crowd::send(server, SAME_KEY_SENDERS, posts).await?;
    until_count(client, SUCCEEDED, before + 1).await?;

    let mut runs: Vec<String> = Vec::new();
    for (_, answer) in &answers {
        runs.push(run_of(answer, 202)?);
    }
    runs.sort_unstable();
    runs.dedup();
    ensure!(runs.len() == 1, "{} runs for one key", runs.len());
    ensure!(count(client, RUNS).await? == before + 1, "one more run");
    let seen = peer.count("/keyed/the-one").await?;
    ensure!(seen.effects == 1, "one effect: {seen:?}");
    Ok(())
}

async fn mismatch(server: &Served, client: &Connection, flow: &str, status: u16) -> Result<()> {
    let key = format!("mismatch-{flow}");
    let first = vec![delivery(flow, 0, &key, 1)];
    let first = crowd::send(server, 1, first).await?;
    let run = run_of(&first[0].1, 202)?;
    let before = count(client, RUNS).await?;

    let others = (0..MISMATCHES)
        .map(|index| delivery(flow, 0, &key, index + 2))
        .collect();
    let answers = crowd::send(server, SENDERS, others).await?;

    for (_, answer) in &answers {
        let named = run_of(answer, status)?;
        ensure!(named == run, "{flow}: {named} instead of {run}");
    }
    ensure!(
        count(client, RUNS).await? == before,
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
