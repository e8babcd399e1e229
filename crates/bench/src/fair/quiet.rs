//! The quiet runs: started at a steady rate, each waited for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hyper::Method;
use semel_testkit::Client;
use serde::Serialize;
use serde_json::json;
use tokio::task::JoinSet;

use super::stage::Stage;
use crate::meters::{Meters, Reading};

/// A run that takes longer counts as one that took this long.
pub(super) const BOUND: Duration = Duration::from_secs(30);

/// Runs of the first seconds do not count: the server has just started.
const WARM_UP_SECS: u32 = 3;

/// How many runs are started a second, and for how many seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) rate: u32,
    pub(super) seconds: u32,
}

impl Pace {
    /// How long runs are started, with those that do not count.
    pub(super) fn lasts(self) -> Duration {
        Duration::from_secs(u64::from(self.seconds + WARM_UP_SECS))
    }
}

/// How long the runs took.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Latency {
    pub(super) runs: usize,
    /// How many did not end within the bound. They count as having taken that long, so that a percentile
    /// which meets them says "at least".
    pub(super) not_ended: usize,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) max_ms: f64,
}

impl Latency {
    /// Of the time of each run, or none where it did not end within the bound.
    fn of(took: &[Option<Duration>]) -> Self {
        let ms = |took: &Option<Duration>| took.unwrap_or(BOUND).as_secs_f64() * 1e3;
        let mut sorted: Vec<f64> = took.iter().map(ms).collect();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().saturating_sub(1) as f64;
        let at = |part: f64| {
            let place = (last * part).round() as usize;
            sorted.get(place).copied().unwrap_or(f64::NAN)
        };
        Self {
            runs: took.len(),
            not_ended: took.iter().filter(|took| took.is_none()).count(),
            p50_ms: at(0.5),
            p99_ms: at(0.99),
            max_ms: at(1.0),
        }
    }
}

/// Starts the quiet runs and waits for each. Gives what the machine spent while they were started, besides.
pub(super) async fn measure(
    stage: &Stage,
    pace: Pace,
    meters: &Meters,
) -> Result<(Latency, Reading)> {
    let rate = pace.rate.max(1);
    // As many as may wait at the same time.
    let waiting_max = (u64::from(rate) * (BOUND.as_secs() + 5)) as usize;
    let caller = Client::new(stage.quiet_address(), waiting_max).with_patience(BOUND * 2);
    let caller = Arc::new(caller);
    let path: Arc<str> = format!("/v1/flows/{}/runs?wait=30s", stage.quiet_flow).into();
    let bearer: Arc<str> = format!("Bearer {}", stage.quiet_token).into();
    let mut runs = JoinSet::new();
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / rate);
    let before = meters.read(Some(stage.semel.process_id())).await?;
    for number in 0..rate * (WARM_UP_SECS + pace.seconds) {
        ticks.tick().await;
        let (caller, path, bearer) = (caller.clone(), path.clone(), bearer.clone());
        runs.spawn(async move {
            let took = start(&caller, &path, &bearer, number).await?;
            anyhow::Ok((number >= rate * WARM_UP_SECS).then_some(took))
        });
    }
    let used = meters.read(Some(stage.semel.process_id())).await?;
    let mut took = Vec::new();
    while let Some(ended) = runs.join_next().await {
        took.extend(ended??);
    }
    Ok((Latency::of(&took), used.since(&before)))
}

/// Starts one run and waits for its end; nothing where it does not end within the bound.
async fn start(caller: &Client, path: &str, bearer: &str, number: u32) -> Result<Option<Duration>> {
    let begun = Instant::now();
    let headers = [
        ("authorization", bearer),
        ("content-type", "application/json"),
    ];
    let body = json!({ "input": { "id": format!("quiet-{number}") } }).to_string();
    let answer = caller
        .send(Method::POST, path, &headers, body.into())
        .await?;
    let took = begun.elapsed();
    let text = answer.text();
    ensure!(
        answer.status.is_success() && !text.contains("failed"),
        "{path}: {} {text}",
        answer.status
    );
    Ok(text.contains("succeeded").then_some(took))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_did_not_end_counts_as_the_bound() {
        let mut took: Vec<Option<Duration>> =
            (1..=98).map(|n| Some(Duration::from_millis(n))).collect();
        took.extend([None, None]);

        let latency = Latency::of(&took);

        assert_eq!((latency.runs, latency.not_ended), (100, 2));
        assert_eq!((latency.p99_ms, latency.max_ms), (30_000.0, 30_000.0));
        assert!(latency.p50_ms < 60.0, "{latency:?}");
    }
}
