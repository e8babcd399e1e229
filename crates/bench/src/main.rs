//! Semel over its real surfaces beside bare PostgreSQL, in one run.
//!
//! `semel-bench` starts a PostgreSQL with every commit on disk, the product, a plain server and a
//! peer, measures the goals F1 to F9 in slices that take turns, prints the ratios and writes JSON.
//! Absolute figures move with the machine; only ratios inside one run count. `semel-bench compare`
//! measures two builds of the product in the same way. `semel-bench fill` fills a database with as many
//! runs as a long life leaves, and `semel-bench lists` measures every list and page against it. `semel-bench fair` measures a quiet
//! namespace beside a busy one, `semel-bench claims` new keys beside many that are kept, `semel-bench grown` keys and runs beside
//! many runs that have ended, `semel-bench partitions` a run beside many months of history. `semel-bench floor` is the short look that CI takes.

mod bare;
mod caller;
mod chart;
mod claims;
mod compare;
mod consoles;
mod curve;
mod fair;
mod fill;
mod floor;
mod goal;
mod goals;
mod ground;
mod grown;
mod interval;
mod lists;
mod load;
mod load_connection;
mod measure;
mod meters;
mod pairs;
mod partitions;
mod profile;
mod quiet_vacuum;
mod report;
mod sleepers;
mod year;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use semel_testkit::Cluster;

use crate::goal::Goal;
use crate::ground::Ground;
use crate::measure::{Course, Pace};
use crate::report::Report;

/// Semel over its real surfaces beside bare PostgreSQL, in one run.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Short slices and few sleepers: shows that everything runs, and little more.
    #[arg(long)]
    quick: bool,
    /// Only these goals, e.g. F3,F4.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Goal>,
    /// How long one slice lasts, in seconds.
    #[arg(long, default_value_t = 5.0)]
    slice: f64,
    /// How many rounds count; one more comes before, to warm up.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Measure F1 and F2 on the process that moves the runs as well.
    #[arg(long)]
    moving: bool,
    /// Where to write everything as JSON.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Tell what each statement costs. Needs the extension pg_stat_statements, and costs a little
    /// itself.
    #[arg(long)]
    profile: bool,
    /// Fail when a goal is not met.
    #[arg(long)]
    strict: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measures accepting of new keys beside many that are kept.
    Claims(claims::KeptClaims),
    /// Measures two builds of the product in turns, and says whether B is worse than A. Build both
    /// with the same profile, and let nothing else run.
    Compare(compare::Comparison),
    /// Measures throughput over the number of runs in flight, and draws it.
    Curve(curve::Curve),
    /// Measures a namespace with few runs beside one with many that are due.
    Fair(fair::Fairness),
    /// Fills an empty database with runs of every kind, by copying real ones.
    Fill(fill::Filling),
    /// Looks in a minute whether runs have become far dearer than the rows that they leave.
    Floor(floor::Floor),
    /// Measures accepting and running beside a long history, and beside none.
    Grown(grown::Growth),
    /// Measures every list, look-up and page against a filled database.
    Lists(lists::Listing),
    /// Measures what a run costs with many partitions, beside few.
    Partitions(partitions::PartitionCost),
    /// Plays a year at a moved clock, and draws how the tables grow.
    Year(year::Year),
    /// Serves as the plain HTTP server that Semel is measured against.
    #[command(hide = true)]
    PlainServer {
        /// The database.
        url: String,
        /// Write the rows that the product writes, in its tables.
        #[arg(long)]
        same_rows: bool,
    },
}

impl Arguments {
    fn pace(&self) -> Pace {
        match self.quick {
            true => Pace {
                slice: Duration::from_millis(700),
                rounds: 1,
            },
            false => Pace {
                slice: Duration::from_secs_f64(self.slice),
                rounds: self.rounds,
            },
        }
    }

    fn wanted(&self) -> Vec<Goal> {
        match self.only.is_empty() {
            true => Goal::ALL.to_vec(),
            false => self.only.clone(),
        }
    }
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    match &arguments.command {
        Some(Command::PlainServer { url, same_rows }) => {
            let rows = match same_rows {
                true => bare::Rows::Same,
                false => bare::Rows::Least,
            };
            bare::server::serve(url, rows).await?;
            return Ok(ExitCode::SUCCESS);
        }
        Some(Command::Claims(kept)) => return Ok(code(claims::run(kept).await?)),
        Some(Command::Compare(comparison)) => {
            return Ok(code(compare::run(comparison).await?));
        }
        Some(Command::Curve(curve)) => {
            curve::run(curve).await?;
            return Ok(ExitCode::SUCCESS);
        }
        Some(Command::Fair(fairness)) => {
            return Ok(code(fair::run(fairness).await?));
        }
        Some(Command::Fill(filling)) => {
            fill::run(filling).await?;
            return Ok(ExitCode::SUCCESS);
        }
        Some(Command::Floor(floor)) => return Ok(code(floor::run(floor).await?)),
        Some(Command::Grown(growth)) => return Ok(code(grown::run(growth).await?)),
        Some(Command::Lists(listing)) => {
            return Ok(code(lists::run(listing).await?));
        }
        Some(Command::Partitions(cost)) => return Ok(code(partitions::run(cost).await?)),
        Some(Command::Year(year)) => {
            year::run(year).await?;
            return Ok(ExitCode::SUCCESS);
        }
        None => {}
    }
    let mut report = Report::default();
    measure(&arguments, &mut report).await?;
    print(&report);
    if let Some(path) = &arguments.out {
        report::write(path, &report.json())?;
    }
    Ok(code(!arguments.strict || report.all_met()))
}

fn code(is_met: bool) -> ExitCode {
    match is_met {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

async fn measure(arguments: &Arguments, report: &mut Report) -> Result<()> {
    let (pace, wanted) = (arguments.pace(), arguments.wanted());
    if wanted.iter().any(|goal| *goal != Goal::F8) {
        let options = match arguments.profile {
            true => profile::options(),
            false => ground::options(),
        };
        let ground = Ground::start(options).await?;
        let mut course = Course {
            ground: &ground,
            pace,
            moving: arguments.moving,
            report,
        };
        let done = goals::measure(&mut course, &wanted).await;
        done.with_context(|| format!("the server's last words:\n{}", ground.last_words()))?;
        if arguments.profile {
            for database in ["bare", "semel", "gate"] {
                eprintln!("{}", profile::table(&ground, database).await?);
            }
        }
    }
    if wanted.contains(&Goal::F8) {
        let cluster = Cluster::start(ground::options()).await?;
        let sleepers = if arguments.quick { 50_000 } else { 1_000_000 };
        sleepers::measure(&cluster, sleepers, pace, report).await?;
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the table is what the tool is for")]
fn print(report: &Report) {
    println!("{}", report.table());
}
