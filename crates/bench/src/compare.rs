//! Two builds of the product, side by side: whether one is worse than the other.
//!
//! A machine varies by a tenth from one minute to the next, so one run before and one after shows
//! nothing. Both builds run at once, each on a database of its own in one cluster, and take turns as
//! [`crate::pairs`] says. The middle one of all pairs counts, with the
//! interval in which it lies with nine parts in ten. Every ratio is written so that more than one
//! means that B is better.
//!
//! F8 needs no server and is compared by running the `semel-bench` of each tree.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use semel_testkit::{Cluster, Peer, Program};
use serde::Serialize;

use crate::consoles::Consoles;
use crate::goal::Goal;
use crate::ground::{self, Semel};
use crate::interval::Interval;
use crate::load::Keys;
use crate::measure::REPEATED_KEYS;
use crate::meters::{Meters, Reading, median};
use crate::pairs::{self, PairSide};
use crate::report::{self, Measured};

/// Not worse: the middle and the lower end of its interval are at least this.
const MIDDLE_MIN: f64 = 0.97;
const LOWER_MIN: f64 = 0.93;

/// What is compared, and for how long.
#[derive(Debug, clap::Args)]
pub(crate) struct Comparison {
    /// The build that B is measured against.
    #[arg(long)]
    a: PathBuf,
    /// The build that is measured.
    #[arg(long)]
    b: PathBuf,
    /// Only these goals, e.g. F3,F4.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Goal>,
    /// How many pairs there are of each goal.
    #[arg(long, default_value_t = 30)]
    pairs: usize,
    /// How long one slice lasts, in seconds.
    #[arg(long, default_value_t = 4.0)]
    slice: f64,
    /// So many consoles are open at B, and none at A: with the same build twice, what they cost.
    #[arg(long, default_value_t = 0)]
    consoles: usize,
    /// Where to write everything as JSON.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Goals that one slice measures together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Accepts,
    Duplicates,
    Runs(usize),
    Calls,
}

impl Work {
    const ALL: [Self; 6] = [
        Self::Accepts,
        Self::Duplicates,
        Self::Runs(32),
        Self::Runs(256),
        Self::Runs(1),
        Self::Calls,
    ];

    fn goals(self) -> &'static [Goal] {
        match self {
            Self::Accepts => &[Goal::F1],
            Self::Duplicates => &[Goal::F2],
            Self::Runs(1) => &[Goal::F5],
            Self::Runs(256) => &[Goal::F4, Goal::F6, Goal::F7],
            Self::Runs(_) => &[Goal::F3],
            Self::Calls => &[Goal::F9],
        }
    }
}

/// The result of one goal.
#[derive(Debug, Serialize)]
struct Line {
    goal: &'static str,
    what: &'static str,
    pairs: usize,
    median: f64,
    low: f64,
    high: f64,
    not_worse: bool,
    costs: Vec<Cost>,
    ratios: Vec<f64>,
}

/// One of the things that a slice used.
type Part = fn(&Reading) -> f64;

/// What one item costs in both builds, in the middle of all slices: for differences that are too
/// small for the rate.
#[derive(Debug, Serialize)]
struct Cost {
    what: &'static str,
    a: f64,
    b: f64,
}

impl Cost {
    /// Processor time, log and commits, of each item.
    fn all(measured: &[(Measured, Measured)]) -> Vec<Self> {
        let kinds: [(&'static str, Part); 4] = [
            ("server µs", |used| used.server_s * 1e6),
            ("PostgreSQL µs", |used| used.postgres_s * 1e6),
            ("log bytes", |used| used.wal_bytes as f64),
            ("commits", |used| used.commits as f64),
        ];
        let each = |side: &Measured, of: Part| of(&side.used) / side.slice.count.max(1) as f64;
        let cost = |(name, of)| {
            let a: Vec<f64> = measured.iter().map(|(a, _)| each(a, of)).collect();
            let b: Vec<f64> = measured.iter().map(|(_, b)| each(b, of)).collect();
            Self {
                what: name,
                a: median(&a),
                b: median(&b),
            }
        };
        kinds.into_iter().map(cost).collect()
    }
}

/// One build, on databases of its own.
struct Build {
    name: &'static str,
    semel: Semel,
    front: Semel,
    slices: usize,
}

/// Compares the builds; true where B is worse in nothing.
pub(crate) async fn run(comparison: &Comparison) -> Result<bool> {
    let cluster = Cluster::start(ground::options()).await?;
    let peer = Peer::start().await?;
    let mut builds = [
        Build::start(&cluster, &peer, "a", &comparison.a).await?,
        Build::start(&cluster, &peer, "b", &comparison.b).await?,
    ];
    let admin = cluster.server().connect("postgres").await?;
    let meters = Meters::new(admin, cluster.home())?;
    let bench = Bench {
        cluster: &cluster,
        peer: &peer,
        meters: &meters,
        slice: Duration::from_secs_f64(comparison.slice),
    };
    let mut consoles = Consoles::open(&builds[1].semel, comparison.consoles).await?;
    let is_wanted = |goal: &Goal| comparison.only.is_empty() || comparison.only.contains(goal);
    let mut lines = Vec::new();
    for work in Work::ALL {
        if work.goals().iter().any(is_wanted) {
            lines.extend(bench.compare(work, &mut builds, comparison.pairs).await?);
        }
    }
    ensure!(!lines.is_empty(), "none of the goals can be compared");
    consoles.must_be_open()?;
    print(&lines);
    if let Some(path) = &comparison.out {
        report::write(path, &lines)?;
    }
    Ok(lines.iter().all(|line| line.not_worse))
}

/// Where both are measured.
struct Bench<'a> {
    cluster: &'a Cluster,
    peer: &'a Peer,
    meters: &'a Meters,
    slice: Duration,
}

