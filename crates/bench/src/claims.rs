//! Accepting new keys beside many that are kept, and beside none.
//!
//! Two databases of one cluster differ in their claims alone. Both accept in turns, as [`crate::pairs`] says: first right
//! after a checkpoint, when the first change of each page writes the whole page to the log, and again after a time of
//! load, when most pages have been written. Keys are random, so that many of them lie on many pages.
//!
//! Nothing is deleted and no run is moved, so there is nothing to vacuum, and autovacuum is off: it would fall into one
//! slice and not into the other. Before the second moment the claims of the empty database are taken away again, while
//! the other tables of both have grown alike.

mod kept;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use semel_testkit::{Cluster, Options, Program, Server};
use serde::Serialize;
use serde_json::json;
use tokio_postgres::Client;

use self::kept::BytesEach;
use crate::ground::{self, ACCEPT_FLOW, NewDatabase, Semel};
use crate::interval::Interval;
use crate::load::Keys;
use crate::meters::{Meters, Reading, median};
use crate::pairs::{self, PairSide};
use crate::report::{self, Measured};

/// How many times as many keys a full database accepts at least, once it has been under load for a while.
const RATIO_MIN: f64 = 0.7;

/// How many connections bring keys, as in F1.
const CONNECTIONS: usize = 32;

/// The last checkpoint that is complete.
const CHECKPOINT: &str = "SELECT checkpoint_lsn::text FROM pg_control_checkpoint()";

/// How accepting is measured.
#[derive(Debug, Args)]
pub(crate) struct KeptClaims {
    /// How many keys are kept.
    #[arg(long)]
    rows: i64,
    /// For how many seconds the load continues before it is measured again.
    #[arg(long, default_value_t = 600)]
    later: u64,
    /// How many pairs of slices there are, each time.
    #[arg(long, default_value_t = 10)]
    pairs: usize,
    /// How long one slice lasts, in seconds.
    #[arg(long, default_value_t = 4.0)]
    slice: f64,
    /// Where to write everything as JSON.
    #[arg(long)]
    out: Option<PathBuf>,
}

impl KeptClaims {
    /// How long there is load in all.
    fn load(&self) -> Duration {
        // Two measurements of two sides, each with a slice to warm up and perhaps one pair more.
        let slices = 4 * (self.pairs + 2);
        Duration::from_secs_f64(self.slice * slices as f64) + Duration::from_secs(self.later)
    }
}

/// What one moment came to.
#[derive(Debug, Serialize)]
struct Moment {
    when: &'static str,
    pairs: usize,
    /// How many times as many keys the full database accepts as the empty one.
    ratio: Interval,
    empty: Accepts,
    full: Accepts,
}

/// What accepting brings and costs, in the middle of all slices.
#[derive(Debug, Serialize)]
struct Accepts {
    per_s: f64,
    log_bytes_each: f64,
    postgres_us_each: f64,
}

impl Accepts {
    fn of<'a>(slices: impl Iterator<Item = &'a Measured> + Clone) -> Self {
        let middle = |of: fn(&Measured) -> f64| median(&slices.clone().map(of).collect::<Vec<_>>());
        Self {
            per_s: middle(|side| side.slice.rate()),
            log_bytes_each: middle(|side| each(side, |used| used.wal_bytes as f64)),
            postgres_us_each: middle(|side| each(side, |used| used.postgres_s * 1e6)),
        }
    }
}

fn each(side: &Measured, of: fn(&Reading) -> f64) -> f64 {
    of(&side.used) / side.slice.count.max(1) as f64
}

impl Moment {
    fn of(when: &'static str, measured: &[(Measured, Measured)]) -> Self {
        Self {
            when,
            pairs: measured.len(),
            ratio: pairs::ratio(measured, |side| side.slice.rate()),
            empty: Accepts::of(measured.iter().map(|(empty, _)| empty)),
            full: Accepts::of(measured.iter().map(|(_, full)| full)),
        }
    }
}

/// The server's settings: as for everything else, with room for the log between two checkpoints that are asked for.
fn options() -> Options {
    ground::options()
        .with("wal_level", "minimal")
        .with("max_wal_senders", "0")
        .with("max_wal_size", "64GB")
        .with("checkpoint_timeout", "2h")
        .with("autovacuum", "off")
}

