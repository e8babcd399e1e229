//! F8: what taking costs beside a million runs that sleep.
//!
//! Databases of the product's own schema, and the store's own taker on each: one with a million
//! runs that have ended, one with a million that sleep. They differ in the queue alone, so the
//! ratio is what sleeping costs. A third is empty, and is shown besides.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use semel_model::{SessionId, Span};
use semel_store::queue::Taker;
use semel_store::{Cell, CellOptions, migrate, namespaces, sessions};
use semel_testkit::Cluster;
use tokio_postgres::Client;

use crate::goal::Goal;
use crate::measure::Pace;
use crate::report::Report;

/// How many runs are ready, and how many one take gets.
const READY: i64 = 1000;
const TAKE: usize = 50;

/// How many takes of everything make one round.
const PASSES: usize = 5;

/// Runs `$1` to `$2` with their first journal row, in the queue until `$3`.
const FILL: &str = "
    WITH numbered AS (
        SELECT md5(n::text)::uuid AS id FROM generate_series($1::int8, $2::int8) AS n),
    made AS (
        INSERT INTO runs (id, claim_id, namespace_id, release_id, partition_date, key, delivery_id, accepted_at)
        SELECT id, id, 1, 1, current_date, id::text::bytea, id, now() FROM numbered),
    written AS (
        INSERT INTO journal (partition_date, run_id, seq, epoch, at, events)
        SELECT current_date, id, 1, 1, now(), '[]' FROM numbered)
    INSERT INTO queue (run_id, due_at, holder, epoch, seq, partition_date, namespace_id, stage)
    SELECT id, now() + make_interval(secs => $3 * (1 + random())), NULL, 1, 1, current_date, 1,
           'waiting'
      FROM numbered";

/// All but the first `$1` have ended.
const END: &str = "
    DELETE FROM queue
     WHERE run_id NOT IN (SELECT md5(n::text)::uuid FROM generate_series(1, $1::int8) AS n)";

const MAKE_READY: &str = "
    UPDATE queue
       SET holder = NULL, due_at = now() - interval '1 minute', stage = 'ready', stalled_takes = 0
      FROM generate_series(1, $1::int8) AS n
     WHERE run_id = md5(n::text)::uuid";

/// One database and its taker.
struct Bed {
    client: Client,
    taker: Taker,
    session: SessionId,
    _cell: Cell,
}

/// Measures taking with and without sleepers, in turns.
pub(crate) async fn measure(
    cluster: &Cluster,
    sleepers: i64,
    pace: Pace,
    report: &mut Report,
) -> Result<()> {
    let mut empty = Bed::make(cluster, "empty", 0, Others::Sleep).await?;
    let mut ended = Bed::make(cluster, "ended", sleepers, Others::HaveEnded).await?;
    let mut asleep = Bed::make(cluster, "asleep", sleepers, Others::Sleep).await?;
    for round in 0..=pace.rounds {
        let nothing = empty.take_all().await?;
        let bare = ended.take_all().await?;
        let ours = asleep.take_all().await?;
        let each_us = |spent: Duration| spent.as_secs_f64() * 1e6 / (READY as f64 * PASSES as f64);
        eprintln!(
            "F8 round {round}: {:.1} µs each beside {sleepers} that have ended, {:.1} µs beside as \
             many that sleep, {:.1} µs beside nothing",
            each_us(bare),
            each_us(ours),
            each_us(nothing)
        );
        if round > 0 {
            report.add(Goal::F8, each_us(bare), each_us(ours));
        }
    }
    Ok(())
}

/// What the runs that are not taken do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Others {
    Sleep,
    HaveEnded,
}

impl Bed {
    async fn make(cluster: &Cluster, name: &str, count: i64, others: Others) -> Result<Self> {
        let admin = cluster.server().connect("postgres").await?;
        admin
            .batch_execute(&format!("CREATE DATABASE {name}"))
            .await?;
        let url = cluster.server().url(name);
        let cell = Cell::connect(&url, CellOptions::default()).await?;
        migrate(&cell).await?;
        let client = cluster.server().connect(name).await?;
        let far = 30.0 * 86_400.0;
        client.execute(FILL, &[&1_i64, &READY, &far]).await?;
        if count > 0 {
            let (first, last) = (READY + 1, READY + count);
            client.execute(FILL, &[&first, &last, &far]).await?;
        }
        if others == Others::HaveEnded {
            client.execute(END, &[&READY]).await?;
        }
        client.batch_execute("VACUUM FULL queue").await?;
        client.batch_execute("VACUUM ANALYZE").await?;
        client.batch_execute("CHECKPOINT").await?;
        let session = SessionId::generate();
        sessions::open(&cell, session, "bench", Span::from_secs(3600)).await?;
        namespaces::ensure(cell.home(), &"default".parse()?).await?;
        let mut taker = Taker::new(&cell);
        // As a server does: it finds that there is one namespace.
        taker.look().await?;
        Ok(Self {
            client,
            taker,
            session,
            _cell: cell,
        })
    }

    /// Takes everything that is ready, a few times over; only the taking is timed.
    async fn take_all(&mut self) -> Result<Duration> {
        let mut spent = Duration::ZERO;
        for _ in 0..PASSES {
            self.client.execute(MAKE_READY, &[&READY]).await?;
            self.client.batch_execute("VACUUM queue").await?;
            let mut left = READY;
            while left > 0 {
                let begun = Instant::now();
                let catch = self.taker.take(self.session, TAKE).await;
                spent += begun.elapsed();
                let taken = catch.context("taking")?.taken.len();
                ensure!(taken > 0, "{left} ready runs were not found");
                left -= taken as i64;
            }
        }
        Ok(spent)
    }
}
