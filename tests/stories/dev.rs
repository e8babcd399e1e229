//! `semel dev` over a working day: it starts, announces new flows, and restarts its database.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
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
async fn a_flow_goes_live_when_its_connection_appears() -> Result<()> {
    let home = tempfile::tempdir()?;
    let dev = begin(home.path()).await?;
    let flow = "flow: paid\ntrigger: { webhook: { auth: none, key: input.id } }\nsteps:\n  \
        - { id: charge, guard: review, http: { connection: shop, post: /charges, json: { n: 1 } } }\n";
    std::fs::write(home.path().join("paid.flow.yaml"), flow)?;
    dev.until_line("paid.flow.yaml is not live", patience())
        .await?;

    run(
        home.path(),
        "semel connection create shop --kind http --base-url https://shop.example",
    )
    .await?;

    dev.until_line("paid r1 is live", patience()).await?;
    Ok(())
}

#[tokio::test]
async fn dev_does_not_say_that_the_flow_of_a_file_stays_live_that_it_never_published() -> Result<()>
{
    let home = tempfile::tempdir()?;
    let dev = begin(home.path()).await?;
    let file = home.path().join("broken.flow.yaml");
    std::fs::write(&file, "flow: broken\n")?;
    dev.until_line("broken.flow.yaml is not live", patience())
        .await?;

    std::fs::remove_file(&file)?;

    let line = dev
        .until_line("broken.flow.yaml was deleted", patience())
        .await?;
    ensure!(line.contains("had not been published"), "{line}");
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

#[tokio::test]
async fn a_dev_that_was_killed_is_known_dead_at_the_next_start() -> Result<()> {
    let home = tempfile::tempdir()?;
    let names = || std::fs::read_to_string(home.path().join(".semel/state/lock"));
    let mut dev = begin(home.path()).await?;
    let killed = names()?;
    dev.sigkill()?;

    let _again = begin(home.path()).await?;

    ensure!(killed.lines().count() == 1, "{killed}");
    // A name goes once its session is ended.
    let is_ended = |names: &String| names.lines().count() == 1 && *names != killed;
    until("its session to be ended", async || Ok(names()?), is_ended).await?;
    Ok(())
}

#[tokio::test]
async fn a_database_that_came_with_the_folder_is_refused_before_it_is_started() -> Result<()> {
    let home = tempfile::tempdir()?;
    let kept = home.path().join(".semel/pg");
    std::fs::create_dir_all(kept.join("data"))?;
    for folder in [kept.clone(), kept.join("data")] {
        std::fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    }
    std::fs::write(kept.join("data/PG_VERSION"), "15\n")?;
    let planted = home.path().join("planted");
    let settings = format!("archive_command = 'touch {}'\n", planted.display());
    std::fs::write(kept.join("data/postgresql.conf"), settings)?;

    let dev = Program::semel()?.arg("dev").current_dir(home.path());
    let refused = dev.run(patience()).await?;

    ensure!(!refused.status.success());
    let said = format!("{}{}", refused.stdout, refused.stderr);
    ensure!(said.contains("--trust-folder"), "{said}");
    ensure!(
        !kept.join("data/postgresql.auto.conf").exists(),
        "untouched"
    );
    ensure!(!kept.join("log").exists() && !planted.exists());
    Ok(())
}

#[tokio::test]
async fn what_dev_keeps_is_for_its_user_alone() -> Result<()> {
    let home = tempfile::tempdir()?;
    let kept = home.path().join(".semel");
    std::fs::create_dir(&kept)?;
    std::fs::set_permissions(&kept, Permissions::from_mode(0o755))?;
    let _dev = begin(home.path()).await?;
    std::fs::write(home.path().join("people.json"), "[\"Ada\"]")?;
    run(home.path(), "semel resource put people.json").await?;

    let mut open = Vec::new();
    let mut seen = 0;
    let mut folders = vec![kept.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let (path, about) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?)))?;
            let mode = about.permissions().mode() & 0o777;
            seen += usize::from(path.starts_with(kept.join("resources")) && about.is_file());
            // PostgreSQL sees to its own folder, which only its user may enter.
            if about.is_dir() && path != kept.join("pg") {
                folders.push(path.clone());
            }
            if mode & 0o077 != 0 {
                open.push(format!("{mode:o} {}", path.display()));
            }
        }
    }

    assert_eq!(
        std::fs::metadata(&kept)?.permissions().mode() & 0o777,
        0o700
    );
    ensure!(open.is_empty(), "others may read or enter: {open:?}");
    ensure!(seen > 0, "the resource is a file there");
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
