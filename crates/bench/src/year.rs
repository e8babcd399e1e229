//! A year in minutes: months of runs at a clock that is moved, and how large the tables are after each.
//!
//! Retention works as it does in a year: keys expire, runs are deleted after their history, partitions are made and
//! dropped. Some runs of the first month sleep for longer than the year. Over the turn of one month a reader holds
//! its locks, as a dump does.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use semel_testkit::{Cluster, Peer, Program};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_postgres::Client;

use crate::chart::{self, Line};
use crate::ground::{self, Semel};
use crate::load::{Keys, Poster, Sender as _};

/// How many senders start runs.
const SENDERS: u64 = 64;

/// How many runs sleep for longer than the year.
const STRAGGLERS: u64 = 20;

/// The turn of the month over which a reader holds its locks.
const DUMP_MONTH: u32 = 6;

/// How long retention may take for a month's runs.
const PATIENCE: Duration = Duration::from_secs(300);

const SLEEPER_FLOW: &str = "
flow: sleeper
trigger:
  webhook: { auth: none, key: input.id }
steps:
  - id: long
    wait: { for: 366d }
";

/// What grows with runs, by table; partitions count for their table.
const SIZES: &str = "
    SELECT coalesce(p.relname, c.relname)::text, sum(pg_total_relation_size(c.oid))::float8 / 1048576
      FROM pg_class c
      LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
      LEFT JOIN pg_class p ON p.oid = i.inhparent
     WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
       AND coalesce(p.relname, c.relname) IN ('runs', 'claims', 'journal', 'effects', 'kv', 'queue')
     GROUP BY 1
     ORDER BY 1";

const COUNTS: &str = "
    SELECT (SELECT count(*) FROM runs), (SELECT count(*) FROM claims),
           (SELECT count(*) FROM pg_inherits WHERE inhparent = 'journal'::regclass),
           (SELECT count(*) FROM runs WHERE ended_at < moment() - interval '90 days')";

/// Plays a year and measures how the tables grow.
#[derive(Debug, Args)]
pub(crate) struct Year {
    /// How many months.
    #[arg(long, default_value_t = 12)]
    months: u32,
    /// How many runs each month has.
    #[arg(long, default_value_t = 20_000)]
    runs: u64,
    /// The folder that the figures and their picture are written to.
    #[arg(long)]
    out: PathBuf,
}

/// A month, once it is over.
struct Month {
    sizes: Vec<(String, f64)>,
    runs: i64,
    claims: i64,
    partitions: i64,
    slowest_accept: Duration,
}

/// Plays the year.
pub(crate) async fn run(year: &Year) -> Result<()> {
    let cluster = Cluster::start(ground::options()).await?;
    let server = cluster.server().clone();
    let admin = server.connect("postgres").await?;
    admin.batch_execute("CREATE DATABASE semel").await?;
    let peer = Peer::start().await?;
    let semel = Semel::start(Program::semel, &server.url("semel"), "1024").await?;
    semel.publish_all(&peer).await?;
    semel.publish("sleeper", SLEEPER_FLOW).await?;
    let client = server.connect("semel").await?;
    let dump = server.connect("semel").await?;
    send(&semel, Flow::Sleeper, STRAGGLERS, "sleeper").await?;
    let mut months = Vec::new();
    for month in 1..=year.months {
        let begun = Instant::now();
        send(&semel, Flow::Orders, year.runs, &format!("m{month}")).await?;
        let made = repeat(&semel, &client, &format!("m{month}")).await?;
        ensure!(made == 1, "a key of month {month} has {made} runs");
        if month == DUMP_MONTH {
            let locks =
                "BEGIN; LOCK TABLE runs, claims, queue, journal, effects IN ACCESS SHARE MODE";
            dump.batch_execute(locks).await?;
        }
        let move_ahead = "UPDATE clock SET time_offset = time_offset + interval '30 days 10 hours'";
        client.batch_execute(move_ahead).await?;
        let slowest_accept = accepts(&semel, month).await?;
        if month == DUMP_MONTH {
            dump.batch_execute("COMMIT").await?;
        }
        settle(&client).await?;
        let over = read(&client, slowest_accept).await?;
        let total: f64 = over.sizes.iter().map(|(_, size)| size).sum();
        eprintln!(
            "month {month}: {} runs, {} claims, {} partitions, {total:.0} MB, slowest accept {:.0} ms, took {:.0} s",
            over.runs,
            over.claims,
            over.partitions,
            over.slowest_accept.as_secs_f64() * 1e3,
            begun.elapsed().as_secs_f64()
        );
        months.push(over);
    }
    let asleep = "SELECT count(*) FROM queue q JOIN runs r ON r.id = q.run_id
                   WHERE EXISTS (SELECT FROM journal j WHERE j.partition_date = r.partition_date AND j.run_id = r.id)";
    let asleep: i64 = client.query_one(asleep, &[]).await?.get(0);
    ensure!(
        asleep >= STRAGGLERS as i64,
        "of the runs that sleep {asleep} are whole"
    );
    write(year, &months)
}

