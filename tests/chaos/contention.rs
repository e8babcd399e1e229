//! Many runs that want the same few things, in both orders: entries, locks, gates and lists.
//!
//! Semel locks several rows always in the same order, so there are no deadlocks and no long waits.
//! PostgreSQL itself is the witness: it logs each deadlock, and each wait for a lock that lasts
//! longer than `deadlock_timeout`.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use semel_testkit::{Cluster, Connection, Options, Program};
use serde_json::json;

use crate::campaign::{scaled, size};
use crate::crowd::{self, Post};
use crate::invariants;
use crate::queries::{count, until_count};
use crate::servers::{Home, Served, serve, until_known};

/// How many runs use the two counters, half of them in the other order, unless `SEMEL_COUNTER_RUNS` says
/// otherwise: with every change, and in a campaign.
const RUNS: usize = 400;
const RUNS_FULL: usize = 1_000;

/// How many runs of each flow there are over three servers, unless `SEMEL_CONTENTION_RUNS` says otherwise.
const RUNS_EACH: usize = 60;
const RUNS_EACH_FULL: usize = 120;

/// How many connections a sender has.
const CONNECTIONS: usize = 32;

/// From how many milliseconds on PostgreSQL logs a wait for a lock.
const LOGGED_MS: f64 = 500.0;

/// The variable that says how long a wait for a lock may last, in milliseconds: a campaign demands 100 of
/// a release build. Otherwise nothing is demanded, because it includes the wait of the lock's holder for a
/// processor.
const WAIT_MAX: &str = "SEMEL_LOCK_WAIT_MS";

/// Flows that touch the same entries, locks, gates and lists, each in another order.
const FLOWS: [(&str, &str); 8] = [
    (
        "forth",
        "steps:\n  - { id: one, kv: { add: a } }\n  - { id: two, kv: { add: b } }\n",
    ),
    (
        "back",
        "steps:\n  - { id: one, kv: { add: b } }\n  - { id: two, kv: { add: a } }\n",
    ),
    (
        "keep",
        "steps:\n  - { id: one, kv: { set: c, value: 1 } }\n  - { id: two, kv: { delete: d } }\n\
         \x20 - { id: three, kv: { add: a } }\n",
    ),
    (
        "drop",
        "steps:\n  - { id: one, kv: { delete: c } }\n  - { id: two, kv: { add: b } }\n\
         \x20 - { id: three, kv: { set: d, value: 1 } }\n",
    ),
    ("doors", DOORS),
    ("exits", DOORS),
    (
        "gated",
        "overlap: { key: input.object, policy: queue }\nsteps:\n  - { id: one, kv: { add: a } }\n",
    ),
    (
        "lists",
        "steps:\n  - id: all\n    foreach:\n      in: input.items\n      key: item\n      \
         parallel: 3\n      steps:\n        - { id: one, kv: { add: b } }\n",
    ),
];

const DOORS: &str = "steps:
  - { id: take, kv: { lock: FIRST, lease: 10m } }
  - { id: free, kv: { unlock: FIRST } }
  - { id: take2, kv: { lock: SECOND, lease: 10m } }
  - { id: free2, kv: { unlock: SECOND } }
";

