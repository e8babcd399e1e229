//! Throughput over the number of runs in flight: Semel, bare PostgreSQL, a small writer of the same rows, and
//! another engine where its program is given.
//!
//! Everything is measured in turns on one PostgreSQL; the middle round of each number counts.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use semel_testkit::Program;
use serde_json::{Value, json};

use crate::bare::runner::Runner;
use crate::chart::{self, Line};
use crate::ground::{self, Ground};
use crate::load::Keys;
use crate::measure::{Course, Pace};
use crate::meters::median;
use crate::report::Report;

/// How long another engine may take to start, to measure and to stop, beyond its slice.
const OTHER_PATIENCE: Duration = Duration::from_secs(60);

/// The database of the other engine.
const OTHER_DATABASE: &str = "dbos";

/// Measures throughput over the number of runs in flight, and draws it.
#[derive(Debug, Args)]
pub(crate) struct Curve {
    /// How many runs are in flight, one measurement each.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512])]
    in_flight: Vec<usize>,
    /// How long one slice lasts, in seconds.
    #[arg(long, default_value_t = 4.0)]
    slice: f64,
    /// How many rounds each number has; the middle one counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// The program of `peers/dbos`, to measure DBOS for Rust as well.
    #[arg(long)]
    dbos: Option<PathBuf>,
    /// The folder that the figures and their picture are written to.
    #[arg(long)]
    out: PathBuf,
}

/// Runs per second of one number in flight, by the middle of its rounds.
struct Point {
    in_flight: usize,
    bare: f64,
    same_rows: f64,
    semel: f64,
    dbos: Option<f64>,
}

/// Measures and draws.
pub(crate) async fn run(curve: &Curve) -> Result<()> {
    let ground = Ground::start(ground::options()).await?;
    let admin = ground.connect("postgres").await?;
    let create = format!("CREATE DATABASE {OTHER_DATABASE}");
    admin.batch_execute(&create).await?;
    let mut report = Report::default();
    let course = Course {
        ground: &ground,
        pace: Pace {
            slice: Duration::from_secs_f64(curve.slice),
            rounds: curve.rounds,
        },
        moving: true,
        report: &mut report,
    };
    let mut points = Vec::new();
    for &in_flight in &curve.in_flight {
        let measured = measure(curve, &course, in_flight).await;
        let point = measured
            .with_context(|| format!("the server's last words:\n{}", ground.last_words()))?;
        eprintln!(
            "{in_flight} in flight: bare {:.0}/s, same rows {:.0}/s, semel {:.0}/s, dbos {:.0}/s",
            point.bare,
            point.same_rows,
            point.semel,
            point.dbos.unwrap_or(f64::NAN)
        );
        points.push(point);
        for database in ["bare", "same", "semel", OTHER_DATABASE] {
            let client = ground.connect(database).await?;
            client.batch_execute("VACUUM").await?;
        }
    }
    write(curve, &points)
}

async fn measure(curve: &Curve, course: &Course<'_>, in_flight: usize) -> Result<Point> {
    let ground = course.ground;
    let target = ground.semel.runs_of("orders");
    let (mut bare, mut same, mut semel, mut dbos) = (vec![], vec![], vec![], vec![]);
    for round in 0..curve.rounds {
        let tag = format!("curve-{in_flight}-{round}");
        let crowd = Runner::crowd(&ground.desk, in_flight, &tag, None).await?;
        bare.push(course.slice(crowd, None).await?.slice.rate());
        let crowd = ground.same_rows.crowd(in_flight, &tag);
        same.push(course.slice(crowd, None).await?.slice.rate());
        let ours = course.post(&target, in_flight, Keys::Unique, &tag).await?;
        semel.push(ours.slice.rate());
        if let Some(program) = &curve.dbos {
            let url = ground.url(OTHER_DATABASE);
            dbos.push(other(program, &url, in_flight, curve.slice, &tag).await?);
        }
    }
    Ok(Point {
        in_flight,
        bare: median(&bare),
        same_rows: median(&same),
        semel: median(&semel),
        dbos: (!dbos.is_empty()).then(|| median(&dbos)),
    })
}

/// Runs per second of another engine, which measures itself and says so in one line of JSON.
async fn other(program: &Path, url: &str, in_flight: usize, slice: f64, tag: &str) -> Result<f64> {
    let (count, seconds) = (in_flight.to_string(), slice.to_string());
    let finished = Program::at(program)
        .args([url, &count, &seconds, tag])
        .run(Duration::from_secs_f64(slice) + OTHER_PATIENCE)
        .await?;
    ensure!(
        finished.status.success(),
        "{}: {}",
        program.display(),
        finished.stderr
    );
    let said: Value = serde_json::from_str(finished.stdout.trim())?;
    said["per_s"].as_f64().context("its runs per second")
}

fn write(curve: &Curve, points: &[Point]) -> Result<()> {
    let line = |name: &str, value: fn(&Point) -> f64| Line {
        name: name.to_owned(),
        values: points.iter().map(value).collect(),
    };
    let mut lines = vec![
        line("bare PostgreSQL", |point| point.bare),
        line("the same rows", |point| point.same_rows),
        line("Semel over HTTP", |point| point.semel),
    ];
    if curve.dbos.is_some() {
        lines.push(line("DBOS for Rust", |point| point.dbos.unwrap_or(0.0)));
    }
    let steps: Vec<String> = points.iter().map(|it| it.in_flight.to_string()).collect();
    let title = "Runs of three recorded steps per second";
    let picture = chart::draw(title, "runs/s", "in flight", &steps, &lines);
    std::fs::write(curve.out.join("throughput.svg"), picture)?;
    let rows: Vec<Value> = points
        .iter()
        .map(|point| {
            json!({
                "in_flight": point.in_flight,
                "bare": point.bare.round(),
                "same_rows": point.same_rows.round(),
                "semel": point.semel.round(),
                "dbos": point.dbos.map(f64::round),
            })
        })
        .collect();
    let text = serde_json::to_string_pretty(&json!({
        "unit": "runs per second",
        "slice_s": curve.slice,
        "rounds": curve.rounds,
        "points": rows,
    }))?;
    std::fs::write(curve.out.join("throughput.json"), text + "\n")?;
    Ok(())
}