enum Flow {
    Orders,
    Sleeper,
}

/// Starts so many runs. Those of orders are waited for.
async fn send(semel: &Semel, flow: Flow, count: u64, tag: &str) -> Result<()> {
    let (target, senders) = match flow {
        Flow::Orders => (semel.runs_of("orders"), SENDERS),
        Flow::Sleeper => (semel.hook_of("sleeper"), 1),
    };
    let crowd = Poster::crowd(&target, senders as usize, Keys::Unique, tag).await?;
    let mut sending = JoinSet::new();
    for mut poster in crowd {
        sending.spawn(async move {
            for _ in 0..count.div_ceil(senders) {
                poster.send().await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(sent) = sending.join_next().await {
        sent??;
    }
    Ok(())
}

/// Repeats the month's first delivery, and says how many runs its key has.
async fn repeat(semel: &Semel, client: &Client, tag: &str) -> Result<i64> {
    let caller = crate::caller::Caller::new(semel.address(), semel.token());
    let order: Value = serde_json::from_str(&crate::load::payload(&format!("{tag}-0"), 0, true))?;
    let path = "/v1/flows/orders/runs";
    caller
        .change(hyper::Method::POST, path, &order, tag)
        .await?;
    let key = order["input"]["id"].as_str().context("its key")?;
    let runs = "SELECT count(*) FROM runs WHERE key = convert_to($1, 'UTF8')";
    Ok(client.query_one(runs, &[&key]).await?.get(0))
}

/// Accepts deliveries one after the other while retention works. Gives how long the slowest took.
async fn accepts(semel: &Semel, month: u32) -> Result<Duration> {
    let mut crowd = Poster::crowd(&semel.hook(), 1, Keys::Unique, &format!("a{month}")).await?;
    let poster = crowd.first_mut().context("a sender")?;
    let mut slowest = Duration::ZERO;
    let until = Instant::now() + Duration::from_secs(35);
    while Instant::now() < until {
        let begun = Instant::now();
        poster.send().await?;
        slowest = slowest.max(begun.elapsed());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(slowest)
}

/// Waits until nothing is left that is past its time, and vacuums what that left.
async fn settle(client: &Client) -> Result<()> {
    let begun = Instant::now();
    while client.query_one(COUNTS, &[]).await?.get::<_, i64>(3) > 0 {
        ensure!(begun.elapsed() < PATIENCE, "retention takes too long");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    client.batch_execute("VACUUM").await?;
    Ok(())
}

async fn read(client: &Client, slowest_accept: Duration) -> Result<Month> {
    let sizes = client.query(SIZES, &[]).await?;
    let counts = client.query_one(COUNTS, &[]).await?;
    Ok(Month {
        sizes: sizes.iter().map(|row| (row.get(0), row.get(1))).collect(),
        runs: counts.get(0),
        claims: counts.get(1),
        partitions: counts.get(2),
        slowest_accept,
    })
}

fn write(year: &Year, months: &[Month]) -> Result<()> {
    let names = months.first().context("a month")?.sizes.iter();
    let lines: Vec<Line> = names
        .enumerate()
        .map(|(place, (name, _))| Line {
            name: name.clone(),
            values: months.iter().map(|month| month.sizes[place].1).collect(),
        })
        .collect();
    let title = format!(
        "Tables over {} months of {} runs each",
        year.months, year.runs
    );
    let names: Vec<String> = (1..=months.len()).map(|month| month.to_string()).collect();
    let picture = chart::draw(&title, "MB", "month", &names, &lines);
    std::fs::write(year.out.join("year.svg"), picture)?;
    let rows: Vec<Value> = months
        .iter()
        .map(|month| {
            json!({
                "megabytes": month.sizes.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
                "runs": month.runs,
                "claims": month.claims,
                "partitions_of_journal": month.partitions,
                "slowest_accept_ms": (month.slowest_accept.as_secs_f64() * 1e3).round(),
            })
        })
        .collect();
    let text = serde_json::to_string_pretty(&json!({
        "runs_each_month": year.runs,
        "reader_held_locks_over_the_end_of_month": DUMP_MONTH,
        "months": rows,
    }))?;
    std::fs::write(year.out.join("year.json"), text + "\n")?;
    Ok(())
}
