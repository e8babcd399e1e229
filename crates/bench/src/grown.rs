//! Accepting and running beside a long history, and beside none: G1.
//!
//! Two databases of one cluster; one of them has had as many runs as are asked for, of the flow that is measured, and
//! all of them have ended. Both are served at the same time and take turns, as [`crate::pairs`] says.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use semel_testkit::{Cluster, Program, Server};
use serde::Serialize;
use serde_json::json;
use tokio_postgres::Client;

use crate::ground::{self, ACCEPT_FLOW, KV_FLOW, NewDatabase, Semel};
use crate::interval::Interval;
use crate::load::{self, Keys, Poster, Target};
use crate::meters::Meters;
use crate::pairs::{self, PairSide};
use crate::report::{self, Measured};

/// How many times as many a database with a history takes at least.
const RATIO_MIN: f64 = 0.85;

/// How many callers there are, as in F1 and F3.
const CALLERS: usize = 32;

/// How many make the history.
const MAKERS: usize = 256;

/// For how long they do before it is said how far they are.
const SHOW_EVERY: Duration = Duration::from_secs(20);

/// How the two are measured.
#[derive(Debug, Args)]
pub(crate) struct Growth {
    /// How many runs have ended in the second database.
    #[arg(long, default_value_t = 2_000_000)]
    runs: u64,
    /// How many pairs of slices there are, of accepts and of runs.
    #[arg(long, default_value_t = 20)]
    pairs: usize,
    /// How long one slice lasts, in seconds.
    #[arg(long, default_value_t = 4.0)]
    slice: f64,
    /// Where to write everything as JSON.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// What one goal came to.
#[derive(Debug, Serialize)]
struct Grown {
    goal: &'static str,
    pairs: usize,
    new_per_s: f64,
    grown_per_s: f64,
    ratio: Interval,
    met: bool,
}

impl Grown {
    fn of(goal: &'static str, measured: &[(Measured, Measured)]) -> Self {
        let ratio = pairs::ratio(measured, |side| side.slice.rate());
        Self {
            goal,
            pairs: measured.len(),
            new_per_s: pairs::rate(measured.iter().map(|(new, _)| new)),
            grown_per_s: pairs::rate(measured.iter().map(|(_, grown)| grown)),
            ratio,
            met: ratio.median >= RATIO_MIN,
        }
    }
}

/// Measures, and says whether a history costs as little as it may.
pub(crate) async fn run(asked: &Growth) -> Result<bool> {
    let cluster = Cluster::start(ground::options()).await?;
    let server = cluster.server();
    let new = Bed::make(server, "new", 0).await?;
    let grown = Bed::make(server, "grown", asked.runs).await?;
    let meters = Meters::new(server.connect("postgres").await?, cluster.home())?;
    let lasts = Duration::from_secs_f64(asked.slice);
    let mut goals = Vec::new();
    for (goal, target) in [
        ("F1", Bed::accepts as fn(&Bed) -> Arc<Target>),
        ("F3", Bed::runs),
    ] {
        let mut number = 0;
        let mut measure = async |side| {
            number += 1;
            let bed = match side {
                PairSide::A => &new,
                PairSide::B => &grown,
            };
            let tag = format!("{goal}-{number}");
            pairs::slice(&meters, &target(bed), (CALLERS, Keys::Unique), &tag, lasts).await
        };
        // One slice of each to warm up.
        measure(PairSide::A).await?;
        measure(PairSide::B).await?;
        let tidy = async || {
            new.client.batch_execute("VACUUM").await?;
            Ok(grown.client.batch_execute("VACUUM").await?)
        };
        let measured = pairs::alternate(asked.pairs, tidy, measure).await?;
        let came_to = Grown::of(goal, &measured);
        print(&came_to);
        goals.push(came_to);
    }
    let met = goals.iter().all(|goal| goal.met);
    if let Some(path) = &asked.out {
        let figures = json!({
            "schema": "semel-bench-grown/1",
            "cores": std::thread::available_parallelism().map_or(0, usize::from),
            "development_build": cfg!(debug_assertions),
            "runs": grown.ended,
            "callers": CALLERS,
            "slice_s": asked.slice,
            "goals": goals,
            "ratio_min": RATIO_MIN,
            "met": met,
        });
        report::write(path, &figures)?;
    }
    Ok(met)
}

/// One database, a server that accepts and moves nothing, and one that moves what it accepts.
struct Bed {
    client: Client,
    front: Semel,
    mover: Semel,
    /// How many runs ended before it was measured.
    ended: u64,
}

impl Bed {
    async fn make(server: &Server, name: &str, runs: u64) -> Result<Self> {
        let NewDatabase { url, token, client } = ground::create_database(server, name).await?;
        let front = Semel::serve(Program::semel, &url, token.clone(), "0").await?;
        front.publish("accept", ACCEPT_FLOW).await?;
        front.publish("orders", KV_FLOW).await?;
        let mover = Semel::serve(Program::semel, &url, token, "1024").await?;
        let mut bed = Self {
            client,
            front,
            mover,
            ended: 0,
        };
        while bed.ended < runs {
            let tag = format!("h{}", bed.ended);
            let crowd = Poster::crowd(&bed.runs(), MAKERS, Keys::Unique, &tag).await?;
            bed.ended += load::run(crowd, SHOW_EVERY).await?.count;
            eprintln!("{} of {runs} runs have ended", bed.ended);
        }
        bed.client.batch_execute("VACUUM ANALYZE").await?;
        bed.client.batch_execute("CHECKPOINT").await?;
        Ok(bed)
    }

    /// F1: accepted, and moved by nobody.
    fn accepts(&self) -> Arc<Target> {
        self.front.hook()
    }

    /// F3: runs of three recorded effects, each waited for.
    fn runs(&self) -> Arc<Target> {
        self.mover.runs_of("orders")
    }
}

#[expect(clippy::print_stdout, reason = "the lines are what the tool is for")]
fn print(grown: &Grown) {
    let Interval { median, low, high } = grown.ratio;
    println!(
        "{}: {:.0}/s new, {:.0}/s grown: {median:.3} (90 % of {low:.3} to {high:.3}); goal: at least {RATIO_MIN}: {}",
        grown.goal,
        grown.new_per_s,
        grown.grown_per_s,
        if grown.met { "met" } else { "NOT met" }
    );
}
