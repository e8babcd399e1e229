//! Fix forward: a release with a bug failed many runs half-way, the next one repairs it, and a plan
//! replays them while its server is killed again and again.
//!
//! The destination keeps refusals under their key and rejects a key with other bytes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hyper::Method;
use semel_testkit::{Cluster, Connection, Options, Peer, Program};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::servers::{Home, Served, serve};

const LEASE: &str = "2s";

/// How many runs fail in CI; `SEMEL_FORWARD_RUNS` says another number.
const RUNS: i64 = 40;

/// After how many replayed runs the server dies.
const RUNS_PER_KILL: i64 = 10;

/// How long everything may take to come to rest after a kill.
const PATIENCE: Duration = Duration::from_secs(120);

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
    let wanted = std::env::var("SEMEL_FORWARD_RUNS").ok();
    let runs = wanted.map_or(Ok(RUNS), |text| text.parse())?;
    let cluster = Cluster::start(Options::quick()).await?;
    let home = Home::found(cluster.server()).await?;
    let peer = Peer::start().await?;
    let client = home.connect().await?;
    let server = serve(Program::semel()?, &home.url(), LEASE).await?;
    home.publish(&server, "forward", &flow(&peer, 0)).await?;
    for number in 0..runs {
        let body = json!({ "id": format!("o-{number}") }).to_string();
        let answer = server.client.post("/hooks/default/forward", body).await?;
        ensure!(answer.status.is_success(), "{}", answer.text());
    }
    until(&client, FAILED, runs).await?;
    home.publish(&server, "forward", &flow(&peer, 7)).await?;

    let plan = make_plan(&home, &server, runs).await?;
    let kills = apply(&home, server, &client, &plan, runs).await?;
    ensure!(kills > 0, "the plan was carried out before a server died");

    until(&client, SUCCEEDED, runs).await?;
    let mut seen: BTreeMap<(String, String), u64> = BTreeMap::new();
    for effect in peer.effects().await? {
        let body: Value = serde_json::from_str(&effect.body)?;
        let id = body["id"].as_str().context("an id")?.to_owned();
        *seen.entry((effect.path, id)).or_default() += 1;
    }
    let expected = STEPS.len() * usize::try_from(runs)?;
    ensure!(seen.len() == expected, "{} of {expected}", seen.len());
    let twice: Vec<_> = seen.iter().filter(|(_, count)| **count != 1).collect();
    ensure!(twice.is_empty(), "{twice:?}");
    eprintln!("{runs} runs were replayed while servers were killed {kills} times");
    Ok(())
}

const FAILED: &str = "SELECT count(*) FROM runs WHERE state = 'failed'";

const SUCCEEDED: &str = "SELECT count(*) FROM runs WHERE state = 'succeeded'";

async fn until(client: &Connection, sql: &str, count: i64) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let now: i64 = client.query_one(sql, &[]).await?.get(0);
        if now == count {
            return Ok(());
        }
        if Instant::now() > deadline {
            let seen = "SELECT state::text || ' ' || coalesce(fault::text, ''), count(*)
                          FROM runs GROUP BY 1";
            let seen = client.query(seen, &[]).await?;
            let seen = seen.iter().map(|row| (row.get(0), row.get(1)));
            let seen: BTreeMap<String, i64> = seen.collect();
            bail!("{now} of {count}: {sql}: {seen:?}");
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// Makes the plan, and reads what its preview says.
async fn make_plan(home: &Home, server: &Served, runs: i64) -> Result<String> {
    let body = json!({ "flow": "forward", "state": "failed", "per_second": 100,
                       "reason": "the amount was missing" });
    let made = home.command(server, Method::POST, "/v1/replay-plans", body.to_string());
    let made: Value = made.await?.json()?;
    let id = made["plan"].as_str().context("a plan")?.to_owned();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let path = format!("/v1/replay-plans/{id}");
        let shown = home.command(server, Method::GET, &path, String::new());
        let shown: Value = shown.await?.json()?;
        if shown["state"] == "planned" {
            let said = json!([{ "summary": "3 skipped, 2 performed", "runs": runs }]);
            ensure!(shown["summaries"] == said, "{shown}");
            return Ok(id);
        }
        ensure!(Instant::now() < deadline, "{shown}");
        sleep(Duration::from_millis(50)).await;
    }
}

/// Applies the plan; the server that works on it is killed at every tenth run.
async fn apply(
    home: &Home,
    mut server: Served,
    client: &Connection,
    plan: &str,
    runs: i64,
) -> Result<i64> {
    let path = format!("/v1/replay-plans/{plan}/apply");
    let asked = home.command(&server, Method::POST, &path, "{}".to_owned());
    let asked = asked.await?;
    ensure!(asked.status.is_success(), "{}", asked.text());
    let sql = "SELECT count(*) FROM replay_items WHERE state = 'replayed'";
    let mut deadline = Instant::now() + PATIENCE;
    let (mut kills, mut next) = (0, RUNS_PER_KILL);
    loop {
        let done: i64 = client.query_one(sql, &[]).await?.get(0);
        if done == runs {
            // The runs that it made are the last server's to carry out.
            until(client, SUCCEEDED, runs).await?;
            return Ok(kills);
        }
        if done >= next {
            server.process.sigkill()?;
            server = serve(Program::semel()?, &home.url(), LEASE).await?;
            (kills, next) = (kills + 1, done + RUNS_PER_KILL);
            deadline = Instant::now() + PATIENCE;
        }
        ensure!(Instant::now() < deadline, "{done} of {runs}");
        sleep(Duration::from_millis(5)).await;
    }
}
