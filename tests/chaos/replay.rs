//! A fault at every commit of a replay: the last run of the key has one successor, and the
//! destination has each effect once.
//!
//! All cells of a fault are set up one after the other and struck together, as for business keys.

use anyhow::{Context, Result, ensure};
use hyper::Method;
use semel_testkit::client::Answer;
use semel_testkit::peer::Behaviour;
use semel_testkit::{Cluster, Connection, Options, Peer, Program, patience, until};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::harness::{Harness, Held};
use crate::invariants;
use crate::queries::{UNENDED, until_none};
use crate::servers::{Home, Served, serve};

const LEASE: &str = "2s";

/// The first two effects are done by the run that is replayed; the third failed.
const FLOW: &str = "flow: forward
trigger:
  webhook: { auth: none, key: input.id }
retry: { attempts: 8, delay: 10ms, within: 1h }
steps:
  - id: reserve
    http: { post: 'PEER/keyed/reserve/${{ input.id }}', json: { id: '${{ input.id }}' } }
    guard: key
  - id: charge
    http: { post: 'PEER/keyed/charge/${{ input.id }}', json: { id: '${{ input.id }}' } }
    guard: key
  - id: ship
    http: { post: 'PEER/keyed/ship/${{ input.id }}', json: { id: '${{ input.id }}' } }
    guard: key
  - id: tell
    http: { post: 'PEER/keyed/tell/${{ input.id }}', json: { id: '${{ input.id }}' } }
    guard: key
";

/// How often a step is tried: more often than a machine that stands still makes servers lose what they hold.
const ATTEMPTS: u32 = 8;

/// The effects of the run that is replayed.
const DONE: [&str; 2] = ["reserve", "charge"];

/// Where the replay, or the run that it makes, stands when the fault strikes.
const POINTS: [&str; 6] = [
    "replay.before",
    "replay.after",
    "intent.before",
    "intent.after",
    "outcome.before",
    "outcome.after",
];

/// How the run ended that is replayed: a refusal fails it, and one that may pass leaves it to an
/// operator, so that the replay ends it in its own commit.
const ENDS: [(&str, u16, &str); 2] = [("failed", 403, "failed"), ("review", 429, "needs_review")];

/// What strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Kill,
    Pause,
}

/// A cell that is set up.
struct Placed {
    id: String,
    run: String,
    digest: String,
    /// How often the effects of the run that is replayed were asked for.
    asked: u64,
    held: Held,
    replay: JoinHandle<Result<Answer>>,
}

#[tokio::test(flavor = "multi_thread")]
async fn every_crash_of_a_replay_makes_one_run_and_repeats_no_effect() -> Result<()> {
    tokio::try_join!(play(Fault::Kill), play(Fault::Pause))?;
    Ok(())
}

/// A replay that was judged before another operator resumed the run changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_resumed_meanwhile_is_not_ended() -> Result<()> {
    let cluster = Cluster::start(Options::quick()).await?;
    let home = Home::found(cluster.server()).await?;
    let peer = Peer::start().await?;
    let source = FLOW.replace("PEER", &peer.url(""));
    let harness = Harness::start()?;
    let first = harness.serve(&home, LEASE).await?;
    home.publish(&first, "forward", &source).await?;
    let client = home.connect().await?;
    let refusal = Behaviour::RefuseWith(429);
    peer.next_times("/keyed/ship/o-1", 2 * ATTEMPTS, refusal)
        .await?;
    let run = fail(&first, &client, "o-1", "needs_review").await?;
    let cell = (String::from("o-1"), run.clone(), asked(&peer, "o-1").await?);
    let cell = place(&home, &first, &harness, "replay.before", cell).await?;

    let resume = json!({ "reason": "try again" }).to_string();
    let path = format!("/v1/runs/{run}/resume");
    home.command(&first, Method::POST, &path, resume).await?;
    let look = async || peer.count("/keyed/ship/o-1").await;
    until("another request", look, |count| {
        count.calls > ATTEMPTS.into()
    })
    .await?;
    fail(&first, &client, "o-1", "needs_review").await?;
    cell.held.let_go().await;
    let answer = cell.replay.await??;

    ensure!(answer.status.as_u16() == 409, "{}", answer.text());
    ensure!(answer.text().contains("run-busy"), "{}", answer.text());
    let sql = "SELECT count(*), min(state::text) FROM runs";
    let row = client.query_one(sql, &[]).await?;
    let seen: (i64, &str) = (row.get(0), row.get(1));
    ensure!(seen == (1, "needs_review"), "{seen:?}");
    invariants::hold(&home, &[&first]).await
}

