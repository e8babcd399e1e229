//! A fault at every commit around a business key: two runs of one key have one effect, and none waits
//! for a holder that has ended.
//!
//! All cells of a fault are set up one after the other and struck together. The server that the
//! fault strikes is the test build; what takes over is the product as it is shipped.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use semel_testkit::client::Answer;
use semel_testkit::{Client, Cluster, Connection, Options, Peer, Program};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::harness::{Harness, Held};
use crate::servers::{Home, serve};

const LEASE: &str = "2s";

/// How long a run may take to come to its point.
const REACH_PATIENCE: Duration = Duration::from_secs(20);

/// How long everything may take to come to rest.
const PATIENCE: Duration = Duration::from_secs(90);

/// The destination honours keys, so that it counts effects and not requests.
const FLOW: &str = "flow: charging
trigger:
  webhook: { auth: none, key: input.id }
retry: { attempts: 100, delay: 100ms, max_delay: 1s, within: 1h }
steps:
  - id: charge
    key: '\"charge:\" + input.object'
    scope: namespace
    http: { post: 'PEER/keyed/${{ input.object }}', json: { object: '${{ input.object }}' } }
    guard: key
result: steps.charge.result
";

/// Where the first run of a key stands when the fault strikes: before and after each of the commits
/// that say that it asks for the key, hold the key, say that it sends, say what that came to, and
/// tell the key.
const POINTS: [&str; 10] = [
    "other.before",
    "other.after",
    "name.before",
    "name.after",
    "intent.before",
    "intent.after",
    "outcome.before",
    "outcome.after",
    "notice.before",
    "notice.after",
];

/// What strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Kill,
    Pause,
}

/// A cell that is set up.
struct Placed {
    object: String,
    held: Held,
    delivery: JoinHandle<Result<Answer>>,
}

#[tokio::test(flavor = "multi_thread")]
async fn every_crash_around_a_business_key_leaves_one_effect() -> Result<()> {
    tokio::try_join!(play(Fault::Kill), play(Fault::Pause))?;
    Ok(())
}

async fn play(fault: Fault) -> Result<()> {
    let cluster = Cluster::start(Options::quick()).await?;
    let home = Home::found(cluster.server()).await?;
    let peer = Peer::start().await?;
    let source = FLOW.replace("PEER", &peer.url(""));
    let harness = Harness::start()?;
    let mut first = harness.serve(&home, LEASE).await?;
    home.publish(&first, "charging", &source).await?;
    let client = home.connect().await?;
    let mut placed = Vec::new();
    for point in POINTS {
        let object = format!("o_{}", point.replace('.', "_"));
        let watch = harness.arm(point, Some(&format!("{object}-a")));
        let (server, of) = (first.client.clone(), object.clone());
        let delivery = tokio::spawn(async move { post(&server, &of, "a").await });
        let held = watch.until_held(REACH_PATIENCE).await;
        placed.push(Placed {
            held: held.with_context(|| format!("{fault:?} at {point}"))?,
            object,
            delivery,
        });
    }

    // Not before: it could take a run that is to stop at a point of the first.
    let second = serve(Program::semel()?, &home.url(), LEASE).await?;
    match fault {
        Fault::Kill => drop(first.process.sigkill()?),
        Fault::Pause => first.process.sigstop()?,
    }
    for cell in &placed {
        for who in ["b", "a"] {
            let answer = post(&second.client, &cell.object, who).await?;
            ensure!(answer.status.is_success(), "{}", answer.text());
        }
    }
    let objects: Vec<String> = placed.iter().map(|cell| cell.object.clone()).collect();
    until_quiet(&client)
        .await
        .with_context(|| format!("after a {fault:?}"))?;
    if fault == Fault::Pause {
        first.process.sigcont()?;
    }
    for cell in placed {
        cell.held.let_go().await;
        cell.delivery.abort();
    }
    // A worker that continues where it stopped may begin what is over.
    sleep(Duration::from_secs(2)).await;
    until_quiet(&client)
        .await
        .with_context(|| format!("after a {fault:?}"))?;
    check(&client, &peer, &objects)
        .await
        .with_context(|| format!("after a {fault:?}"))
}

/// Waits until every run has ended and every named effect knows of it.
async fn until_quiet(client: &Connection) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let open = "SELECT (SELECT count(*) FROM runs WHERE ended_at IS NULL)
                     + (SELECT count(*) FROM named_effect_notices)
                     + (SELECT count(*) FROM named_effect_waiters)
                     + (SELECT count(*) FROM named_effects WHERE state IN ('pending', 'in_doubt'))";
    loop {
        let left: i64 = client.query_one(open, &[]).await?.get(0);
        if left == 0 {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{left} rows do not come to rest");
        sleep(Duration::from_millis(50)).await;
    }
}

/// Each key has one effect, and both of its runs have its result.
async fn check(client: &Connection, peer: &Peer, objects: &[String]) -> Result<()> {
    for object in objects {
        let seen = peer.count(&format!("/keyed/{object}")).await?;
        ensure!(seen.effects == 1, "{object}: {seen:?}");
        let row = client
            .query_one(
                "SELECT count(*) FILTER (WHERE state = 'succeeded'), count(DISTINCT result::text)
                   FROM runs WHERE convert_from(key, 'UTF8') LIKE $1 || '-%'",
                &[object],
            )
            .await?;
        let (succeeded, results): (i64, i64) = (row.get(0), row.get(1));
        ensure!(
            (succeeded, results) == (2, 1),
            "{object}: {succeeded} {results}"
        );
    }
    Ok(())
}

async fn post(client: &Client, object: &str, who: &str) -> Result<Answer> {
    let body = json!({ "id": format!("{object}-{who}"), "object": object });
    let answer = client.post("/hooks/default/charging", body.to_string());
    Ok(answer.await?)
}
