//! DBOS for Rust doing the work that Semel is measured by: runs of three recorded steps, each with a key.
//!
//! `dbos-peer DATABASE IN_FLIGHT SECONDS TAG` measures for so long, and prints one line of JSON. It runs its workflows
//! in its own process, without HTTP, which is how DBOS is used.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use dbos::{Config, DBOS, RunOptions};
use tokio::task::JoinSet;

async fn record(word: &'static str) -> dbos::Result<String> {
    Ok(word.to_owned())
}

async fn order(_input: String) -> dbos::Result<String> {
    dbos::step("paid", || record("paid")).await?;
    dbos::step("packed", || record("packed")).await?;
    dbos::step("sent", || record("sent")).await
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [database, in_flight, seconds, tag] = arguments.as_slice() else {
        anyhow::bail!("usage: dbos-peer DATABASE IN_FLIGHT SECONDS TAG");
    };
    let in_flight: usize = in_flight.parse().context("a number of runs in flight")?;
    let slice = Duration::from_secs_f64(seconds.parse().context("a number of seconds")?);
    let mut config = Config::new("bench", database);
    config.app_version = Some("1".to_owned());
    config.max_connections = 20;
    let dbos = DBOS::new(config);
    let orders = dbos.register_workflow("orders", order)?;
    dbos.launch().await?;
    let begun = Instant::now();
    let deadline = begun + slice;
    let mut tasks = JoinSet::new();
    for index in 0..in_flight {
        let (orders, tag) = (orders.clone(), tag.clone());
        tasks.spawn(async move {
            let mut count = 0_u64;
            while Instant::now() < deadline {
                let key = format!("{tag}-{index}-{count}");
                let options = RunOptions {
                    workflow_id: Some(&key),
                    ..RunOptions::default()
                };
                let input = format!(r#"{{"id":"{key}","total":4200,"currency":"EUR"}}"#);
                orders.run_with(input, options).await?;
                count += 1;
            }
            anyhow::Ok(count)
        });
    }
    let mut count = 0;
    while let Some(done) = tasks.join_next().await {
        count += done??;
    }
    let per_s = count as f64 / begun.elapsed().as_secs_f64();
    println!("{}", serde_json::json!({ "count": count, "per_s": per_s }));
    dbos.shutdown().await;
    Ok(())
}
