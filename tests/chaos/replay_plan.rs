//! Fix forward: a release with a bug failed many runs half-way, the next one repairs it, and a plan
//! replays them while its server is killed again and again.
//!
//! The destination keeps refusals under their key and rejects a key with other bytes.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use hyper::Method;
use semel_testkit::{Cluster, Connection, Options, Peer, until};
use serde_json::{Value, json};

use crate::campaign::size;
use crate::harness::Harness;
use crate::invariants;
use crate::queries::{SUCCEEDED, until_count};
use crate::servers::{Home, Served};

const LEASE: &str = "2s";

/// How long a dead server holds its runs and its plan, at the most.
const HELD_FOR: &str = "10s";

/// How many runs fail in CI; `SEMEL_FORWARD_RUNS` says another number.
const RUNS: usize = 40;

/// The server dies with so many runs replayed, the last of which it has not noted.
const RUNS_PER_KILL: usize = 10;

const STEPS: [&str; 5] = ["reserve", "charge", "pack", "ship", "tell"];

/// The fourth step sends the amount.
fn flow(peer: &Peer, amount: u32) -> String {
    let step = |step: &str| {
        let amount = if step == "ship" { amount } else { 1 };
        format!(
            "  - id: {step}\n    guard: key\n    http: {{ post: '{}', json: {{ id: '${{{{ input.id \
             }}}}', amount: {amount} }} }}\n",
            peer.url(&format!("/strict/{step}"))
        )
    };
    let steps: String = STEPS.into_iter().map(step).collect();
    format!(
        "flow: forward\ntrigger:\n  webhook: {{ auth: none, key: input.id }}\nretry: {{ attempts: \
         100, delay: 100ms, max_delay: 1s, within: 1h }}\nsteps:\n{steps}"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_survives_the_kill_of_its_server_at_every_tenth_run() -> Result<()> {
    let runs = size("SEMEL_FORWARD_RUNS", RUNS)?;
    let cluster = Cluster::start(Options::quick()).await?;
    let home = Home::found(cluster.server()).await?;
    let peer = Peer::start().await?;
    let client = home.connect().await?;
    let harness = Harness::start()?;
    let server = harness.serve(&home, LEASE).await?;
    home.publish(&server, "forward", &flow(&peer, 0)).await?;
    for number in 0..runs {
        let body = json!({ "id": format!("o-{number}") }).to_string();
        let answer = server.client.post("/hooks/default/forward", body).await?;
        ensure!(answer.status.is_success(), "{}", answer.text());
    }
    until_ended(&client, FAILED, runs).await?;
    home.publish(&server, "forward", &flow(&peer, 7)).await?;

    let plan = make_plan(&home, &server, runs).await?;
    let kills = apply(&home, &harness, server, &client, &plan, runs).await?;
    ensure!(kills > 0, "the plan was carried out before a server died");

    let mut seen: BTreeMap<(String, String), u64> = BTreeMap::new();
    for effect in peer.effects().await? {
        let body: Value = serde_json::from_str(&effect.body)?;
        let id = body["id"].as_str().context("an id")?.to_owned();
        *seen.entry((effect.path, id)).or_default() += 1;
    }
    let expected = STEPS.len() * runs;
    ensure!(seen.len() == expected, "{} of {expected}", seen.len());
    let twice: Vec<_> = seen.iter().filter(|(_, count)| **count != 1).collect();
    ensure!(twice.is_empty(), "{twice:?}");
    eprintln!("{runs} runs were replayed while servers were killed {kills} times");
    Ok(())
}

const FAILED: &str = "SELECT count(*) FROM runs WHERE state = 'failed'";

/// Waits until so many runs have ended so; says how all stand where they do not.
async fn until_ended(client: &Connection, sql: &str, wanted: usize) -> Result<()> {
    let ended = until_count(client, sql, wanted).await;
    if ended.is_err() {
        let seen = "SELECT state::text || ' ' || coalesce(fault::text, ''), count(*)
                      FROM runs GROUP BY 1";
        let seen = client.query(seen, &[]).await?;
        let seen = seen.iter().map(|row| (row.get(0), row.get(1)));
        let seen: BTreeMap<String, i64> = seen.collect();
        return ended.with_context(|| format!("{seen:?}"));
    }
    Ok(())
}

/// Makes the plan, and reads what its preview says.
async fn make_plan(home: &Home, server: &Served, runs: usize) -> Result<String> {
    let body = json!({ "flow": "forward", "state": "failed", "per_second": 100,
                       "reason": "the amount was missing" });
    let made = home.command(server, Method::POST, "/v1/replay-plans", body.to_string());
    let made: Value = made.await?.json()?;
    let id = made["plan"].as_str().context("a plan")?.to_owned();
    let path = format!("/v1/replay-plans/{id}");
    let look = async || -> Result<Value> {
        let shown = home.command(server, Method::GET, &path, String::new());
        shown.await?.json()
    };
    let shown = until("a plan to apply", look, |shown| shown["state"] == "planned").await?;
    let said = json!([{ "summary": "3 skipped, 2 performed", "runs": runs }]);
    ensure!(shown["summaries"] == said, "{shown}");
    Ok(id)
}

/// Applies the plan; the server that works on it is killed at every tenth run.
async fn apply(
    home: &Home,
    harness: &Harness,
    mut server: Served,
    client: &Connection,
    plan: &str,
    runs: usize,
) -> Result<usize> {
    let mut next = harness.arm("replay.item", None);
    let path = format!("/v1/replay-plans/{plan}/apply");
    let asked = home.command(&server, Method::POST, &path, "{}".to_owned());
    let asked = asked.await?;
    ensure!(asked.status.is_success(), "{}", asked.text());
    let (mut kills, mut noted) = (0, 0);
    while noted + RUNS_PER_KILL <= runs {
        for _ in 1..RUNS_PER_KILL {
            let held = next.until_held().await?;
            next = harness.arm("replay.item", None);
            held.let_go().await;
        }
        let held = next.until_held().await?;
        home.kill(&mut server, HELD_FOR).await?;
        next = harness.arm("replay.item", None);
        drop(held);
        server = harness.serve(home, LEASE).await?;
        (kills, noted) = (kills + 1, noted + RUNS_PER_KILL - 1);
    }
    drop(next);
    let replayed = "SELECT count(*) FROM replay_items WHERE state = 'replayed'";
    until_count(client, replayed, runs).await?;
    // The runs that it made are the last server's to carry out.
    until_ended(client, SUCCEEDED, runs).await?;
    invariants::hold_but(home, &[&server], &["duties"]).await?;
    Ok(kills)
}
