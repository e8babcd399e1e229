//! What a run costs in a database with many partitions, beside one with few.
//!
//! A statement that does not know the month opens every partition, so that each month of history would make every
//! run dearer. Both databases are served at the same time and take turns, as [`crate::pairs`] says; what counts is
//! the processor time of a run. `--few 4 --many 4` shows how far apart two equal ones come on a machine: what is
//! nearer to one than that says nothing.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use semel_store::{Cell, CellOptions, partitions};
use semel_testkit::{Cluster, Program, Server};
use serde::Serialize;
use serde_json::json;
use tokio_postgres::Client;

use crate::ground::{self, KV_FLOW, NewDatabase, Semel};
use crate::interval::Interval;
use crate::load::{Keys, Target};
use crate::meters::{Meters, median};
use crate::pairs::{self, PairSide};
use crate::report::{self, Measured};

/// A run with many partitions may cost this many times one with few.
const RATIO_MAX: f64 = 1.1;

/// How many runs are in flight, as in F3.
const IN_FLIGHT: usize = 32;

/// What a new database has: the default, this month and the next two.
const ATTACHED_AT_FIRST: usize = 4;

/// More rows than a partition may have that is dropped as good as empty.
const ROWS_EACH: i32 = 2_000;

/// The service that keeps partitions up looks at the month of this clock.
const MOVE_BACK: &str = "UPDATE clock SET time_offset = make_interval(months => -$1::int4)";

/// The partitions of one table that no server has written to.
const OF_THE_PAST: &str = "
    SELECT c.relname::text, to_date(right(c.relname::text, 7), 'YYYY_MM')::text
      FROM pg_inherits i
      JOIN pg_class c ON c.oid = i.inhrelid
     WHERE i.inhparent = 'journal'::regclass AND c.relname ~ '_[0-9]{4}_[0-9]{2}$'
       AND c.relname < 'journal' || to_char(now() AT TIME ZONE 'UTC', '_YYYY_MM')";

const FILL_JOURNAL: &str = "
    INSERT INTO journal (partition_date, run_id, seq, epoch, at, events)
    SELECT $1::text::date, md5($1::text || n)::uuid, 1, 1, $1::text::date, '[]' FROM generate_series(1, $2::int4) AS n";

const FILL_EFFECTS: &str = "
    INSERT INTO effects (partition_date, id, run_id, namespace_id, step, kind, guard, state, attempt, intended_at,
                         settled_at)
    SELECT $1::text::date, md5($1::text || n)::uuid, md5($1::text || n)::uuid, 1, 'old', 'kv', 'transaction', 'done', 1,
           $1::text::date, $1::text::date
      FROM generate_series(1, $2::int4) AS n";

/// How many partitions journal and effects have.
const ATTACHED: &str = "
    SELECT count(*) FILTER (WHERE inhparent = 'journal'::regclass),
           count(*) FILTER (WHERE inhparent = 'effects'::regclass)
      FROM pg_inherits";

