//! A short look for CI: whether runs have become far dearer than the rows that they leave.
//!
//! F3's load beside the small writer of the same rows, in pairs of short slices. Two ratios are looked at: runs per
//! second, and the processor time of PostgreSQL for a run. It fails only where the whole 90 % interval is on the
//! wrong side, so that an unsteady machine does not fail a change; what it is for is a statement that lost its index
//! or a commit too many for each run, not a few hundredths. Those are for `semel-bench compare`.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;

use crate::ground::{self, Ground};
use crate::interval::Interval;
use crate::load::Keys;
use crate::measure::{Course, Pace};
use crate::meters::Reading;
use crate::pairs::{self, PairSide};
use crate::report::{self, Measured, Report};

/// How many runs are in flight, as in F3.
const IN_FLIGHT: usize = 32;

/// What fails a change: fewer runs a second than this part of the writer's, or more than so many times its
/// processor time of PostgreSQL for a run.
struct Limits {
    rate_min: f64,
    postgres_max: f64,
}

/// The margin is about two. Five looks of a development build, on two cores that others used as well, had 0.30 to 0.66 of the
/// writer's rate, the upper end of an interval never under 0.33, and 1.6 to 2.0 times its processor time; the build
/// that is shipped has 0.77 of the rate, and 1.2 to 1.5 times its processor time. How busy the machine is moves the rate far more than
/// the processor time, so that the second is what finds a dear statement: a slow trigger on the journal
/// made it 6.4 and left the rate where it was.
const LIMITS: Limits = Limits {
    rate_min: if cfg!(debug_assertions) { 0.15 } else { 0.3 },
    postgres_max: 3.5,
};

/// How long it is measured.
#[derive(Debug, Args)]
pub(crate) struct Floor {
    /// How many pairs of slices there are.
    #[arg(long, default_value_t = 12)]
    pairs: usize,
    /// How long one slice lasts, in seconds.
    #[arg(long, default_value_t = 1.5)]
    slice: f64,
    /// Where to write everything as JSON.
    #[arg(long)]
    out: Option<std::path::PathBuf>,
}

/// Measures, and says whether runs are within the limits.
pub(crate) async fn run(asked: &Floor) -> Result<bool> {
    let ground = Ground::start(ground::options()).await?;
    let measured = measure(asked, &ground).await;
    let measured =
        measured.with_context(|| format!("the server's last words:\n{}", ground.last_words()))?;
    let rate = pairs::ratio(&measured, |side| side.slice.rate());
    let postgres = pairs::ratio(&measured, |side| {
        let Reading { postgres_s, .. } = side.used;
        postgres_s / side.slice.count.max(1) as f64
    });
    let is_within = is_within(&LIMITS, rate, postgres);
    print(rate, postgres, is_within);
    if let Some(path) = &asked.out {
        let figures = json!({
            "schema": "semel-bench-floor/1",
            "cores": std::thread::available_parallelism().map_or(0, usize::from),
            "development_build": cfg!(debug_assertions),
            "in_flight": IN_FLIGHT,
            "pairs": measured.len(),
            "slice_s": asked.slice,
            "rate_of_same_rows": rate,
            "rate_of_same_rows_min": LIMITS.rate_min,
            "postgres_of_same_rows": postgres,
            "postgres_of_same_rows_max": LIMITS.postgres_max,
            "met": is_within,
        });
        report::write(path, &figures)?;
    }
    Ok(is_within)
}

/// Slices of the writer and of the product, in turns.
async fn measure(asked: &Floor, ground: &Ground) -> Result<Vec<(Measured, Measured)>> {
    let mut report = Report::default();
    let course = Course {
        ground,
        pace: Pace {
            slice: Duration::from_secs_f64(asked.slice),
            rounds: asked.pairs,
        },
        moving: true,
        report: &mut report,
    };
    let target = ground.semel.runs_of("orders");
    let mut number = 0;
    let mut slice = async |side| {
        number += 1;
        let tag = format!("floor-{number}");
        match side {
            PairSide::A => {
                let crowd = ground.same_rows.crowd(IN_FLIGHT, &tag);
                course.slice(crowd, None).await
            }
            PairSide::B => course.post(&target, IN_FLIGHT, Keys::Unique, &tag).await,
        }
    };
    // One slice of each to warm up.
    slice(PairSide::A).await?;
    slice(PairSide::B).await?;
    let tidy = async || {
        for database in ["same", "semel"] {
            let client = ground.connect(database).await?;
            client.batch_execute("VACUUM ANALYZE").await?;
        }
        Ok(())
    };
    pairs::alternate(asked.pairs, tidy, slice).await
}

/// Whether neither is beyond its limit with its whole interval.
fn is_within(limits: &Limits, rate: Interval, postgres: Interval) -> bool {
    rate.high >= limits.rate_min && postgres.low <= limits.postgres_max
}

#[expect(clippy::print_stdout, reason = "the table is what the tool is for")]
fn print(rate: Interval, postgres: Interval, is_within: bool) {
    let line = |what: &str, it: Interval, limit: String| {
        println!(
            "{what:<46} {:.3}, 90 % of {:.3} to {:.3}, limit {limit}",
            it.median, it.low, it.high
        );
    };
    line(
        "runs per second, of a writer of the same rows",
        rate,
        format!(">= {}", LIMITS.rate_min),
    );
    line(
        "PostgreSQL's time for a run, of the writer's",
        postgres,
        format!("<= {}", LIMITS.postgres_max),
    );
    match is_within {
        true => println!("within the limits"),
        false => println!(
            "BEYOND a limit: build this tree and its parent alike, and run `semel-bench compare --a PARENT/semel --b THIS/semel --only F3`"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_interval_beyond_a_limit_fails() {
        let limits = Limits {
            rate_min: 0.5,
            postgres_max: 2.0,
        };
        let around = |median: f64| Interval {
            median,
            low: median - 0.2,
            high: median + 0.2,
        };

        assert!(is_within(&limits, around(0.4), around(2.1)));
        assert!(!is_within(&limits, around(0.2), around(1.0)));
        assert!(!is_within(&limits, around(0.6), around(2.3)));
    }
}