async fn play(fault: Fault) -> Result<()> {
    let cluster = Cluster::start(Options::quick()).await?;
    let home = Home::found(cluster.server()).await?;
    let peer = Peer::start().await?;
    let source = FLOW.replace("PEER", &peer.url(""));
    let harness = Harness::start()?;
    let mut first = harness.serve(&home, LEASE).await?;
    home.publish(&first, "forward", &source).await?;
    let client = home.connect().await?;
    let mut placed = Vec::new();
    for (end, status, state) in ENDS {
        for point in POINTS {
            let id = format!("{end}_{}", point.replace('.', "_"));
            let (path, times) = (
                format!("/keyed/ship/{id}"),
                if status == 429 { ATTEMPTS } else { 1 },
            );
            peer.next_times(&path, times, Behaviour::RefuseWith(status))
                .await?;
            let run = fail(&first, &client, &id, state).await?;
            let asked = asked(&peer, &id).await?;
            let cell = place(&home, &first, &harness, point, (id, run, asked)).await;
            placed.push(cell.with_context(|| format!("{fault:?} at {point} of a {end} run"))?);
        }
    }

    // Not before: it could take a run that is to stop at a point of the first.
    let second = serve(Program::semel()?, &home.url(), LEASE).await?;
    match fault {
        Fault::Kill => drop(first.process.sigkill()?),
        Fault::Pause => first.process.sigstop()?,
    }
    let mut next = Vec::new();
    for cell in &placed {
        next.push(replay_again(&home, &second, cell).await?);
    }
    until_none(&client, UNENDED).await?;
    if fault == Fault::Pause {
        first.process.sigcont()?;
    }
    for cell in &mut placed {
        cell.replay.abort();
    }
    let cells: Vec<(String, u64)> = placed
        .iter()
        .map(|cell| (cell.id.clone(), cell.asked))
        .collect();
    for cell in placed {
        cell.held.let_go().await;
    }
    if fault == Fault::Pause {
        // A worker that continues where it stopped may begin what is over. It has done so when it ends.
        home.until_live(&first).await?;
        first.process.sigterm()?;
        first.process.until_exit(patience()).await?;
        until_none(&client, UNENDED).await?;
    }
    for ((id, before), next) in cells.iter().zip(&next) {
        let again = asked(&peer, id).await? - before;
        ensure!(again == 0, "{id}: {again} requests of what was done");
        check(&client, &peer, id, next)
            .await
            .with_context(|| format!("{id} after a {fault:?}"))?;
    }
    invariants::hold(&home, &[&second]).await
}

/// Delivers what the destination refuses at the third step.
async fn fail(server: &Served, client: &Connection, id: &str, state: &str) -> Result<String> {
    let body = json!({ "id": id }).to_string();
    let answer = server.client.post("/hooks/default/forward", body).await?;
    let run = answer.json::<Value>()?["run"].as_str().map(str::to_owned);
    let run = run.with_context(|| answer.text())?;
    let look = async || -> Result<Option<String>> {
        let sql = "SELECT state::text FROM runs WHERE convert_from(key, 'UTF8') = $1";
        Ok(client.query_opt(sql, &[&id]).await?.map(|row| row.get(0)))
    };
    let what = format!("{id} to be {state}");
    until(&what, look, |now| now.as_deref() == Some(state)).await?;
    Ok(run)
}

/// Previews the replay, and carries it out until the server stands at the point.
async fn place(
    home: &Home,
    server: &Served,
    harness: &Harness,
    point: &'static str,
    (id, run, asked): (String, String, u64),
) -> Result<Placed> {
    let path = format!("/v1/runs/{run}/replay/preview");
    let preview = home
        .command(server, Method::POST, &path, "{}".to_owned())
        .await?;
    let preview: Value = preview.json()?;
    let digest = preview["digest"].as_str().context("a digest")?.to_owned();
    let watch = harness.arm(point, Some(&id));
    let replay = tokio::spawn(ask(home, server, &run, &digest));
    let held = watch.until_held().await?;
    Ok(Placed {
        id,
        run,
        digest,
        asked,
        held,
        replay,
    })
}

fn ask(
    home: &Home,
    server: &Served,
    run: &str,
    digest: &str,
) -> impl Future<Output = Result<Answer>> + 'static + use<> {
    let client = server.client.clone();
    let bearer = format!("Bearer {}", home.token());
    let path = format!("/v1/runs/{run}/replay");
    let body = json!({ "digest": digest, "reason": "fixed" }).to_string();
    async move {
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
        ];
        Ok(client
            .send(Method::POST, &path, &headers, body.into())
            .await?)
    }
}

/// The operator repeats the request at another server until it is answered.
async fn replay_again(home: &Home, server: &Served, cell: &Placed) -> Result<String> {
    let repeat = async || ask(home, server, &cell.run, &cell.digest).await;
    let what = format!("the replay of {}", cell.id);
    let answer = until(&what, repeat, |answer| answer.status.is_success()).await?;
    let said: Value = answer.json()?;
    Ok(said["run"].as_str().context("a run")?.to_owned())
}

/// The key has two runs, of which the second succeeded and is the one that was answered; each effect
/// happened once.
async fn check(client: &Connection, peer: &Peer, id: &str, next: &str) -> Result<()> {
    let sql = "SELECT replace('run_' || id::text, '-', ''), state::text
                 FROM runs WHERE convert_from(key, 'UTF8') = $1 ORDER BY accepted_at, id";
    let rows = client.query(sql, &[&id]).await?;
    ensure!(rows.len() == 2, "{} runs", rows.len());
    let made: Vec<(String, String)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let succeeded = made.iter().find(|(run, _)| run == next);
    ensure!(
        succeeded.is_some_and(|(_, state)| state == "succeeded"),
        "{next}: {made:?}"
    );
    for step in ["reserve", "charge", "ship", "tell"] {
        let seen = peer.count(&format!("/keyed/{step}/{id}")).await?;
        ensure!(seen.effects == 1, "{step}: {seen:?}");
    }
    Ok(())
}

/// How often the effects of the run that is replayed were asked for.
async fn asked(peer: &Peer, id: &str) -> Result<u64> {
    let mut calls = 0;
    for step in DONE {
        calls += peer.count(&format!("/keyed/{step}/{id}")).await?.calls;
    }
    Ok(calls)
}
