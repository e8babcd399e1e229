//! Fairness: how long the runs of a quiet namespace take beside another that has many due.
//!
//! The same quiet runs are measured four times, each time in a database and with a server of their own:
//!
//! | phase | the others |
//! |---|---|
//! | `alone` | there are none |
//! | `beside_backlog` | another namespace has many runs due |
//! | `beside_load` | another namespace keeps the server as busy, without a backlog |
//! | `without_fairness` | the many due runs are in the namespace of the quiet ones |
//!
//! What is judged is the backlog beside the load: what the machine has to do is about the same, and only the
//! waiting differs. Within one namespace runs are taken in the order of time, as those of all namespaces were before
//! they took turns: the last phase is shown and not judged.
//!
//! A server that has a place free begins a run as it accepts it, in any namespace, and so passes by what is
//! due. With `--through-queue` a server without room accepts the quiet runs, so that what is measured is the taking.

mod busy;
mod quiet;
mod stage;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use semel_testkit::Cluster;
use serde::Serialize;
use serde_json::json;

use self::quiet::{BOUND, Latency, Pace};
use self::stage::{Door, QuietPlace, Stage};
use crate::fill::space;
use crate::ground;
use crate::meters::{Meters, Reading};
use crate::report;

/// The quiet namespace may take this much longer beside a backlog than beside the same load without one.
const RATIO_MAX: f64 = 1.5;

/// Nor may its runs take longer than this at the 99th percentile.
const P99_MS_MAX: f64 = 500.0;

/// Phases that are only shown take no longer than this.
const SHOWN_SECS_MAX: u32 = 60;

/// How the quiet namespace is measured.
#[derive(Debug, Args)]
pub(crate) struct Fairness {
    /// How many runs of the other namespace are due at the start. They should last for as long as it is measured.
    #[arg(long, default_value_t = 200_000)]
    due: i64,
    /// How many runs the quiet namespace starts in a second.
    #[arg(long, default_value_t = 10)]
    rate: u32,
    /// For how many seconds it is measured, each time. The goal asks for 300; whether it is met is said for any.
    #[arg(long, default_value_t = 15)]
    seconds: u32,
    /// So many callers keep the server busy without a backlog, instead of as many as use the processors as the
    /// backlog does.
    #[arg(long)]
    callers: Option<usize>,
    /// Show besides what these numbers of callers come to: the judged ratio depends on how many there are.
    #[arg(long, value_delimiter = ',')]
    also_callers: Vec<usize>,
    /// Let a server without room accept the quiet runs, so that none begins as it is accepted.
    #[arg(long)]
    through_queue: bool,
    /// Where to write everything as JSON.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// What one of the four came to.
#[derive(Debug, Serialize)]
struct Phase {
    quiet: Latency,
    others: Others,
    cores: Cores,
}

/// What the others did meanwhile.
#[derive(Debug, Serialize)]
struct Others {
    callers: usize,
    due_at_start: i64,
    due_left: i64,
    ended_per_s: f64,
}

/// How many cores were in use while the quiet runs were started.
#[derive(Debug, Serialize)]
struct Cores {
    server: f64,
    postgres: f64,
    /// This tool, with the callers.
    tool: f64,
}

impl Cores {
    fn of(used: &Reading, elapsed: Duration) -> Self {
        let each = |seconds: f64| seconds / elapsed.as_secs_f64();
        Self {
            server: each(used.server_s),
            postgres: each(used.postgres_s),
            tool: each(used.bench_s),
        }
    }
}

/// What is judged.
#[derive(Debug, Serialize)]
struct Verdict {
    ratio_p50: f64,
    ratio_p99: f64,
    ratio_p99_max: f64,
    p99_ms_max: f64,
    /// Without that the quiet runs were alone in the end.
    backlog_lasted: bool,
    met: bool,
}

impl Verdict {
    fn of(backlog: &Phase, load: &Phase) -> Self {
        let ratio_p99 = backlog.quiet.p99_ms / load.quiet.p99_ms;
        let backlog_lasted = backlog.others.due_left > 0;
        Self {
            ratio_p50: backlog.quiet.p50_ms / load.quiet.p50_ms,
            ratio_p99,
            ratio_p99_max: RATIO_MAX,
            p99_ms_max: P99_MS_MAX,
            backlog_lasted,
            met: backlog_lasted && ratio_p99 <= RATIO_MAX && backlog.quiet.p99_ms <= P99_MS_MAX,
        }
    }
}

/// Measures, and says whether the quiet namespace is served as it should be.
pub(crate) async fn run(asked: &Fairness) -> Result<bool> {
    check_space(asked)?;
    let cluster = Cluster::start(ground::options()).await?;
    let admin = cluster.server().connect("postgres").await?;
    let meters = Meters::new(admin, cluster.home())?;
    let bench = Bench {
        cluster: &cluster,
        meters: &meters,
        asked,
    };
    let own = QuietPlace::OwnNamespace;
    let seconds = asked.seconds;
    let alone = bench.phase("alone", 0, (own, seconds), Busy::Not).await?;
    let beside_backlog = bench.phase("beside_backlog", asked.due, (own, seconds), Busy::Not);
    let beside_backlog = beside_backlog.await?;
    let cores = beside_backlog.cores.server + beside_backlog.cores.postgres;
    let busy = match asked.callers {
        Some(callers) => Busy::Callers(callers),
        None => Busy::AsMuchAs(cores),
    };
    let beside_load = bench.phase("beside_load", 0, (own, seconds), busy).await?;
    let shown = seconds.min(SHOWN_SECS_MAX);
    let mut beside_other_loads = Vec::new();
    for callers in &asked.also_callers {
        let (name, busy) = (format!("beside_{callers}_callers"), Busy::Callers(*callers));
        // What is only shown does not undo what is judged.
        beside_other_loads.push(match bench.phase(&name, 0, (own, shown), busy).await {
            Ok(phase) => json!(phase),
            Err(error) => {
                eprintln!("{name}: {error:#}");
                json!({ "callers": callers, "failed": format!("{:#}", error.root_cause()) })
            }
        });
    }
    let same = QuietPlace::SameNamespace;
    let without_fairness = bench.phase("without_fairness", asked.due, (same, shown), Busy::Not);
    let without_fairness = without_fairness.await?;

    let verdict = Verdict::of(&beside_backlog, &beside_load);
    if !verdict.backlog_lasted {
        eprintln!("the backlog ended before the time was over: ask for more with --due");
    }
    let figures = json!({
        "schema": "semel-bench-fair/2",
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "development_build": cfg!(debug_assertions),
        "due": asked.due,
        "rate_per_s": asked.rate,
        "seconds": asked.seconds,
        "through_queue": asked.through_queue,
        "bound_ms": BOUND.as_millis() as u64,
        "alone": alone,
        "beside_load": beside_load,
        "beside_other_loads": beside_other_loads,
        "beside_backlog": beside_backlog,
        "without_fairness": without_fairness,
        "verdict": verdict,
    });
    eprintln!("{figures:#}");
    if let Some(path) = &asked.out {
        report::write(path, &figures)?;
    }
    Ok(verdict.met)
}

/// Refuses to begin what would fill the disk.
fn check_space(asked: &Fairness) -> Result<()> {
    let needed = space::needed(asked.due.unsigned_abs());
    let Some(free) = space::free(&std::env::temp_dir()) else {
        return Ok(());
    };
    ensure!(
        free >= needed,
        "{} due runs need {} GB, and only {} GB are free: ask for fewer with --due, or set TMPDIR to another disk",
        asked.due,
        needed >> 30,
        free >> 30
    );
    Ok(())
}

/// How the others keep the server busy without a backlog.
#[derive(Clone, Copy, Debug)]
enum Busy {
    Not,
    Callers(usize),
    /// As many callers as it takes to use so many cores.
    AsMuchAs(f64),
}

struct Bench<'a> {
    cluster: &'a Cluster,
    meters: &'a Meters,
    asked: &'a Fairness,
}

