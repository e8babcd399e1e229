//! The memory of a server beside those who ask much of it: runs that wake together with large answers, readers of a large
//! journal, and runs that grow with each of their steps. Beside each of them five hundred deliveries come in a second.
//!
//! ```text
//! pair    A          B               B               A
//!         deliveries deliveries      deliveries      deliveries
//!                    and the sender  and the sender
//! ```
//!
//! Two neighbours are compared, because a machine varies from one minute to the next. What the sender may cost is the
//! quarter of the memory that is planned for runs, and a little for what is on its way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hyper::Method;
use semel_testkit::{Client, Cluster, Connection, Program, pace};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::campaign::{keep_figures, size, storage};
use crate::invariants;
use crate::queries::{count, until_count};
use crate::servers::{Home, Served, serve};
use crate::sharing::resident_mib;

/// MiB for which the server plans.
const MEMORY_MIB: u64 = 512;

/// The most MiB that a sender costs: the quarter for runs, and 32.
const COST_MAX_MIB: u64 = MEMORY_MIB / 4 + 32;

/// How many pairs are measured, unless `SEMEL_MEMORY_PAIRS` says otherwise.
const PAIRS: usize = 10;

/// Of ten ratios, the second and the ninth enclose the median with nine parts in ten.
const RANKS_OUTSIDE: usize = 1;

/// The time between two deliveries, and how many there are in a slice without a sender.
const EVERY: Duration = Duration::from_millis(2);
const SLICE: u32 = 5 * 500;

/// How many times as long the slowest hundredth of the deliveries may take beside a sender.
const RATIO_MAX: f64 = 1.5;

/// The time between two looks at the memory.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How many runs wake together, and how many numbers each answer has: a megabyte.
const WOKEN: usize = 60;
const NUMBERS: usize = 520_000;

/// How many readers ask for one journal at once.
const READERS: usize = 60;

/// How many steps the run has that they read, how many the runs have that grow, and how many of those there are.
const STEPS_READ: usize = 200;
const STEPS_GROWN: usize = 60;
const GROWING: usize = 12;

/// How many numbers the output of each step of a large run has.
const ROWS: usize = 30_000;

const BESIDE: &str = "flow: beside
trigger:
  webhook: { auth: none, key: input.id }
steps:
  - { id: note, kv: { set: 'beside', value: 1 } }
";

const WAITS: &str = "flow: waits
trigger:
  webhook: { auth: none, key: input.id }
steps:
  - { id: told, kv: { set: 'address/${{ input.id }}', value: '${{ waits.back.url }}' } }
  - { id: back, wait: { callback: true, within: 1d } }
  - { id: mark, kv: { add: called } }
";

/// A kind of traffic that asks for much memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sender {
    Answers,
    Readers,
    Growing,
}

/// One server, and what comes in beside.
struct Ground {
    _cluster: Cluster,
    home: Home,
    server: Served,
    sql: Connection,
    beside: Arc<Client>,
    /// The run whose journal is read.
    large: String,
}

/// The measurements of one slice.
struct Slice {
    p99_ms: f64,
    peak_mib: u64,
}

impl Ground {
    async fn start(sender: Sender) -> Result<Self> {
        let cluster = Cluster::start(storage()).await?;
        let home = Home::found(cluster.server()).await?;
        let program = Program::semel()?.env("SEMEL_MEMORY", MEMORY_MIB.to_string());
        let server = serve(program, &home.url(), "10s").await?;
        home.publish(&server, "beside", BESIDE).await?;
        let source = match sender {
            Sender::Answers => WAITS.to_owned(),
            Sender::Readers => grows(STEPS_READ, ""),
            Sender::Growing => grows(STEPS_GROWN, "  - { id: rest, wait: { for: 1s } }\n"),
        };
        let flow = if sender == Sender::Answers {
            "waits"
        } else {
            "grows"
        };
        home.publish(&server, flow, &source).await?;
        let mut ground = Self {
            sql: home.connect().await?,
            beside: Arc::new(Client::new(server.address, 64)),
            large: String::new(),
            _cluster: cluster,
            home,
            server,
        };
        if sender == Sender::Readers {
            ground.large = ground.deliver("grows", "large", ROWS).await?;
            ground.until_done("grows").await?;
        }
        Ok(ground)
    }

    /// Starts a run that carries so many numbers.
    async fn deliver(&self, flow: &str, id: &str, rows: usize) -> Result<String> {
        let body = json!({ "id": id, "rows": vec![0; rows] }).to_string();
        let path = format!("/hooks/default/{flow}");
        let answer = insist(&self.server.client, &path, &body).await?;
        let answer: Value = serde_json::from_str(&answer)?;
        Ok(answer["run"].as_str().context("a run")?.to_owned())
    }