#[tokio::test(flavor = "multi_thread")]
async fn two_hot_counters_in_both_orders_make_no_deadlock() -> Result<()> {
    let runs = scaled("SEMEL_COUNTER_RUNS", RUNS, RUNS_FULL)?;
    let cluster = Cluster::start(watched()?).await?;
    let home = Home::found(cluster.server()).await?;
    let server = start(&home).await?;
    for (name, steps) in &FLOWS[..2] {
        home.publish(&server, name, &source(name, steps)).await?;
    }
    let client = home.connect().await?;

    let begun = Instant::now();
    let posts = (0..runs).map(|number| post(FLOWS[number % 2].0, number));
    deliver(&server, posts.collect()).await?;
    until_count(&client, ENDED, runs).await?;
    let took = begun.elapsed().as_secs_f64();

    let rows = count(&client, "SELECT count(*) FROM journal").await?;
    let report = Report::read(&client, cluster.home()).await?;
    println!(
        "{runs} runs of two counters in {took:.1} s, {:.0} transitions/s; {report:?}",
        rows as f64 / took
    );
    for counter in ["a", "b"] {
        let text = format!("SELECT value::text::int8 FROM kv WHERE entry = '{counter}'");
        ensure!(count(&client, &text).await? == runs, "{counter} is off");
    }
    ensure!(report.deadlocks == 0, "{report:?}");
    invariants::hold(&home, &[&server]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn three_servers_that_want_the_same_things_make_no_deadlock_and_wait_briefly() -> Result<()> {
    let runs_each = scaled("SEMEL_CONTENTION_RUNS", RUNS_EACH, RUNS_EACH_FULL)?;
    let cluster = Cluster::start(watched()?).await?;
    let home = Home::found(cluster.server()).await?;
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(start(&home).await?);
    }
    for (name, steps) in FLOWS {
        home.publish(&servers[0], name, &source(name, steps))
            .await?;
    }
    until_known(&servers, FLOWS[FLOWS.len() - 1].0).await?;
    let client = home.connect().await?;

    let begun = Instant::now();
    let share = |server: usize| {
        let numbers = (0..runs_each).filter(move |number| number % 3 == server);
        let posts = numbers.flat_map(|number| FLOWS.map(|(name, _)| post(name, number)));
        posts.collect::<Vec<Post>>()
    };
    tokio::try_join!(
        deliver(&servers[0], share(0)),
        deliver(&servers[1], share(1)),
        deliver(&servers[2], share(2)),
    )?;
    until_count(&client, ENDED, runs_each * FLOWS.len()).await?;
    let took = begun.elapsed().as_secs_f64();

    let rows = count(&client, "SELECT count(*) FROM journal").await?;
    let report = Report::read(&client, cluster.home()).await?;
    println!(
        "{} runs over three servers in {took:.1} s, {:.0} transitions/s; {report:?}",
        runs_each * FLOWS.len(),
        rows as f64 / took
    );
    // `forth`, `back`, `keep` and `gated` add once to `a`; `forth`, `back` and `drop` once to `b`,
    // and `lists` three times.
    let wanted = [("a", 4 * runs_each), ("b", 6 * runs_each)];
    for (counter, wanted) in wanted {
        let text = format!("SELECT value::text::int8 FROM kv WHERE entry = '{counter}'");
        let found = count(&client, &text).await?;
        ensure!(found == wanted, "{counter} is {found}, not {wanted}");
    }
    ensure!(report.deadlocks == 0, "{report:?}");
    ensure!(report.given_up == 0, "{report:?}");
    if let Some(most_ms) = wait_max_ms()? {
        ensure!(report.longest_ms() < most_ms, "{report:?}");
    }
    invariants::hold(&home, &servers.iter().collect::<Vec<_>>()).await
}

/// A server that logs each wait for a lock that lasts too long.
fn watched() -> Result<Options> {
    let logged = LOGGED_MS.min(wait_max_ms()?.unwrap_or(LOGGED_MS));
    Ok(Options::quick()
        .with("log_lock_waits", "on")
        .with("deadlock_timeout", &format!("{logged}ms")))
}

fn wait_max_ms() -> Result<Option<f64>> {
    match std::env::var_os(WAIT_MAX) {
        Some(_) => size(WAIT_MAX, LOGGED_MS).map(Some),
        None => Ok(None),
    }
}

async fn start(home: &Home) -> Result<Served> {
    let program = Program::semel()?.env("SEMEL_HOOK_RATE", "0");
    serve(program, &home.url(), "30s").await
}

fn source(name: &str, steps: &str) -> String {
    let (first, second) = match name {
        "doors" => ("left", "right"),
        _ => ("right", "left"),
    };
    let steps = steps.replace("FIRST", first).replace("SECOND", second);
    format!(
        "flow: {name}\ntrigger:\n  webhook: {{ auth: none, key: input.id }}\n\
         retry: {{ attempts: 100, delay: 50ms, max_delay: 1s, within: 1h }}\n{steps}"
    )
}

fn post(flow: &str, number: usize) -> Post {
    let body = json!({ "id": format!("{flow}-{number}"), "object": number % 5,
        "items": ["x", "y", "z"] });
    Post {
        subject: number,
        path: format!("/hooks/default/{flow}"),
        body: body.to_string(),
    }
}

async fn deliver(server: &Served, posts: Vec<Post>) -> Result<()> {
    for (_, answer) in crowd::send(server, CONNECTIONS, posts).await? {
        ensure!(answer.status.is_success(), "{}", answer.text());
    }
    Ok(())
}

const ENDED: &str = "SELECT count(*) FROM runs WHERE state = 'succeeded' AND parent_id IS NULL";

/// What PostgreSQL saw of waiting.
#[derive(Debug)]
struct Report {
    deadlocks: usize,
    /// How long each lasted that PostgreSQL logged.
    long_waits_ms: Vec<f64>,
    /// How many of those never came to their lock.
    given_up: usize,
}

impl Report {
    async fn read(client: &Connection, home: &Path) -> Result<Self> {
        let log = std::fs::read_to_string(home.join("log")).context("PostgreSQL's log")?;
        let count_lines = |words: &str| log.lines().filter(|line| line.contains(words)).count();
        let acquired = log.lines().filter(|line| line.contains(" acquired "));
        let long_waits_ms: Vec<f64> = acquired.filter_map(milliseconds).collect();
        // The view lags behind, the log does not: either is enough to be seen by.
        let text = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
        let counted = count(client, text).await?;
        Ok(Self {
            deadlocks: counted.max(count_lines("deadlock detected")),
            given_up: count_lines(" still waiting for ").saturating_sub(long_waits_ms.len()),
            long_waits_ms,
        })
    }

    fn longest_ms(&self) -> f64 {
        self.long_waits_ms.iter().copied().fold(0.0, f64::max)
    }
}

/// The number before the last ` ms` of a line.
fn milliseconds(line: &str) -> Option<f64> {
    let (before, _) = line.rsplit_once(" ms")?;
    before.rsplit(' ').next()?.parse().ok()
}