/// Measures, and says whether a full database accepts as much as it should.
pub(crate) async fn run(asked: &KeptClaims) -> Result<bool> {
    kept::check_space(asked.rows, asked.load())?;
    let cluster = Cluster::start(options()).await?;
    let server = cluster.server();
    let empty = Bed::make(server, "empty", None).await?;
    let full = Bed::make(server, "kept", Some(asked.rows)).await?;
    let (bytes, took) = full.filled.context("the full database is filled")?;
    let admin = server.connect("postgres").await?;
    let meters = Meters::new(server.connect("postgres").await?, cluster.home())?;
    let mut bench = Bench {
        empty: &empty,
        full: &full,
        meters: &meters,
        lasts: Duration::from_secs_f64(asked.slice),
        slices: 0,
    };
    bench.warm_up().await?;
    admin.batch_execute("CHECKPOINT").await?;
    let checkpoint = checkpoint(&admin).await?;
    let first = Moment::of("after a checkpoint", &bench.measure(asked.pairs).await?);
    eprintln!("{}", sentence(&first));
    bench.continue_for(Duration::from_secs(asked.later)).await?;
    // What came in meanwhile would make the empty database a small one.
    empty.client.batch_execute("TRUNCATE claims").await?;
    bench.warm_up().await?;
    let second = Moment::of("later", &bench.measure(asked.pairs).await?);
    let has_other_checkpoint = self::checkpoint(&admin).await? != checkpoint;

    let met = second.ratio.median >= RATIO_MIN;
    print(asked, bytes, &[&first, &second], met);
    if has_other_checkpoint {
        eprintln!(
            "another checkpoint came meanwhile: the second moment is nearer to it than it should be"
        );
    }
    if let Some(path) = &asked.out {
        let figures = json!({
            "schema": "semel-bench-claims/1",
            "cores": std::thread::available_parallelism().map_or(0, usize::from),
            "development_build": cfg!(debug_assertions),
            "rows": asked.rows,
            "filled_in_s": took.as_secs_f64().round(),
            "bytes_each": bytes,
            "wal_level": "minimal",
            "connections": CONNECTIONS,
            "slice_s": asked.slice,
            "later_s": asked.later,
            "another_checkpoint_meanwhile": has_other_checkpoint,
            "moments": [first, second],
            "ratio_later_min": RATIO_MIN,
            "met": met,
        });
        report::write(path, &figures)?;
    }
    Ok(met)
}

async fn checkpoint(admin: &Client) -> Result<String> {
    Ok(admin.query_one(CHECKPOINT, &[]).await?.get(0))
}

/// One database, and a server that accepts and moves nothing.
struct Bed {
    client: Client,
    semel: Semel,
    filled: Option<(BytesEach, Duration)>,
}

impl Bed {
    async fn make(server: &Server, name: &str, rows: Option<i64>) -> Result<Self> {
        let NewDatabase { url, token, client } = ground::create_database(server, name).await?;
        let filled = match rows {
            Some(rows) => Some(kept::fill(&client, rows).await?),
            None => None,
        };
        let semel = Semel::serve(Program::semel, &url, token, "0").await?;
        semel.publish("accept", ACCEPT_FLOW).await?;
        Ok(Self {
            client,
            semel,
            filled,
        })
    }
}

struct Bench<'a> {
    empty: &'a Bed,
    full: &'a Bed,
    meters: &'a Meters,
    lasts: Duration,
    slices: usize,
}

impl Bench<'_> {
    async fn slice(&mut self, side: PairSide) -> Result<Measured> {
        self.slices += 1;
        let bed = match side {
            PairSide::A => self.empty,
            PairSide::B => self.full,
        };
        let (tag, callers) = (format!("k{}", self.slices), (CONNECTIONS, Keys::Unique));
        pairs::slice(self.meters, &bed.semel.hook(), callers, &tag, self.lasts).await
    }

    async fn warm_up(&mut self) -> Result<()> {
        self.slice(PairSide::A).await?;
        self.slice(PairSide::B).await?;
        Ok(())
    }

    async fn measure(&mut self, pairs: usize) -> Result<Vec<(Measured, Measured)>> {
        pairs::alternate(pairs, async || Ok(()), async |side| self.slice(side).await).await
    }

    /// Both go on accepting, in turns, for so long.
    async fn continue_for(&mut self, lasts: Duration) -> Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < lasts {
            self.warm_up().await?;
        }
        Ok(())
    }
}

fn sentence(moment: &Moment) -> String {
    let Interval { median, low, high } = moment.ratio;
    format!(
        "{:<20} {median:>7.3} {:>16} {:>10.0} {:>10.0} {:>9.0} B {:>9.0} B",
        moment.when,
        format!("{low:.3} to {high:.3}"),
        moment.empty.per_s,
        moment.full.per_s,
        moment.empty.log_bytes_each,
        moment.full.log_bytes_each
    )
}

#[expect(clippy::print_stdout, reason = "the table is what the tool is for")]
fn print(asked: &KeptClaims, bytes: BytesEach, moments: &[&Moment], met: bool) {
    let BytesEach {
        heap,
        primary_key,
        by_expiry,
    } = bytes;
    println!(
        "{} keys, {:.0} bytes each: heap {heap:.0}, primary key {primary_key:.0}, by expiry {by_expiry:.0}",
        asked.rows,
        heap + primary_key + by_expiry
    );
    println!(
        "{:<20} {:>7} {:>16} {:>10} {:>10} {:>11} {:>11}",
        "accepts of new keys", "ratio", "90 %", "empty/s", "full/s", "log, empty", "log, full"
    );
    for moment in moments {
        println!("{}", sentence(moment));
    }
    let met = if met { "met" } else { "NOT met" };
    println!("goal for later: at least {RATIO_MIN} of the empty database: {met}");
}