    /// Waits until no run of a flow is left.
    async fn until_done(&self, flow: &str) -> Result<()> {
        let left = format!(
            "SELECT count(*) FROM runs r
               JOIN releases l ON l.id = r.release_id
               JOIN flows f ON f.id = l.flow_id
              WHERE f.name = '{flow}' AND r.ended_at IS NULL"
        );
        until_count(&self.sql, &left, 0).await
    }

    /// Sends the traffic of one slice.
    async fn send(&self, sender: Sender, slice: usize) -> Result<()> {
        match sender {
            Sender::Answers => self.answer_all(slice).await,
            Sender::Readers => self.read_all().await,
            Sender::Growing => {
                let ids: Vec<String> = (0..GROWING).map(|n| format!("{slice}-{n}")).collect();
                let sent = ids.iter().map(|id| self.deliver("grows", id, ROWS));
                futures_util::future::try_join_all(sent).await?;
                self.until_done("grows").await
            }
        }
    }

    /// Runs are answered while they are paused, and wake together.
    async fn answer_all(&self, slice: usize) -> Result<()> {
        for number in 0..WOKEN {
            let id = format!("{slice}-{number}");
            self.deliver("waits", &id, 0).await?;
        }
        let open = "SELECT count(*) FROM waits WHERE state = 'open'";
        until_count(&self.sql, open, WOKEN).await?;
        self.change("pause", slice, r#"{"reason":"a storm"}"#)
            .await?;
        let told = "SELECT value::text FROM kv WHERE starts_with(entry, $1::text)";
        let of_slice = format!("address/{slice}-");
        let body = format!("[{}0]", "0,".repeat(NUMBERS - 1));
        for row in self.sql.query(told, &[&of_slice]).await? {
            let url: Value = serde_json::from_str(row.get(0))?;
            let url = url.as_str().context("an address")?;
            let at = url.find("/callbacks/").context("a callback's address")?;
            insist(&self.server.client, &url[at..], &body).await?;
        }
        self.change("resume", slice, "{}").await?;
        self.until_done("waits").await
    }

    async fn change(&self, verb: &str, slice: usize, body: &str) -> Result<()> {
        let (bearer, key) = (self.bearer(), format!("{verb} {slice}"));
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("idempotency-key", key.as_str()),
        ];
        let path = format!("/v1/flows/waits/{verb}");
        let client = &self.server.client;
        let answer = client.send(Method::POST, &path, &headers, body.to_owned().into());
        let answer = answer.await?;
        ensure!(answer.status.is_success(), "{path}: {}", answer.text());
        Ok(())
    }

    /// Many ask for one journal at once. Who has to wait for memory may be told to come again.
    async fn read_all(&self) -> Result<()> {
        let path = format!("/v1/runs/{}", self.large);
        let mut readers = JoinSet::new();
        for _ in 0..READERS {
            let (path, bearer) = (path.clone(), self.bearer());
            let client = Client::new(self.server.address, 1);
            readers.spawn(async move {
                let headers = [("authorization", bearer.as_str())];
                let answer = client.send(Method::GET, &path, &headers, "".into()).await?;
                let status = answer.status.as_u16();
                ensure!([200, 429, 503].contains(&status), "{}", answer.text());
                Ok::<u16, anyhow::Error>(status)
            });
        }
        let mut read = 0;
        while let Some(status) = readers.join_next().await {
            read += usize::from(status?? == 200);
        }
        ensure!(read > 0, "nobody got the journal");
        Ok(())
    }

    fn bearer(&self) -> String {
        format!("Bearer {}", self.home.token())
    }

    /// Delivers at one pace, and has the sender send meanwhile where there is one.
    async fn measure(&self, sender: Option<Sender>, number: usize) -> Result<Slice> {
        let over = AtomicBool::new(sender.is_none());
        let all_over = AtomicBool::new(false);
        let peak = AtomicU64::new(0);
        let send = async {
            if let Some(sender) = sender {
                self.send(sender, number).await?;
            }
            over.store(true, Ordering::SeqCst);
            Ok::<(), anyhow::Error>(())
        };
        let deliver = async {
            let took = self.deliver_beside(number, &over).await;
            all_over.store(true, Ordering::SeqCst);
            took
        };
        let look = async {
            while !all_over.load(Ordering::SeqCst) {
                peak.fetch_max(resident_mib(self.server.process.id())?, Ordering::SeqCst);
                pace(LOOK_EVERY).await;
            }
            Ok::<(), anyhow::Error>(())
        };
        let ((), mut took, ()) = tokio::try_join!(send, deliver, look)?;
        took.sort_by(f64::total_cmp);
        let p99_ms = took.get(took.len() * 99 / 100).copied();
        Ok(Slice {
            p99_ms: p99_ms.context("deliveries")?,
            peak_mib: peak.into_inner(),
        })
    }

