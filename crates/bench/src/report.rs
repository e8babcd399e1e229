//! What was measured: a table for people, JSON for programs.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::goal::Goal;
use crate::load::Slice;
use crate::meters::{Reading, median};

/// Writes figures as JSON.
pub(crate) fn write(path: &Path, figures: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(figures)? + "\n";
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// What one slice brought and cost.
pub(crate) struct Measured {
    /// What it brought.
    pub(crate) slice: Slice,
    /// What it cost.
    pub(crate) used: Reading,
}

/// Which of the three a slice was of.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Side {
    /// Bare PostgreSQL, or the plain server on it.
    Bare,
    /// A small writer of the same rows as the product.
    SameRows,
    /// The product.
    Semel,
}

/// The values of one round.
#[derive(Clone, Copy, Debug, Serialize)]
struct Round {
    bare: f64,
    semel: f64,
    ratio: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    same: Option<Same>,
}

/// The same round of a small writer of the same rows.
#[derive(Clone, Copy, Debug, Serialize)]
struct Same {
    value: f64,
    ratio: f64,
}

/// The result of one goal.
#[derive(Debug, Serialize)]
struct Line {
    id: &'static str,
    what: &'static str,
    unit: &'static str,
    bound: Option<String>,
    bound_of_same: Option<String>,
    bare: f64,
    same: Option<f64>,
    semel: f64,
    ratio: f64,
    ratio_to_same: Option<f64>,
    met: bool,
    rounds: Vec<Round>,
}

/// What one slice brought and cost.
#[derive(Debug, Serialize)]
struct Detail {
    goal: &'static str,
    round: usize,
    side: Side,
    count: u64,
    per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    commits_each: f64,
    wal_bytes_each: f64,
    server_us_each: f64,
    postgres_us_each: f64,
    bench_us_each: f64,
}

/// Everything that was measured.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rounds: Vec<(Goal, Round)>,
    details: Vec<Detail>,
}

impl Report {
    /// Adds the values of one round.
    pub(crate) fn add(&mut self, goal: Goal, bare: f64, semel: f64) {
        let ratio = semel / bare;
        let same = None;
        let round = Round {
            bare,
            semel,
            ratio,
            same,
        };
        self.rounds.push((goal, round));
    }

    /// Adds what a small writer of the same rows came to in the round that was added last.
    pub(crate) fn add_same(&mut self, goal: Goal, value: f64) {
        if let Some((_, round)) = self.rounds.iter_mut().rfind(|(found, _)| *found == goal) {
            let ratio = round.semel / value;
            round.same = Some(Same { value, ratio });
        }
    }

    /// Adds what one slice brought and cost, and says so at once.
    pub(crate) fn detail(&mut self, goal: Goal, round: usize, side: Side, measured: &Measured) {
        let Measured { slice, used } = measured;
        let count = slice.count.max(1) as f64;
        let detail = Detail {
            goal: goal.name(),
            round,
            side,
            count: slice.count,
            per_s: slice.rate(),
            p50_ms: slice.latency_ms(0.5),
            p99_ms: slice.latency_ms(0.99),
            commits_each: used.commits as f64 / count,
            wal_bytes_each: used.wal_bytes as f64 / count,
            server_us_each: used.server_s * 1e6 / count,
            postgres_us_each: used.postgres_s * 1e6 / count,
            bench_us_each: used.bench_s * 1e6 / count,
        };
        eprintln!("{}", sentence(&detail));
        self.details.push(detail);
    }

    fn lines(&self) -> Vec<Line> {
        Goal::ALL
            .into_iter()
            .filter_map(|goal| self.line(goal))
            .collect()
    }

    fn line(&self, goal: Goal) -> Option<Line> {
        let of_goal = self.rounds.iter().filter(|(found, _)| *found == goal);
        let rounds: Vec<Round> = of_goal.map(|(_, round)| *round).collect();
        if rounds.is_empty() {
            return None;
        }
        let middle =
            |value: fn(&Round) -> f64| median(&rounds.iter().map(value).collect::<Vec<_>>());
        let (semel, ratio) = (middle(|round| round.semel), middle(|round| round.ratio));
        let judged = if goal == Goal::F6 { semel } else { ratio };
        let same = |value: fn(Same) -> f64| {
            let values: Vec<f64> = rounds.iter().filter_map(|it| it.same.map(value)).collect();
            (!values.is_empty()).then(|| median(&values))
        };
        let ratio_to_same = same(|same| same.ratio);
        let (bound, bound_of_same) = (goal.bound(), goal.bound_of_same());
        let met = bound.is_none_or(|bound| bound.holds(judged))
            && bound_of_same
                .zip(ratio_to_same)
                .is_none_or(|(bound, ratio)| bound.holds(ratio));
        Some(Line {
            id: goal.name(),
            what: goal.what(),
            unit: goal.unit(),
            bound: bound.map(|bound| bound.to_string()),
            bound_of_same: bound_of_same.map(|bound| bound.to_string()),
            bare: middle(|round| round.bare),
            same: same(|same| same.value),
            semel,
            ratio,
            ratio_to_same,
            met,
            rounds,
        })
    }

    /// Whether every goal that was measured is met.
    pub(crate) fn all_met(&self) -> bool {
        self.lines().iter().all(|line| line.met)
    }

    /// The table.
    pub(crate) fn table(&self) -> String {
        let mut text = format!(
            "{:<3} {:<48} {:>10} {:>10} {:>10} {:<8} {:>7} {:<7} {:>7} {:<7} {:<4} each round\n",
            "",
            "what",
            "bare",
            "same rows",
            "semel",
            "unit",
            "of bare",
            "goal",
            "of same",
            "goal",
            ""
        );
        for line in self.lines() {
            let rounds: Vec<String> = line
                .rounds
                .iter()
                .map(|round| format!("{:.3}", round.ratio))
                .collect();
            text.push_str(&format!(
                "{:<3} {:<48} {:>10} {:>10} {:>10} {:<8} {:>7.3} {:<7} {:>7} {:<7} {:<4} {}\n",
                line.id,
                line.what,
                short(line.bare),
                line.same.map(short).unwrap_or_default(),
                short(line.semel),
                line.unit,
                line.ratio,
                line.bound.unwrap_or_default(),
                line.ratio_to_same
                    .map(|ratio| format!("{ratio:.3}"))
                    .unwrap_or_default(),
                line.bound_of_same.unwrap_or_default(),
                if line.met { "met" } else { "NOT" },
                rounds.join(" ")
            ));
        }
        text
    }

    /// Everything, as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "schema": "semel-bench/2",
            "cores": std::thread::available_parallelism().map_or(0, usize::from),
            "goals": self.lines(),
            "slices": self.details,
        })
    }
}

fn sentence(detail: &Detail) -> String {
    format!(
        "{} round {} {:<5} {:>8.0}/s  p50 {:.2} ms  p99 {:.2} ms  each: {:.3} commits, {:.0} B log, \
         {:.0} µs server + {:.0} µs postgres + {:.0} µs bench",
        detail.goal,
        detail.round,
        match detail.side {
            Side::Bare => "bare",
            Side::SameRows => "same",
            Side::Semel => "semel",
        },
        detail.per_s,
        detail.p50_ms,
        detail.p99_ms,
        detail.commits_each,
        detail.wal_bytes_each,
        detail.server_us_each,
        detail.postgres_us_each,
        detail.bench_us_each
    )
}

/// Few digits, wherever the point is.
fn short(value: f64) -> String {
    match value.abs() {
        large if large >= 1000.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}
