//! The end of a storm: `semel doctor --deep` finds nothing that sleeps, spins, is missing or cannot be listed, and no
//! server had to repair a wake.

use anyhow::{Context, Result, ensure};
use hyper::Method;
use semel_testkit::{Program, patience, until};
use serde_json::Value;

use crate::servers::{Home, Served};

/// The repairs of a server whose wakes all reached their runs.
const UNREPAIRED: &str = "semel_wakes_repaired_total 0";

/// Demands that every invariant comes to hold, and that no server which lives had to help.
///
/// What is on its way when the storm ends may be found once and not again; what is stranded is found again and again,
/// or a server repairs it and says so.
pub(crate) async fn hold(home: &Home, servers: &[&Served]) -> Result<()> {
    hold_but(home, servers, &[]).await
}

/// The same, apart from some. A storm that moves the clock makes each duty look silent: servers pace themselves by
/// their own.
pub(crate) async fn hold_but(home: &Home, servers: &[&Served], apart: &[&str]) -> Result<()> {
    let look = async || list_broken(home, apart).await;
    until("every invariant to hold", look, Vec::is_empty).await?;
    for server in servers {
        let metrics = home.command(server, Method::GET, "/metrics", String::new());
        let metrics = metrics.await?.text();
        let is_unrepaired = metrics.lines().any(|line| line == UNREPAIRED);
        ensure!(is_unrepaired, "no run had to be found asleep: {metrics}");
    }
    Ok(())
}

/// The invariants that are broken now, each with what is found. What is not known, because a page took too long, is left
/// out: a single look may meet a machine that stands still.
pub(crate) async fn list_breaches(home: &Home) -> Result<Vec<String>> {
    let (lines, answer) = look_deep(home).await?;
    ensure!(!lines.is_empty(), "nothing was looked at: {answer}");
    let broken = lines.iter().filter(|line| line["state"] == "fail");
    Ok(broken.map(Value::to_string).collect())
}

/// The invariants that do not hold or are not known now, each with what is found.
async fn list_broken(home: &Home, apart: &[&str]) -> Result<Vec<String>> {
    let (lines, answer) = look_deep(home).await?;
    let mut found = Vec::new();
    for line in &lines {
        let is_apart = apart.iter().any(|name| line["subject"] == *name);
        if !is_apart && line["state"] != "ok" {
            found.push(line.to_string());
        }
    }
    if lines.len() < INVARIANTS {
        found.push(format!(
            "{} of {INVARIANTS} are known: {answer}",
            lines.len()
        ));
    }
    Ok(found)
}

/// What a deep look says of each invariant, and all that it says.
async fn look_deep(home: &Home) -> Result<(Vec<Value>, Value)> {
    let url = home.url();
    let doctor = Program::semel()?.args(["doctor", "--deep", "--json", "--database", &url]);
    let said = doctor.run(patience()).await?;
    let answer: Value = serde_json::from_str(&said.stdout)
        .with_context(|| format!("doctor: {} {}", said.stdout, said.stderr))?;
    let lines = answer["data"].as_array().context("lines")?;
    let deep = lines.iter().filter(|line| line["deep"].is_object());
    let deep = deep.cloned().collect();
    Ok((deep, answer))
}

/// How many invariants there are.
const INVARIANTS: usize = 6;
