//! Rehearsals beside live work: twenty are asked for at once, and deliveries are accepted as before.
//!
//! With every change a few rehearsals are asked for, one runs at a time, and deliveries are accepted while
//! they run. A campaign demands of a release build: 500 deliveries a second, the slowest of a hundred
//! within 100 ms, nine tenths of the throughput without rehearsals, while a recipe is rehearsed twenty
//! times. `SEMEL_REHEARSING_P99_MS`, `SEMEL_REHEARSING_RATE`, `SEMEL_REHEARSING_SHARE` and
//! `SEMEL_REHEARSING_FLOW`, the path of a flow, say otherwise.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hyper::Method;
use semel_testkit::{Client, Cluster, Connection, Program, pace};
use serde_json::{Value, json};

use crate::campaign::{is_measured, scaled, storage};
use crate::invariants;
use crate::queries::{count, until_none};
use crate::servers::{Home, Served, serve};

/// How many rehearsals are asked for at once, unless `SEMEL_REHEARSALS` says otherwise: with every change,
/// and in a campaign.
const REHEARSALS: usize = 4;
const REHEARSALS_FULL: usize = 20;

/// How many deliveries are sent a second, unless the environment says otherwise.
const RATE: u32 = 500;

/// The slowest delivery of a hundred, in milliseconds.
const P99_MS: u64 = 100;

/// How many times as slow as without rehearsals the slowest of a hundred may be, on a machine that does
/// not accept them within [`P99_MS`] without any.
const P99_TIMES: u32 = 3;

/// Which share of the throughput stays while rehearsals run.
const SHARE: f64 = 0.9;

/// How many times it is measured beside them, at most: the first time that meets the bounds counts, since
/// the machine itself may stand still for a while.
const LOADS_MAX: usize = 3;

/// For how long deliveries are sent each time.
const LOAD: Duration = Duration::from_secs(15);

/// Over how many connections.
const CONNECTIONS: usize = 64;

/// Rehearsals that have not ended.
const LEFT: &str = "SELECT count(*) FROM rehearsals WHERE state IN ('queued', 'running')";

const FLOW: &str = "flow: order
trigger:
  webhook: { auth: none, key: input.id }
steps:
  - id: count
    kv: { add: orders }
examples:
  - name: one
    input: { id: a-1 }
";

#[tokio::test(flavor = "multi_thread")]
async fn rehearsals_run_one_by_one_and_deliveries_are_accepted_as_before() -> Result<()> {
    let rehearsals = scaled("SEMEL_REHEARSALS", REHEARSALS, REHEARSALS_FULL)?;
    let cluster = Cluster::start(storage()).await?;
    let home = Home::found(cluster.server()).await?;
    let server = serve(Program::semel()?, &home.url(), "10s").await?;
    home.publish(&server, "order", FLOW).await?;
    let before = match is_measured() {
        true => Some(measure_alone(&server).await?),
        false => None,
    };

    let client = home.connect().await?;
    let watching = Arc::new(AtomicBool::new(true));
    let most = tokio::spawn(count_at_once(home.connect().await?, watching.clone()));
    let ids = ask_all(&home, &server, rehearsals).await?;
    match before {
        Some(before) => measure_beside(&home, &server, &ids, &before).await?,
        None => deliver_beside(&server, &client).await?,
    }
    until_none(&client, LEFT).await?;
    watching.store(false, Ordering::SeqCst);
    let most = most.await??;

    let passed = count_ended(&home, &server, &ids).await?;
    ensure!(passed == rehearsals, "{passed} of {rehearsals} passed");
    ensure!(most == 1, "{most} rehearsals ran at once on one server");
    invariants::hold(&home, &[&server]).await
}

