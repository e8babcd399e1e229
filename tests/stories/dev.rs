//! `semel dev` over a working day: it starts, announces new flows, and restarts its database.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use semel_testkit::{Process, Program, patience, until};

use crate::first_minutes::run;

async fn begin(home: &Path) -> Result<Process> {
    let dev = Program::semel()?.arg("dev").current_dir(home).start()?;
    dev.until_line("starting PostgreSQL", patience()).await?;
    dev.until_line("semel is ready at", patience()).await?;
    Ok(dev)
}

#[tokio::test]
async fn dev_announces_a_new_flow_and_is_found_from_a_subfolder() -> Result<()> {
    let home = tempfile::tempdir()?;
    let dev = begin(home.path()).await?;

    run(home.path(), "semel init greet").await?;
    dev.until_line("greet r1 is live", patience()).await?;
    dev.until_line("/hooks/default/greet", patience()).await?;

    let below = home.path().join("notes/old");
    std::fs::create_dir_all(&below)?;
    let listed = run(&below, "semel flow list").await?;
    ensure!(listed.contains("greet"), "{listed}");
    Ok(())
}

#[tokio::test]
async fn dev_restarts_a_crashed_database_and_runs_continue() -> Result<()> {
    let home = tempfile::tempdir()?;
    let dev = begin(home.path()).await?;
    run(home.path(), "semel init greet").await?;
    dev.until_line("greet r1 is live", patience()).await?;
    let start = |id: u32| {
        format!("semel run start greet --input '{{\"id\":\"{id}\",\"name\":\"Ada\"}}' --wait 30s")
    };
    run(home.path(), &start(1)).await?;
    let pid = postmaster(home.path())?;

    run(home.path(), &format!("kill -9 {pid}")).await?;
    dev.until_line("PostgreSQL is back", patience()).await?;

    let look = async || Ok(run(home.path(), &start(2)).await);
    let said = until("a run after the crash", look, Result::is_ok).await??;
    ensure!(said.contains("succeeded"), "{said}");
    ensure!(postmaster(home.path())? != pid);
    Ok(())
}

/// The process of the private PostgreSQL. Its home may lie elsewhere, where `.semel/database`
/// leads.
fn postmaster(home: &Path) -> Result<u32> {
    let address = std::fs::read_to_string(home.join(".semel/database"))?;
    let folder = address.split('\'').nth(1).context("a folder")?;
    let file = PathBuf::from(folder).join("data/postmaster.pid");
    let text = std::fs::read_to_string(file)?;
    let line = text.lines().next().context("a line")?;
    Ok(line.trim().parse()?)
}
