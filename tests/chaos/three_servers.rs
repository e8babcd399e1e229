//! Three servers on one database, one of them killed every second, under steady load.
//!
//! How long a killed server's runs wait is measured like this: right after the kill, while its
//! lease still holds, the queue says which runs it held and under which epoch. The server that
//! takes such a run over writes to its journal under a later epoch, and that row carries the
//! database's time. The gap runs from the kill to that row. Where the next holder was killed as
//! well before it had written anything, the gap runs from the later kill.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use semel_testkit::{Chance, Client, Cluster, Connection, Peer, Program, pace};
use serde_json::{Value, json};
use tokio::sync::RwLock;

use crate::campaign::{is_measured, keep_figures, size, storage};
use crate::invariants;
use crate::queries::{ACTIVE, until_none};
use crate::servers::{Home, Served, serve, until_known};

/// How many servers are killed at least, one a second; `SEMEL_THREE_SERVERS_S` says otherwise.
const KILLS: usize = 6;

/// How many runs have to be in the hands of servers that are killed.
const ORPHANS: usize = 5;

/// How often a server is killed.
const KILL_EVERY: Duration = Duration::from_secs(1);

/// The servers' lease.
const LEASE: &str = "2s";

/// The most that a run of a killed server may wait where it is measured: its lease and two seconds.
const GAP_MAX_S: f64 = 4.0;

/// How many senders there are, each with one delivery at a time.
const SENDERS: usize = 8;

/// How long a sender rests between two deliveries.
const REST: Duration = Duration::from_millis(40);

/// Every so many deliveries one goes to the flow without a guard.
const REVIEW_EVERY: usize = 5;

/// A delivery that was answered with success.
struct Accepted {
    key: String,
    run: String,
}

/// A run that a killed server held.
struct Orphan {
    run: String,
    epoch: i64,
    killed_at_s: f64,
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_done_twice_while_servers_die() -> Result<()> {
    let cluster = Cluster::start(storage()).await?;
    let home = Home::found(cluster.server()).await?;
    let peer = Peer::start().await?;
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(serve(Program::semel()?, &home.url(), LEASE).await?);
    }
    for (name, mode) in [("key", "keyed"), ("review", "plain")] {
        let source = format!(
            "flow: {name}\ntrigger:\n  webhook: {{ auth: none, key: input.id }}\nsteps:\n  - id: act\n    \
             http: {{ post: '{}/slow/50/{mode}/${{{{ input.id }}}}', json: {{ id: '${{{{ input.id }}}}' }} }}\n    \
             guard: {name}\n",
            peer.url("")
        );
        home.publish(&servers[0], name, &source).await?;
    }
    until_known(&servers, "review").await?;
    let client = home.connect().await?;
    let addresses: Arc<RwLock<Vec<Arc<Client>>>> = Arc::new(RwLock::new(
        servers.iter().map(|server| server.client.clone()).collect(),
    ));
    let over = Arc::new(AtomicBool::new(false));
    let numbers = Arc::new(AtomicUsize::new(0));
    let senders: Vec<_> = (0..SENDERS)
        .map(|_| tokio::spawn(send(addresses.clone(), numbers.clone(), over.clone())))
        .collect();

    let mut chance = Chance::new("three servers");
    let mut orphans = Vec::new();
    let (wanted, mut kills) = (size("SEMEL_THREE_SERVERS_S", KILLS)?, 0);
    while kills < wanted || orphans.len() < ORPHANS {
        pace(KILL_EVERY).await;
        let index = chance.below(servers.len());
        orphans.extend(kill(&mut servers[index], &client).await?);
        kills += 1;
        servers[index] = serve(Program::semel()?, &home.url(), LEASE).await?;
        addresses.write().await[index] = servers[index].client.clone();
    }
    over.store(true, Ordering::SeqCst);
    let mut accepted = Vec::new();
    for sender in senders {
        accepted.extend(sender.await??);
    }
    until_none(&client, ACTIVE).await?;

    let doubts = check_runs(&client, &accepted).await?;
    check_effects(&client, &peer, &accepted).await?;
    let gaps = measure(&client, &orphans).await?;
    let longest = gaps.iter().copied().fold(0.0, f64::max);
    let figures = json!({
        "kills": kills,
        "accepted": accepted.len(),
        "runs_held_at_a_kill": orphans.len(),
        "taken_over": gaps.len(),
        "longest_gap_s": (longest * 1e3).round() / 1e3,
        "in_doubt": doubts,
        "lost": 0,
        "effects_twice": 0,
    });
    println!("{figures:#}");
    if is_measured() {
        ensure!(longest <= GAP_MAX_S, "a run waited {longest:.2} s");
    }
    keep_figures("three-servers", &figures)?;
    invariants::hold(&home, &servers.iter().collect::<Vec<_>>()).await
}