/// Delivers one after another for as long as rehearsals run. Some are accepted while one does.
async fn deliver_beside(server: &Served, client: &Connection) -> Result<()> {
    let running = "SELECT count(*) FROM rehearsals WHERE state = 'running'";
    let (mut number, mut beside) = (0, 0);
    while count(client, LEFT).await? > 0 {
        let runs_before = count(client, running).await? > 0;
        let body = format!(r#"{{"id":"beside-{number}"}}"#);
        let answer = server.client.post("/hooks/default/order", body).await?;
        ensure!(answer.status == 202, "{}: {}", answer.status, answer.text());
        beside += usize::from(runs_before && count(client, running).await? > 0);
        number += 1;
        pace(Duration::from_millis(10)).await;
    }
    println!("{number} deliveries, {beside} of them while a rehearsal ran");
    ensure!(beside > 0, "no delivery was accepted beside a rehearsal");
    Ok(())
}

async fn measure_alone(server: &Served) -> Result<Accepted> {
    let rate = setting("SEMEL_REHEARSING_RATE", RATE);
    load(server, "warm", rate, LOAD / 5).await?;
    load(server, "before", rate, LOAD).await
}

async fn measure_beside(
    home: &Home,
    server: &Served,
    ids: &[String],
    before: &Accepted,
) -> Result<()> {
    let rate = setting("SEMEL_REHEARSING_RATE", RATE);
    let wanted = Wanted::beside(before);
    let mut beside = load(server, "beside", rate, LOAD).await?;
    for number in 1..LOADS_MAX {
        if wanted.is_met_by(&beside) {
            break;
        }
        println!("measured again after {beside}");
        beside = load(server, &format!("beside-{number}"), rate, LOAD).await?;
    }
    let ended = count_ended(home, server, ids).await?;
    println!("without rehearsals: {before}");
    println!("beside rehearsals: {beside}; {ended} of them ended meanwhile");
    ensure!(ended < ids.len(), "nothing was measured beside rehearsals");
    ensure!(
        wanted.is_met_by(&beside),
        "{beside}, but wanted: {wanted:?}"
    );
    Ok(())
}

/// What is demanded beside rehearsals.
#[derive(Debug)]
struct Wanted {
    p99: Duration,
    per_second: f64,
}

impl Wanted {
    /// Beside rehearsals, after deliveries were accepted so without any.
    fn beside(before: &Accepted) -> Self {
        let p99 = Duration::from_millis(setting("SEMEL_REHEARSING_P99_MS", P99_MS));
        Self {
            p99: match before.p99 < p99 {
                true => p99,
                false => before.p99 * P99_TIMES,
            },
            per_second: before.per_second * setting("SEMEL_REHEARSING_SHARE", SHARE),
        }
    }

    fn is_met_by(&self, beside: &Accepted) -> bool {
        beside.p99 < self.p99 && beside.per_second >= self.per_second
    }
}

/// What the environment demands, or the usual.
fn setting<T: FromStr>(name: &str, usual: T) -> T {
    let said = std::env::var(name).ok();
    said.and_then(|said| said.parse().ok()).unwrap_or(usual)
}

/// How deliveries were accepted.
struct Accepted {
    per_second: f64,
    p50: Duration,
    p99: Duration,
}

impl std::fmt::Display for Accepted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (p50, p99) = (self.p50.as_secs_f64(), self.p99.as_secs_f64());
        let (p50, p99) = (p50 * 1_000.0, p99 * 1_000.0);
        write!(
            f,
            "{:.0}/s accepted, p50 {p50:.1} ms, p99 {p99:.1} ms",
            self.per_second
        )
    }
}

/// Sends deliveries at a rate, whether earlier ones were answered or not. A delivery is as slow as it
/// is late against the time at which it was due.
async fn load(server: &Served, name: &str, rate: u32, lasting: Duration) -> Result<Accepted> {
    let client = Arc::new(Client::new(server.address, CONNECTIONS));
    let count = rate * u32::try_from(lasting.as_secs())?;
    let begun = Instant::now();
    let senders = (0..count).map(|number| {
        let client = client.clone();
        let due = begun + Duration::from_secs(1) * number / rate;
        let body = format!(r#"{{"id":"{name}-{number}"}}"#);
        tokio::spawn(async move {
            pace(due.saturating_duration_since(Instant::now())).await;
            let answer = client.post("/hooks/default/order", body).await?;
            ensure!(answer.status == 202, "{}: {}", answer.status, answer.text());
            Ok::<_, anyhow::Error>(due.elapsed())
        })
    });
    let senders: Vec<_> = senders.collect();
    let mut took = Vec::with_capacity(senders.len());
    for sender in senders {
        took.push(sender.await??);
    }
    let per_second = f64::from(count) / begun.elapsed().as_secs_f64();
    took.sort_unstable();
    let at = |share: usize| took.get(took.len() * share / 100).copied();
    Ok(Accepted {
        per_second,
        p50: at(50).context("deliveries")?,
        p99: at(99).context("deliveries")?,
    })
}

/// Asks for all rehearsals at once, of the same flow.
async fn ask_all(home: &Home, server: &Served, rehearsals: usize) -> Result<Vec<String>> {
    let source = match std::env::var_os("SEMEL_REHEARSING_FLOW") {
        Some(path) => std::fs::read_to_string(path)?,
        None => FLOW.to_owned(),
    };
    let body = json!({ "source": source, "file": "rehearsed.flow.yaml" }).to_string();
    let id = |number: usize| format!("00000000-0000-4000-8000-0000000000{number:02}");
    let ids: Vec<String> = (0..rehearsals).map(id).collect();
    let asking = ids.iter().map(|id| {
        let path = format!("/v1/rehearsals/{id}");
        let body = body.clone();
        async move { home.command(server, Method::PUT, &path, body).await }
    });
    futures_util::future::try_join_all(asking).await?;
    Ok(ids)
}

async fn count_ended(home: &Home, server: &Served, ids: &[String]) -> Result<usize> {
    let mut ended = 0;
    for id in ids {
        let path = format!("/v1/rehearsals/{id}");
        let answer = home.command(server, Method::GET, &path, String::new());
        let told: Value = answer.await?.json()?;
        let state = told["state"].as_str().unwrap_or_default();
        ensure!(state != "violated" && state != "stopped", "{told:#}");
        ended += usize::from(state == "passed");
    }
    Ok(ended)
}

/// The most rehearsals that run at once, while somebody watches.
async fn count_at_once(client: Connection, watching: Arc<AtomicBool>) -> Result<i64> {
    // Not their schemas: that of one which has ended may be dropped while the next begins.
    let running = "SELECT count(*) FROM rehearsals WHERE state = 'running'";
    let mut most = 0;
    while watching.load(Ordering::SeqCst) {
        let now: i64 = client.query_one(running, &[]).await?.get(0);
        most = most.max(now);
        pace(Duration::from_millis(20)).await;
    }
    Ok(most)
}
