//! Another PostgreSQL under fire: many runs, one `INSERT` each, while servers die every two
//! seconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hyper::Method;
use semel_testkit::{Chance, Client, Cluster, Program, pace};
use serde_json::json;
use tokio::sync::RwLock;

use crate::campaign::{keep_figures, size, storage};
use crate::invariants;
use crate::queries::{ACTIVE, count, until_none};
use crate::servers::{Home, serve, until_known};

/// How many runs there are at least, unless `SEMEL_FIRE_RUNS` says otherwise: there are more where no
/// server died between an intent and its outcome.
const RUNS: usize = 500;

/// How many servers there are.
const SERVERS: usize = 3;

/// How often a server is killed.
const KILL_EVERY: Duration = Duration::from_secs(2);

/// The least kills that are a storm.
const KILLS_MIN: usize = 3;

/// The servers' lease.
const LEASE: &str = "2s";

/// How many senders there are, each with one delivery at a time.
const SENDERS: usize = 16;

/// How long a sender rests after a refusal.
const REST: Duration = Duration::from_millis(40);

/// How long a sender rests after a delivery, so that the storm lasts for a few kills.
const PACE: Duration = Duration::from_millis(60);

/// Effects that were performed by another server than the first.
const AGAIN: &str = "SELECT count(*) FROM effects WHERE attempt > 1";

/// The statement takes a while, so that servers die in the middle of it.
const FLOW: &str = "flow: insert
trigger:
  webhook: { auth: none, key: input.id }
retry: { attempts: 20, delay: 100ms, max_delay: 2s, within: 1h }
steps:
  - id: act
    db: { connection: rows, execute: 'INSERT INTO acts SELECT $1::text FROM pg_sleep(0.05)', values: ['${{ input.id }}'], timeout: 10s }
";

#[tokio::test(flavor = "multi_thread")]
async fn as_many_rows_as_runs_however_many_servers_die() -> Result<()> {
    let wanted = size("SEMEL_FIRE_RUNS", RUNS)?;
    let cluster = Cluster::start(storage()).await?;
    let elsewhere = Cluster::start(storage().with("max_connections", "400")).await?;
    let rows = elsewhere.server().connect("postgres").await?;
    rows.batch_execute("CREATE TABLE acts (id text NOT NULL)")
        .await?;
    let home = Home::found(cluster.server()).await?;
    let mut servers = Vec::new();
    for _ in 0..SERVERS {
        servers.push(serve(Program::semel()?, &home.url(), LEASE).await?);
    }
    let port = elsewhere.server().address().port();
    let connection = json!({ "connection": { "to": { "postgres": { "host": "127.0.0.1",
        "port": port, "database": "postgres", "user": "postgres", "tls": "off" } } } });
    let path = "/v1/connections/rows";
    home.command(&servers[0], Method::PUT, path, connection.to_string())
        .await?;
    let prepare = format!("{path}/prepare");
    home.command(&servers[0], Method::POST, &prepare, String::new())
        .await?;
    home.publish(&servers[0], "insert", FLOW).await?;
    until_known(&servers, "insert").await?;

    let clients = servers.iter().map(|server| server.client.clone()).collect();
    let clients: Arc<RwLock<Vec<Arc<Client>>>> = Arc::new(RwLock::new(clients));
    let (numbers, over) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let senders: Vec<_> = (0..SENDERS)
        .map(|_| tokio::spawn(send(clients.clone(), numbers.clone(), over.clone())))
        .collect();
    let client = home.connect().await?;
    let mut chance = Chance::new("db under fire");
    let (begun, mut kills) = (Instant::now(), 0);
    let is_storm = async |kills: usize| -> Result<bool> {
        let sent = numbers.load(Ordering::SeqCst);
        Ok(kills >= KILLS_MIN && sent >= wanted && count(&client, AGAIN).await? > 0)
    };
    // A sender that gives up says why below.
    while !is_storm(kills).await? && !senders.iter().any(|sender| sender.is_finished()) {
        pace(KILL_EVERY).await;
        let index = chance.below(servers.len());
        servers[index].process.sigkill()?;
        kills += 1;
        servers[index] = serve(Program::semel()?, &home.url(), LEASE).await?;
        clients.write().await[index] = servers[index].client.clone();
    }
    over.store(true, Ordering::SeqCst);
    for sender in senders {
        sender.await??;
    }
    until_none(&client, ACTIVE).await?;

    let wanted = numbers.load(Ordering::SeqCst);
    let all = "SELECT count(*), count(DISTINCT id) FROM acts";
    let row = rows.query_one(all, &[]).await?;
    let (found, different): (i64, i64) = (row.get(0), row.get(1));
    let again = count(&client, AGAIN).await?;
    let other = "SELECT count(*) FROM runs WHERE state <> 'succeeded'";
    let other: i64 = client.query_one(other, &[]).await?.get(0);
    let figures = json!({
        "runs": wanted,
        "kills": kills,
        "seconds": begun.elapsed().as_secs(),
        "rows": found,
        "different_rows": different,
        "performed_more_than_once": again,
        "not_succeeded": other,
    });
    println!("{figures:#}");
    ensure!(other == 0, "{other} runs did not succeed");
    ensure!(
        (found, different) == (wanted as i64, wanted as i64),
        "{found} rows, {different} different, for {wanted} runs"
    );
    invariants::hold(&home, &servers.iter().collect::<Vec<_>>()).await?;
    keep_figures("db-under-fire", &figures)
}

/// Delivers one key after another, each until it is accepted, as senders do.
async fn send(
    clients: Arc<RwLock<Vec<Arc<Client>>>>,
    numbers: Arc<AtomicUsize>,
    over: Arc<AtomicBool>,
) -> Result<()> {
    while !over.load(Ordering::SeqCst) {
        let number = numbers.fetch_add(1, Ordering::SeqCst);
        let body = format!(r#"{{"id":"row-{number:06}"}}"#);
        for turn in number.. {
            let client = {
                let clients = clients.read().await;
                clients[turn % clients.len()].clone()
            };
            match client.post("/hooks/default/insert", body.clone()).await {
                Ok(answer) if answer.status.is_success() => break,
                Ok(answer) => ensure!(answer.status.is_server_error(), "{}", answer.text()),
                Err(_) => {}
            }
            pace(REST).await;
        }
        pace(PACE).await;
    }
    Ok(())
}