/// How the two are measured.
#[derive(Debug, Args)]
pub(crate) struct PartitionCost {
    /// How many partitions each table of the first database has.
    #[arg(long, default_value_t = ATTACHED_AT_FIRST)]
    few: usize,
    /// How many each table of the second has.
    #[arg(long, default_value_t = 60)]
    many: usize,
    /// How many pairs of slices there are.
    #[arg(long, default_value_t = 30)]
    pairs: usize,
    /// How long one slice lasts, in seconds.
    #[arg(long, default_value_t = 4.0)]
    slice: f64,
    /// Where to write everything as JSON.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// What a run costs with few and with many.
#[derive(Debug, Serialize)]
struct Cost {
    what: &'static str,
    few_us: f64,
    many_us: f64,
    ratio: Interval,
}

impl Cost {
    fn of(
        what: &'static str,
        measured: &[(Measured, Measured)],
        seconds: fn(&Measured) -> f64,
    ) -> Self {
        let each = |side: &Measured| seconds(side) * 1e6 / side.slice.count.max(1) as f64;
        let few: Vec<f64> = measured.iter().map(|(few, _)| each(few)).collect();
        let many: Vec<f64> = measured.iter().map(|(_, many)| each(many)).collect();
        Self {
            what,
            few_us: median(&few),
            many_us: median(&many),
            ratio: pairs::ratio(measured, each),
        }
    }
}

/// Measures, and says whether many partitions cost as little as they may.
pub(crate) async fn run(asked: &PartitionCost) -> Result<bool> {
    let cluster = Cluster::start(ground::options()).await?;
    let server = cluster.server();
    let few = Bed::make(server, "few", asked.few).await?;
    let many = Bed::make(server, "many", asked.many).await?;
    let meters = Meters::new(server.connect("postgres").await?, cluster.home())?;
    let lasts = Duration::from_secs_f64(asked.slice);
    let mut number = 0;
    let mut measure = async |side| {
        number += 1;
        let bed = match side {
            PairSide::A => &few,
            PairSide::B => &many,
        };
        let callers = (IN_FLIGHT, Keys::Unique);
        pairs::slice(&meters, &bed.target, callers, &format!("p{number}"), lasts).await
    };
    // One slice of each to warm up.
    measure(PairSide::A).await?;
    measure(PairSide::B).await?;
    let tidy = async || {
        few.client.batch_execute("VACUUM ANALYZE").await?;
        Ok(many.client.batch_execute("VACUUM ANALYZE").await?)
    };
    let measured = pairs::alternate(asked.pairs, tidy, measure).await?;
    few.must_have(asked.few).await?;
    many.must_have(asked.many).await?;

    let costs = [
        Cost::of("server and PostgreSQL", &measured, |side| {
            side.used.server_s + side.used.postgres_s
        }),
        Cost::of("PostgreSQL", &measured, |side| side.used.postgres_s),
        Cost::of("server", &measured, |side| side.used.server_s),
    ];
    let met = costs[0].ratio.median <= RATIO_MAX;
    print(asked, &costs, met);
    if let Some(path) = &asked.out {
        let figures = json!({
            "schema": "semel-bench-partitions/1",
            "cores": std::thread::available_parallelism().map_or(0, usize::from),
            "development_build": cfg!(debug_assertions),
            "few": asked.few,
            "many": asked.many,
            "in_flight": IN_FLIGHT,
            "pairs": measured.len(),
            "slice_s": asked.slice,
            "of_a_run": costs,
            "few_per_s": pairs::rate(measured.iter().map(|(few, _)| few)),
            "many_per_s": pairs::rate(measured.iter().map(|(_, many)| many)),
            "ratio_max": RATIO_MAX,
            "met": met,
        });
        report::write(path, &figures)?;
    }
    Ok(met)
}

/// One database and its server.
struct Bed {
    name: &'static str,
    client: Client,
    target: Arc<Target>,
    _semel: Semel,
}

impl Bed {
    async fn make(server: &Server, name: &'static str, partitions: usize) -> Result<Self> {
        ensure!(
            partitions >= ATTACHED_AT_FIRST,
            "a new database has {ATTACHED_AT_FIRST} partitions already: ask for at least as many"
        );
        let NewDatabase { url, token, client } = ground::create_database(server, name).await?;
        make_months(&url, &client, partitions - ATTACHED_AT_FIRST).await?;
        let semel = Semel::serve(Program::semel, &url, token, "1024").await?;
        semel.publish("orders", KV_FLOW).await?;
        let bed = Self {
            name,
            client,
            target: semel.runs_of("orders"),
            _semel: semel,
        };
        bed.must_have(partitions).await?;
        Ok(bed)
    }

    /// Neither table may gain or lose a partition while it is measured.
    async fn must_have(&self, partitions: usize) -> Result<()> {
        let row = self.client.query_one(ATTACHED, &[]).await?;
        let (journal, effects): (i64, i64) = (row.get(0), row.get(1));
        let wanted = i64::try_from(partitions)?;
        ensure!(
            (journal, effects) == (wanted, wanted),
            "database {} has {journal} partitions of journal and {effects} of effects instead of {wanted}",
            self.name
        );
        Ok(())
    }
}

/// Lets the store make the partitions of so many months behind us, at a clock that is moved back, and puts rows
/// into them: what is as good as empty is dropped.
async fn make_months(url: &str, client: &Client, months: usize) -> Result<()> {
    let cell = Cell::connect(url, CellOptions::default()).await?;
    let mut back = i32::try_from(months)?;
    while back > 0 {
        client.execute(MOVE_BACK, &[&back]).await?;
        partitions::keep_up(&cell).await?;
        // It makes the month of the clock and the two that follow.
        back -= 3;
    }
    client.execute(MOVE_BACK, &[&0_i32]).await?;
    for row in client.query(OF_THE_PAST, &[]).await? {
        let from: String = row.get(1);
        client.execute(FILL_JOURNAL, &[&from, &ROWS_EACH]).await?;
        client.execute(FILL_EFFECTS, &[&from, &ROWS_EACH]).await?;
    }
    client.batch_execute("VACUUM ANALYZE").await?;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the table is what the tool is for")]
fn print(asked: &PartitionCost, costs: &[Cost], met: bool) {
    println!(
        "{:<24} {:>14} {:>14} {:>7} {:>16}",
        "processor time of a run",
        format!("{} partitions", asked.few),
        format!("{} partitions", asked.many),
        "ratio",
        "90 %"
    );
    for cost in costs {
        let Interval { median, low, high } = cost.ratio;
        println!(
            "{:<24} {:>11.1} µs {:>11.1} µs {median:>7.3} {:>16}",
            cost.what,
            cost.few_us,
            cost.many_us,
            format!("{low:.3} to {high:.3}")
        );
    }
    let met = if met { "met" } else { "NOT met" };
    println!("goal for server and PostgreSQL: at most {RATIO_MAX}: {met}");
}