impl Bench<'_> {
    async fn compare(
        &self,
        work: Work,
        builds: &mut [Build; 2],
        count: usize,
    ) -> Result<Vec<Line>> {
        let [a, b] = builds;
        // One slice of each to warm up, which for repeats also brings every key for the first time.
        self.measure(work, a).await?;
        self.measure(work, b).await?;
        let tidy = async || self.tidy().await;
        let measured = pairs::alternate(count, tidy, async |side| match side {
            PairSide::A => self.measure(work, a).await,
            PairSide::B => self.measure(work, b).await,
        });
        let measured = measured.await?;
        let lines = work.goals().iter().map(|goal| line(*goal, &measured));
        Ok(lines
            .inspect(|line| eprintln!("{}", sentence(line)))
            .collect())
    }

    /// Autovacuum would fall into one slice and not into the other.
    async fn tidy(&self) -> Result<()> {
        for database in ["a", "b", "a_gate", "b_gate"] {
            let client = self.cluster.server().connect(database).await?;
            client.batch_execute("VACUUM ANALYZE").await?;
        }
        Ok(())
    }

    async fn measure(&self, work: Work, build: &mut Build) -> Result<Measured> {
        build.slices += 1;
        let tag = format!("{}-{work:?}-{}", build.name, build.slices);
        let (target, count, keys) = match work {
            Work::Accepts => (build.front.hook(), 32, Keys::Unique),
            Work::Duplicates => (build.front.hook(), 32, Keys::Repeated(REPEATED_KEYS)),
            Work::Runs(count) => (build.semel.runs_of("orders"), count, Keys::Unique),
            Work::Calls => (build.semel.runs_of("calls"), 256, Keys::Unique),
        };
        let tag = match keys {
            Keys::Repeated(_) => "d",
            Keys::Unique => tag.as_str(),
        };
        if work == Work::Calls {
            self.peer.reset().await?;
        }
        pairs::slice(self.meters, &target, (count, keys), tag, self.slice).await
    }
}

impl Build {
    async fn start(
        cluster: &Cluster,
        peer: &Peer,
        name: &'static str,
        binary: &Path,
    ) -> Result<Self> {
        let admin = cluster.server().connect("postgres").await?;
        let gate = format!("{name}_gate");
        for database in [name, &gate] {
            let text = format!("CREATE DATABASE {database}");
            admin.batch_execute(&text).await?;
        }
        let program = || Ok(Program::semel_at(binary));
        let url = cluster.server().url(name);
        let semel = Semel::start(program, &url, "1024").await;
        let semel = semel.with_context(|| format!("cannot start {}", binary.display()))?;
        semel.publish_all(peer).await?;
        let front = Semel::start(program, &cluster.server().url(&gate), "0").await?;
        front.publish_all(peer).await?;
        Ok(Self {
            name,
            semel,
            front,
            slices: 0,
        })
    }
}

fn line(goal: Goal, measured: &[(Measured, Measured)]) -> Line {
    let ratios: Vec<f64> = measured.iter().map(|(a, b)| ratio(goal, a, b)).collect();
    let Interval { median, low, high } = Interval::of(&ratios);
    Line {
        goal: goal.name(),
        what: goal.what(),
        pairs: ratios.len(),
        median,
        low,
        high,
        not_worse: median >= MIDDLE_MIN && low >= LOWER_MIN,
        costs: Cost::all(measured),
        ratios,
    }
}

/// How many times as good B is.
fn ratio(goal: Goal, a: &Measured, b: &Measured) -> f64 {
    let each = |side: &Measured, amount: f64| amount / side.slice.count.max(1) as f64;
    let costs = |of: fn(&Measured) -> f64| each(a, of(a)) / each(b, of(b));
    match goal {
        Goal::F5 => a.slice.latency_ms(0.5) / b.slice.latency_ms(0.5),
        Goal::F6 => costs(|side| side.used.commits as f64),
        Goal::F7 => costs(|side| side.used.server_s + side.used.postgres_s),
        Goal::F1 | Goal::F2 | Goal::F3 | Goal::F4 | Goal::F4q | Goal::F4s | Goal::F8 | Goal::F9 => {
            b.slice.rate() / a.slice.rate()
        }
    }
}

fn sentence(line: &Line) -> String {
    let costs = line.costs.iter();
    let costs: String = costs
        .map(|cost| format!("\n    {} {:.3} and {:.3}", cost.what, cost.a, cost.b))
        .collect();
    format!(
        "{:<3} {:<48} B is {:.3} of A, 90 % of {:.3} to {:.3}, {} pairs: {}{costs}",
        line.goal,
        line.what,
        line.median,
        line.low,
        line.high,
        line.pairs,
        if line.not_worse { "not worse" } else { "WORSE" }
    )
}

#[expect(clippy::print_stdout, reason = "the table is what the tool is for")]
fn print(lines: &[Line]) {
    for line in lines {
        println!("{}", sentence(line));
    }
}
