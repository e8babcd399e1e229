//! Sleepers and their callbacks: each wait ends once, however often it is called back, and none sleeps
//! on although its callback was acknowledged.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use semel_testkit::{Chance, Cluster, Connection, Program, pace};
use serde_json::Value;

use crate::campaign::{scaled, storage};
use crate::crowd::{self, Post};
use crate::invariants;
use crate::queries::{SUCCEEDED, count, until_count};
use crate::servers::{Home, serve};

/// How many runs sleep, unless `SEMEL_CALLBACK_WAITS` says otherwise: with every change, and in a
/// campaign.
const WAITS: usize = 1_000;
const WAITS_FULL: usize = 10_000;

/// How often each is called back.
const TIMES: usize = 10;

/// How many senders call back.
const SENDERS: usize = 64;

/// How many runs are called back twice at the same time.
const AT_ONCE: usize = 6;

const FLOW: &str = "flow: sleeper
trigger:
  webhook: { auth: none, key: input.id }
steps:
  - id: tell
    kv: { set: 'url/${{ input.id }}', value: '${{ waits.answer.url }}' }
  - id: answer
    wait: { callback: true, within: 1h }
  - id: resumed
    kv: { add: 'resumed/${{ input.id }}' }
result: steps.answer.result
";

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_called_back_ten_times_resumes_once() -> Result<()> {
    let waits = scaled("SEMEL_CALLBACK_WAITS", WAITS, WAITS_FULL)?;
    let cluster = Cluster::start(storage()).await?;
    let home = Home::found(cluster.server()).await?;
    let server = serve(Program::semel()?, &home.url(), "10s").await?;
    home.publish(&server, "sleeper", FLOW).await?;
    let client = home.connect().await?;
    let begun = Instant::now();
    let deliveries = (0..waits).map(|id| Post {
        subject: id,
        path: "/hooks/default/sleeper".to_owned(),
        body: format!(r#"{{"id":"{id}"}}"#),
    });
    for (_, answer) in crowd::send(&server, SENDERS, deliveries.collect()).await? {
        ensure!(answer.status == 202, "{}", answer.text());
    }
    let addresses = until_sleeping(&client, waits).await?;
    println!(
        "{waits} runs sleep after {:.1} s",
        begun.elapsed().as_secs_f64()
    );

    // Half are called back once, and no repeat comes before their runs have ended: it would wake the run again. The
    // others are called back as often as it takes, all at once.
    let call = |subject: usize, number: usize| Post {
        subject,
        path: addresses[subject].clone(),
        body: format!(r#"{{"call":{number}}}"#),
    };
    let times = |subject: usize| if subject.is_multiple_of(2) { 1 } else { TIMES };
    let mut chance = Chance::new("callbacks");
    let mut calls: Vec<Post> = (0..waits)
        .flat_map(|subject| (0..times(subject)).map(move |number| (subject, number)))
        .map(|(subject, number)| call(subject, number))
        .collect();
    chance.shuffle(&mut calls);
    let mut answers = crowd::send(&server, SENDERS, calls).await?;
    until_count(&client, SUCCEEDED, waits).await?;
    let mut repeats: Vec<Post> = (0..waits)
        .step_by(2)
        .flat_map(|subject| (1..TIMES).map(move |number| (subject, number)))
        .map(|(subject, number)| call(subject, number))
        .collect();
    chance.shuffle(&mut repeats);
    answers.extend(crowd::send(&server, SENDERS, repeats).await?);

    let mut firsts: HashMap<usize, usize> = HashMap::new();
    for (id, answer) in &answers {
        ensure!(answer.status == 200, "{}: {}", answer.status, answer.text());
        let first = answer.header("idempotency-replayed").is_none();
        *firsts.entry(*id).or_default() += usize::from(first);
    }
    ensure!(
        firsts.len() == waits,
        "{} waits were answered",
        firsts.len()
    );
    ensure!(
        firsts.values().all(|count| *count == 1),
        "a wait has one first callback"
    );
    let resumed = count(
        &client,
        "SELECT count(*) FROM journal WHERE events::text LIKE '%\"wait_ended\"%'",
    );
    ensure!(resumed.await? == waits, "every wait ended once");
    let once = count(
        &client,
        "SELECT count(*) FROM kv WHERE entry LIKE 'resumed/%' AND value::text = '1'",
    );
    ensure!(once.await? == waits, "every run continued once");
    println!(
        "{} callbacks, all after {:.1} s",
        answers.len(),
        begun.elapsed().as_secs_f64()
    );
    invariants::hold(&home, &[&server]).await
}

/// How many runs have two waits, unless `SEMEL_CALLBACK_PAIRS` says otherwise.
const PAIRS: usize = 300;
const PAIRS_FULL: usize = 3_000;

/// The most milliseconds between the two callbacks of a run.
const APART_MS: usize = 20;

const TWO: &str = "flow: two
trigger:
  webhook: { auth: none, key: input.id }
steps:
  - id: tell_later
    kv: { set: 'later/${{ input.id }}', value: '${{ waits.later.url }}' }
  - id: tell
    kv: { set: 'url/${{ input.id }}', value: '${{ waits.first.url }}' }
  - { id: first, wait: { callback: true, within: 1d } }
  - { id: later, wait: { callback: true, within: 1d } }
";

/// The callback of the later wait comes early and wakes the run for nothing. The callback of the first wait comes while
/// the run looks around. Each is sent once: a repeat would wake the run again.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_called_back_twice_at_once_never_sleeps_on() -> Result<()> {
    let pairs = scaled("SEMEL_CALLBACK_PAIRS", PAIRS, PAIRS_FULL)?;
    let cluster = Cluster::start(storage()).await?;
    let home = Home::found(cluster.server()).await?;
    let server = serve(Program::semel()?, &home.url(), "10s").await?;
    home.publish(&server, "two", TWO).await?;
    let client = home.connect().await?;
    let deliveries = (0..pairs).map(|id| Post {
        subject: id,
        path: "/hooks/default/two".to_owned(),
        body: format!(r#"{{"id":"{id}"}}"#),
    });
    for (_, answer) in crowd::send(&server, SENDERS, deliveries.collect()).await? {
        ensure!(answer.status == 202, "{}", answer.text());
    }
    let firsts = until_sleeping(&client, pairs).await?;
    let laters = addresses(&client, "later/", pairs).await?;

    let mut chance = Chance::new("callbacks at once");
    let (server, mut calls) = (&server, Vec::new());
    for (first, later) in firsts.iter().zip(&laters) {
        let apart = Duration::from_millis(chance.below(APART_MS + 1) as u64);
        calls.push(async move {
            let early = server.client.post(later, "1");
            let after = async {
                pace(apart).await;
                server.client.post(first, "1").await
            };
            let (early, after) = tokio::try_join!(early, after)?;
            ensure!(
                early.status == 200 && after.status == 200,
                "both are acknowledged"
            );
            Ok(())
        });
    }
    stream::iter(calls)
        .buffer_unordered(AT_ONCE)
        .try_collect::<Vec<()>>()
        .await?;

    until_count(&client, SUCCEEDED, pairs).await?;
    invariants::hold(&home, &[server]).await
}

/// Waits until all runs sleep, and gives the path of each one's callback.
async fn until_sleeping(client: &Connection, waits: usize) -> Result<Vec<String>> {
    let open = "SELECT count(*) FROM waits WHERE state = 'open'";
    until_count(client, open, waits).await?;
    addresses(client, "url/", waits).await
}

/// The path of each run's callback, by the entry of `kv` under which the run told it.
async fn addresses(client: &Connection, entry: &str, waits: usize) -> Result<Vec<String>> {
    let told = "SELECT entry, value::text FROM kv WHERE starts_with(entry, $1)";
    let rows = client.query(told, &[&entry]).await?;
    let mut paths = vec![String::new(); waits];
    for row in &rows {
        let id: usize = row.get::<_, &str>(0).trim_start_matches(entry).parse()?;
        let url: Value = serde_json::from_str(row.get(1))?;
        let url = url.as_str().context("an address")?;
        let at = url.find("/callbacks/").context("a callback's address")?;
        url[at..].clone_into(&mut paths[id]);
    }
    Ok(paths)
}