/// Delivers one key after another, each until it is accepted, as senders do.
async fn send(
    servers: Arc<RwLock<Vec<Arc<Client>>>>,
    numbers: Arc<AtomicUsize>,
    over: Arc<AtomicBool>,
) -> Result<Vec<Accepted>> {
    let mut accepted = Vec::new();
    while !over.load(Ordering::SeqCst) {
        let number = numbers.fetch_add(1, Ordering::SeqCst);
        let flow = match number % REVIEW_EVERY {
            0 => "review",
            _ => "key",
        };
        let key = format!("{flow}-{number:06}");
        let body = format!(r#"{{"id":"{key}"}}"#);
        let path = format!("/hooks/default/{flow}");
        let mut turn = number;
        let run = loop {
            let client = {
                let servers = servers.read().await;
                servers[turn % servers.len()].clone()
            };
            turn += 1;
            match client.post(&path, body.clone()).await {
                Ok(answer) if answer.status.is_success() => {
                    let body: Value = answer.json()?;
                    break body["run"].as_str().context("a run")?.to_owned();
                }
                Ok(answer) => ensure!(answer.status.is_server_error(), "{}", answer.text()),
                Err(_) => {}
            }
            pace(REST).await;
        };
        accepted.push(Accepted { key, run });
        pace(REST).await;
    }
    Ok(accepted)
}

/// Kills a server and tells which runs it held.
async fn kill(server: &mut Served, client: &Connection) -> Result<Vec<Orphan>> {
    let process = format!("pid {}", server.process.id());
    server.process.sigkill()?;
    let rows = client
        .query(
            "SELECT q.run_id::text, q.epoch, extract(epoch FROM moment())::float8
               FROM sessions s JOIN queue q ON q.holder = s.id
              WHERE s.process = $1",
            &[&process],
        )
        .await?;
    Ok(rows
        .iter()
        .map(|row| Orphan {
            run: row.get(0),
            epoch: row.get(1),
            killed_at_s: row.get(2),
        })
        .collect())
}

/// Every key that was accepted has one run, the one that was answered; it succeeded, or is in doubt
/// where nothing guards it. Tells how many are in doubt.
async fn check_runs(client: &Connection, accepted: &[Accepted]) -> Result<usize> {
    let rows = client
        .query(
            "SELECT convert_from(key, 'UTF8'), id::text, state::text FROM runs",
            &[],
        )
        .await?;
    let mut runs: HashMap<&str, (String, &str)> = HashMap::new();
    for row in &rows {
        let name = format!("run_{}", row.get::<_, &str>(1).replace('-', ""));
        let twice = runs.insert(row.get(0), (name, row.get(2)));
        ensure!(twice.is_none(), "{} has two runs", row.get::<_, &str>(0));
    }
    let mut doubts = 0;
    for Accepted { key, run } in accepted {
        let (name, state) = runs
            .get(key.as_str())
            .with_context(|| format!("{key} is lost"))?;
        ensure!(name == run, "{key} was answered {run}, and has {name}");
        match *state {
            "succeeded" => {}
            "in_doubt" if key.starts_with("review") => doubts += 1,
            other => anyhow::bail!("{key} is {other}"),
        }
    }
    ensure!(
        runs.len() == accepted.len(),
        "{} runs for {} keys",
        runs.len(),
        accepted.len()
    );
    Ok(doubts)
}

/// Guarded effects happened once; unguarded ones at most once, and once where they succeeded.
async fn check_effects(client: &Connection, peer: &Peer, accepted: &[Accepted]) -> Result<()> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for effect in peer.effects().await? {
        let key = effect
            .path
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_owned();
        *counts.entry(key).or_default() += 1;
    }
    let rows = client
        .query(
            "SELECT convert_from(key, 'UTF8') FROM runs WHERE state = 'in_doubt'",
            &[],
        )
        .await?;
    let doubtful: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
    for Accepted { key, .. } in accepted {
        let count = counts.get(key).copied().unwrap_or_default();
        let fine = count == 1 || (count == 0 && doubtful.contains(&key.as_str()));
        ensure!(fine, "{key} happened {count} times");
    }
    Ok(())
}

/// How long each orphan waited, in seconds. One whose last commit was in progress when its server
/// was killed may have ended by it, and waited for no other server.
async fn measure(client: &Connection, orphans: &[Orphan]) -> Result<Vec<f64>> {
    let rows = client
        .query(
            "SELECT run_id::text, epoch, extract(epoch FROM min(at))::float8
               FROM journal GROUP BY run_id, epoch ORDER BY epoch",
            &[],
        )
        .await?;
    let mut journal: HashMap<String, Vec<(i64, f64)>> = HashMap::new();
    for row in &rows {
        journal
            .entry(row.get(0))
            .or_default()
            .push((row.get(1), row.get(2)));
    }
    let mut latest: HashMap<(&str, u64), f64> = HashMap::new();
    for orphan in orphans {
        let rows = journal.get(&orphan.run).context("an orphan's journal")?;
        let next = rows.iter().find(|(epoch, _)| *epoch > orphan.epoch);
        if let Some((_, at)) = next {
            let gap = latest
                .entry((&orphan.run, at.to_bits()))
                .or_insert(f64::MAX);
            *gap = gap.min(at - orphan.killed_at_s);
        }
    }
    Ok(latest.into_values().collect())
}
