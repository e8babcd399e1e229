//! Shared resources have limits: connections, memory, and the time of the database. Slow clients
//! and readers cannot cost a server its lease, fill its memory, or use up the database's
//! connections.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hyper::Method;
use semel_testkit::{Client, Cluster, Connection, Options, Program, pace, patience, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::campaign::{is_measured, size};
use crate::invariants;
use crate::queries::{ACTIVE, SUCCEEDED, count, until_count};
use crate::servers::{Home, Served, serve};

/// How many runs sleep, unless `SEMEL_SHARING_SLEEPERS` says otherwise.
const SLEEPERS: usize = 50_000;

/// How many expiries of the server's session the storm sees: each renewal sets a later one.
const EXPIRIES: usize = 3;

/// For how many seconds the storm lasts at least, unless `SEMEL_SHARING_SECS` says otherwise.
const STORM_SECS: u64 = 0;

/// How many clients are slow, unless `SEMEL_SHARING_CLIENTS` says otherwise.
const SLOW_CLIENTS: usize = 1_000;

/// How many runs of the largest size wake at once, unless `SEMEL_SHARING_LARGE` says otherwise.
const LARGE_RUNS: usize = 30;

/// How many clients ask for metrics, and as many for lists.
const ONLOOKERS: usize = 16;

/// How many connections the database takes.
const CONNECTIONS_MAX: &str = "60";

/// How many connections one server may hold: what `docs/operations.md` says.
const SERVER_CONNECTIONS_MAX: i64 = 27;

/// How much memory a server is configured with, and may use at most, in MiB.
const MEMORY_MIB: u64 = 512;

/// How long a delivery may take beside all that, where it is measured.
const DELIVERY_MAX: Duration = Duration::from_secs(5);

const FLOW: &str = "flow: orders
trigger:
  webhook: { auth: none, key: input.id }
steps:
  - { id: note, kv: { add: orders } }
";

/// Runs of it rest until all wake at the same moment.
const LARGE_FLOW: &str = "flow: large
trigger:
  webhook: { auth: none, key: input.id }
steps:
  - { id: rest, wait: { until: input.at } }
  - { id: note, kv: { set: 'woken/${{ input.id }}', value: 1 } }
";

struct Ground {
    _cluster: Cluster,
    home: Home,
    server: Served,
    client: Connection,
}

async fn start(lease: &str) -> Result<Ground> {
    let options = Options::quick().with("max_connections", CONNECTIONS_MAX);
    let cluster = Cluster::start(options).await?;
    let home = Home::found(cluster.server()).await?;
    let program = Program::semel()?
        .env("SEMEL_HOOK_RATE", "0")
        .env("SEMEL_MEMORY", MEMORY_MIB.to_string());
    let server = serve(program, &home.url(), lease).await?;
    home.publish(&server, "orders", FLOW).await?;
    let client = home.connect().await?;
    Ok(Ground {
        _cluster: cluster,
        home,
        server,
        client,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_do_not_cost_the_server_its_lease() -> Result<()> {
    let sleepers = size("SEMEL_SHARING_SLEEPERS", SLEEPERS)?;
    let secs = size("SEMEL_SHARING_SECS", STORM_SECS)?;
    // A machine that stands still for some seconds must not cost the server its lease.
    let ground = start("10s").await?;
    add_sleepers(&ground.client, sleepers).await?;
    let before = sessions(&ground.client).await?;

    let least = Instant::now() + Duration::from_secs(secs);
    let over = Arc::new(AtomicBool::new(false));
    let mut storm = JoinSet::new();
    let paths = [
        "/metrics",
        "/v1/effects?limit=500",
        "/v1/runs?state=failed",
        "/v1/keys/orders/audit",
    ];
    for number in 0..ONLOOKERS * 2 {
        let path = paths[if number < ONLOOKERS {
            0
        } else {
            1 + number % 3
        }];
        let client = Client::new(ground.server.address, 1);
        let bearer = format!("Bearer {}", ground.home.token());
        storm.spawn(look(client, path, bearer, over.clone()));
    }
    for number in 0..4 {
        storm.spawn(hang_up(
            ground.server.address,
            ground.home.token().to_owned(),
            number,
            over.clone(),
        ));
    }
    let (mut seen, mut expiries) = (BTreeSet::new(), BTreeSet::new());
    let (mut most, mut deliveries, mut slowest) = (0, 0_u32, Duration::ZERO);
    let deliver_and_look = async || -> Result<bool> {
        seen.extend(sessions(&ground.client).await?);
        ensure!(seen == before, "{before:?}, then {seen:?}");
        expiries.insert(expiry(&ground.client).await?);
        most = most.max(count_connections(&ground.client).await?);
        slowest = slowest.max(deliver(&ground.server, &format!("storm-{deliveries}")).await?);
        deliveries += 1;
        pace(Duration::from_millis(50)).await;
        Ok(expiries.len() >= EXPIRIES && Instant::now() >= least)
    };
    let what = "a session that is renewed in the storm";
    until(what, deliver_and_look, |is_over| *is_over).await?;
    over.store(true, Ordering::SeqCst);
    let mut answered = 0;
    while let Some(looked) = storm.join_next().await {
        answered += looked??;
    }

    let metrics = ground
        .home
        .command(&ground.server, Method::GET, "/metrics", String::new())
        .await?
        .text();
    println!(
        "{answered} answers, {deliveries} deliveries, the slowest {slowest:?}, {most} connections"
    );
    ensure!(metrics.contains("semel_fenced_total 0"), "{metrics}");
    ensure!(most <= SERVER_CONNECTIONS_MAX, "{most} connections");
    must_be_quick(slowest, DELIVERY_MAX)?;
    ensure!(answered > 0, "no request was answered");
    // The sleepers are rows of the queue alone.
    invariants::hold_but(&ground.home, &[&ground.server], &["records"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_clients_stay_within_their_memory_budget() -> Result<()> {
    let clients = size("SEMEL_SHARING_CLIENTS", SLOW_CLIENTS)?;
    let ground = start("10s").await?;
    deliver(&ground.server, "before").await?;

    // A third announces a megabyte to a hook and sends nothing, a third sends all but its last
    // byte, and a third sends it to a hook that is not there.
    let mut slow = JoinSet::new();
    for number in 0..clients {
        let address = ground.server.address;
        let (hook, sends) = match number % 3 {
            0 => ("orders", 0),
            1 => ("orders", BODY - 1),
            _ => ("nothing", BODY - 1),
        };
        slow.spawn(be_slow(address, hook, sends));
    }
    let (mut peak, mut slowest, mut number) = (0, Duration::ZERO, 0_u32);
    let mut answers = Vec::new();
    while !slow.is_empty() {
        peak = peak.max(resident_mib(ground.server.process.id())?);
        slowest = slowest.max(deliver(&ground.server, &format!("beside-{number}")).await?);
        number += 1;
        while let Some(done) = slow.try_join_next() {
            answers.push(done??);
        }
        pace(Duration::from_millis(20)).await;
    }

    let unknown = answers
        .iter()
        .filter(|answer| answer.as_str() == "404")
        .count();
    println!("peak {peak} MiB, {number} deliveries, the slowest {slowest:?}");
    ensure!(peak < MEMORY_MIB, "{peak} MiB");
    must_be_quick(slowest, DELIVERY_MAX * 2)?;
    // A connection that is closed while its client still sends may lose the answer on its way: the slower the client,
    // the more often.
    ensure!(
        unknown > 0,
        "nobody got the answer that there is no such hook"
    );
    invariants::hold(&ground.home, &[&ground.server]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn large_runs_that_wake_at_once_share_the_memory() -> Result<()> {
    let runs = size("SEMEL_SHARING_LARGE", LARGE_RUNS)?;
    let ground = start("10s").await?;
    let (server, client) = (&ground.server, &ground.client);
    ground.home.publish(server, "large", LARGE_FLOW).await?;
    let at: String = client
        .query_one(
            "SELECT to_char(now() AT TIME ZONE 'UTC' + interval '1 hour',
                            'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')",
            &[],
        )
        .await?
        .get(0);
    // Half are one long text, half become many times their size in memory.
    let pads = [
        format!("\"{}\"", "x".repeat(BODY - 200)),
        format!("[{}0]", "0,".repeat(BODY / 2 - 100)),
    ];
    for number in 0..runs {
        let pad = &pads[number % 2];
        let body = format!(r#"{{"id":"{number}","at":"{at}","pad":{pad}}}"#);
        let answer = server.client.post("/hooks/default/large", body).await?;
        ensure!(answer.status == 202, "{}", answer.text());
    }
    // Accepted comes before asleep.
    let asleep = "SELECT count(*) FROM queue WHERE due_at > moment()";
    until_count(client, asleep, runs).await?;

    ground.home.pass("1 hour").await?;
    let mut peak = 0;
    let mut left = runs;
    while left > 0 {
        // Each run that ends has the patience of a whole wait.
        let before = left;
        let look = async || {
            peak = peak.max(resident_mib(server.process.id())?);
            count(client, ACTIVE).await
        };
        left = until("one more large run to end", look, |left| *left < before).await?;
    }

    let ended = count(client, SUCCEEDED).await?;
    println!("peak {peak} MiB; {runs} woke at once");
    ensure!(ended == runs, "{ended} succeeded");
    ensure!(peak < MEMORY_MIB, "{peak} MiB");
    invariants::hold_but(&ground.home, &[server], &["duties"]).await
}

/// A body of the largest size.
const BODY: usize = 1 << 20;

/// Announces a body, sends a part of it, and waits for whatever the server says.
async fn be_slow(address: std::net::SocketAddr, hook: &str, sends: usize) -> Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let head = format!(
        "POST /hooks/default/{hook} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
         content-length: {BODY}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    let piece = vec![b' '; 16 * 1024];
    let mut left = sends;
    let mut answer = vec![0; 64];
    let (mut reading, mut writing) = stream.split();
    let send = async {
        while left > 0 {
            let length = left.min(piece.len());
            if writing.write_all(&piece[..length]).await.is_err() {
                break;
            }
            left -= length;
        }
        std::future::pending::<()>().await;
    };
    let read = timeout(patience(), reading.read(&mut answer));
    let read = tokio::select! {
        () = send => 0,
        read = read => read.context("the server says nothing")?.unwrap_or(0),
    };
    let text = String::from_utf8_lossy(&answer[..read]).into_owned();
    Ok(text.split_whitespace().nth(1).unwrap_or("cut").to_owned())
}

/// Asks for the same again and again. Gives how many answers there were.
async fn look(client: Client, path: &str, bearer: String, over: Arc<AtomicBool>) -> Result<u64> {
    let mut answered = 0;
    while !over.load(Ordering::SeqCst) {
        let headers = [("authorization", bearer.as_str())];
        let answer = client.send(Method::GET, path, &headers, "".into()).await?;
        ensure!(
            // One audit of keys is read at a time.
            [200, 429, 503].contains(&answer.status.as_u16()),
            "{path}: {}",
            answer.text()
        );
        answered += 1;
    }
    Ok(answered)
}

/// Asks for something heavy and hangs up at once, again and again.
async fn hang_up(
    address: std::net::SocketAddr,
    token: String,
    number: u64,
    over: Arc<AtomicBool>,
) -> Result<u64> {
    while !over.load(Ordering::SeqCst) {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!(
            "GET /v1/keys/orders/audit HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        pace(Duration::from_millis(5 + number * 3)).await;
    }
    Ok(0)
}

/// Delivers once; how long that took.
async fn deliver(server: &Served, id: &str) -> Result<Duration> {
    let begun = Instant::now();
    let client = Arc::clone(&server.client);
    loop {
        let body = format!(r#"{{"id":"{id}"}}"#);
        let answer = client.post("/hooks/default/orders", body).await?;
        match answer.status.as_u16() {
            202 => return Ok(begun.elapsed()),
            503 => pace(Duration::from_millis(100)).await,
            _ => anyhow::bail!("{}", answer.text()),
        }
    }
}

/// Puts runs into the queue that are due in two months.
async fn add_sleepers(client: &Connection, count: usize) -> Result<()> {
    let count = i64::try_from(count)?;
    let text = "INSERT INTO queue (run_id, due_at, epoch, seq, partition_date, namespace_id, stage)
        SELECT gen_random_uuid(), now() + interval '60 days' + n * interval '1 second', 1, 1,
               current_date, 1, 'waiting'
          FROM generate_series(1, $1::int8) AS n";
    client.execute(text, &[&count]).await?;
    Ok(())
}

async fn sessions(client: &Connection) -> Result<BTreeSet<String>> {
    let rows = client.query("SELECT id::text FROM sessions", &[]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Until when the session of the server holds.
async fn expiry(client: &Connection) -> Result<String> {
    let text = "SELECT max(expires_at)::text FROM sessions";
    Ok(client.query_one(text, &[]).await?.get(0))
}

/// Demands something of the slowest delivery where it is measured.
fn must_be_quick(slowest: Duration, most: Duration) -> Result<()> {
    ensure!(
        !is_measured() || slowest < most,
        "a delivery took {slowest:?}"
    );
    Ok(())
}

async fn count_connections(client: &Connection) -> Result<i64> {
    let text = "SELECT count(*) FROM pg_stat_activity
                 WHERE datname = current_database() AND application_name = 'semel'";
    Ok(client.query_one(text, &[]).await?.get(0))
}

/// How much memory a process has, in MiB.
pub(crate) fn resident_mib(process: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(kib.context("a process has memory")?.parse::<u64>()? / 1024)
}