impl Bench<'_> {
    async fn phase(
        &self,
        name: &str,
        due: i64,
        (place, seconds): (QuietPlace, u32),
        busy: Busy,
    ) -> Result<Phase> {
        let door = match self.asked.through_queue {
            true => Door::Front,
            false => Door::Worker,
        };
        let stage = Stage::open(self.cluster, name, due, (place, door)).await?;
        let pace = Pace {
            rate: self.asked.rate,
            seconds,
        };
        let callers = match busy {
            Busy::Not => 0,
            Busy::Callers(callers) => callers,
            Busy::AsMuchAs(cores) => busy::calibrate(&stage.others(), self.meters, cores).await?,
        };
        let phase = self.measure(&stage, pace, callers).await;
        let phase = phase.with_context(|| {
            let words = stage.semel.last_words();
            format!("the server's last words:\n{words}")
        })?;
        let Phase { quiet, others, .. } = &phase;
        eprintln!(
            "{name}: {} runs, {} did not end, p50 {:.1} ms, p99 {:.1} ms; the others {:.0} runs/s, {} of {} still due",
            quiet.runs,
            quiet.not_ended,
            quiet.p50_ms,
            quiet.p99_ms,
            others.ended_per_s,
            others.due_left,
            others.due_at_start
        );
        stage.close(self.cluster, name).await?;
        Ok(phase)
    }

    async fn measure(&self, stage: &Stage, pace: Pace, callers: usize) -> Result<Phase> {
        let due_at_start = stage.due().await?;
        let begun = Instant::now();
        let load = (callers > 0)
            .then(|| busy::start(stage.others(), callers, "load".to_owned(), pace.lasts()));
        let (quiet, used) = quiet::measure(stage, pace, self.meters).await?;
        let due_left = stage.due().await?;
        let ended_per_s = match load {
            Some(load) => load.await??.rate(),
            None => (due_at_start - due_left) as f64 / begun.elapsed().as_secs_f64(),
        };
        Ok(Phase {
            quiet,
            others: Others {
                callers,
                due_at_start,
                due_left,
                ended_per_s,
            },
            cores: Cores::of(&used, pace.lasts()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(p99_ms: f64, due_left: i64) -> Phase {
        Phase {
            quiet: Latency {
                runs: 100,
                not_ended: 0,
                p50_ms: p99_ms / 2.0,
                p99_ms,
                max_ms: p99_ms,
            },
            others: Others {
                callers: 0,
                due_at_start: 10,
                due_left,
                ended_per_s: 1.0,
            },
            cores: Cores {
                server: 1.0,
                postgres: 1.0,
                tool: 0.0,
            },
        }
    }

    #[test]
    fn a_backlog_is_judged_beside_the_load_and_only_while_it_lasts() {
        let load = phase(100.0, 0);

        assert!(Verdict::of(&phase(150.0, 1), &load).met);
        assert!(!Verdict::of(&phase(151.0, 1), &load).met);
        assert!(!Verdict::of(&phase(150.0, 0), &load).met, "it ran out");
        assert!(!Verdict::of(&phase(501.0, 1), &phase(400.0, 0)).met);
    }
}