    /// Delivers for a slice, and on until the sender is done. Gives how many milliseconds each took.
    async fn deliver_beside(&self, slice: usize, over: &AtomicBool) -> Result<Vec<f64>> {
        let (begun, mut number, mut sent) = (Instant::now(), 0, JoinSet::new());
        let mut took = Vec::new();
        while number < SLICE || !over.load(Ordering::SeqCst) {
            pace((EVERY * number).saturating_sub(begun.elapsed())).await;
            let body = json!({ "id": format!("beside-{slice}-{number}") }).to_string();
            let client = self.beside.clone();
            sent.spawn(async move {
                let begun = Instant::now();
                insist(&client, "/hooks/default/beside", &body).await?;
                Ok::<f64, anyhow::Error>(begun.elapsed().as_secs_f64() * 1e3)
            });
            number += 1;
            while let Some(done) = sent.try_join_next() {
                took.push(done??);
            }
        }
        while let Some(done) = sent.join_next().await {
            took.push(done??);
        }
        Ok(took)
    }
}

/// Posts until it is accepted. A server without room for a body asks for it again.
async fn insist(client: &Client, path: &str, body: &str) -> Result<String> {
    loop {
        let answer = client.post(path, body.to_owned()).await?;
        if answer.status.is_success() {
            return Ok(answer.text());
        }
        let is_full = [429, 503].contains(&answer.status.as_u16());
        ensure!(is_full, "{path}: {} {}", answer.status, answer.text());
        pace(LOOK_EVERY).await;
    }
}

/// A flow each of whose steps gives what came with its run.
fn grows(steps: usize, last: &str) -> String {
    let step = |number| format!("  - {{ id: s{number}, function: input.rows }}\n");
    let steps: String = (0..steps).map(step).collect();
    format!(
        "flow: grows\ntrigger:\n  webhook: {{ auth: none, key: input.id }}\nsteps:\n{steps}{last}"
    )
}

/// Measures the memory that a sender costs, and how much slower the deliveries beside it are.
async fn judge(sender: Sender, name: &str) -> Result<()> {
    let pairs = size("SEMEL_MEMORY_PAIRS", PAIRS)?;
    let ground = Ground::start(sender).await?;
    // The first slices of a process are its slowest.
    ground.measure(None, 0).await?;
    let without = ground.measure(None, 1).await?.peak_mib;
    let (mut ratios, mut with, mut number) = (Vec::new(), 0, 2);
    while ratios.len() < pairs {
        let order = match ratios.len() % 2 {
            0 => [None, Some(sender)],
            _ => [Some(sender), None],
        };
        let (mut alone_ms, mut beside_ms) = (0.0, 0.0);
        for side in order {
            let slice = ground.measure(side, number).await?;
            number += 1;
            if side.is_some() {
                (beside_ms, with) = (slice.p99_ms, slice.peak_mib.max(with));
            } else {
                alone_ms = slice.p99_ms;
            }
        }
        println!("{name}: p99 alone {alone_ms:.1} ms, beside {beside_ms:.1} ms, peak {with} MiB");
        ratios.push(beside_ms / alone_ms);
    }

    ratios.sort_by(f64::total_cmp);
    let at = |rank: usize| ratios.get(rank).copied().unwrap_or(f64::NAN);
    let median = (at((pairs - 1) / 2) + at(pairs / 2)) / 2.0;
    let cost = with.saturating_sub(without);
    let figures = json!({
        "memory_mib": MEMORY_MIB,
        "without_mib": without,
        "peak_mib": with,
        "cost_mib": cost,
        "cost_max_mib": COST_MAX_MIB,
        "pairs": pairs,
        "p99_ratio": {
            "median": median,
            "low": at(RANKS_OUTSIDE),
            "high": at(pairs.saturating_sub(1 + RANKS_OUTSIDE)),
            "goal": RATIO_MAX,
        },
    });
    println!("{figures:#}");
    keep_figures(&format!("memory-{name}"), &figures)?;
    let stopped = "SELECT count(*) FROM runs WHERE state NOT IN ('active', 'succeeded')";
    let stopped = count(&ground.sql, stopped).await?;
    ensure!(stopped == 0, "{stopped} runs did not succeed");
    ensure!(
        cost <= COST_MAX_MIB,
        "{without} MiB without the sender, {with} with it"
    );
    ensure!(median <= RATIO_MAX, "p99 rose {median:.2} times");
    invariants::hold(&ground.home, &[&ground.server]).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures a server for minutes; .ci/long chaos runs it"]
async fn runs_that_wake_together_with_large_answers_cost_what_is_planned_for_runs() -> Result<()> {
    judge(Sender::Answers, "answers").await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures a server for minutes; .ci/long chaos runs it"]
async fn readers_of_a_large_journal_cost_what_is_planned_for_runs() -> Result<()> {
    judge(Sender::Readers, "readers").await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures a server for minutes; .ci/long chaos runs it"]
async fn runs_that_grow_with_each_step_cost_what_is_planned_for_runs() -> Result<()> {
    judge(Sender::Growing, "growing").await
}
