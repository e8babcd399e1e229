//! What goes wrong for one run, one file or one server, and what that leaves alone.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use semel_api::Code;
use semel_engine::RunArchive;
use semel_model::{ClaimId, RunId};
use semel_store::audit::{self, AuditEntry};
use semel_store::{archives, namespaces};
use semel_testkit::until;

use super::refusing::Refusing;
use super::stage::{Stage, left};
use crate::log::Log;
use crate::world::refused;

fn refusing(
    stage: &Stage,
    key: Option<RunId>,
    object: Option<&str>,
) -> Result<Arc<dyn RunArchive>> {
    let inner = stage.world.engine.options().archive.clone();
    Ok(Arc::new(Refusing {
        inner: inner.context("an archive")?,
        key: key.map(|run| ClaimId::from_uuid(*run.as_uuid())),
        object: object.map(str::to_owned),
    }))
}

#[tokio::test]
async fn a_run_that_cannot_be_written_holds_up_no_other() -> Result<()> {
    let stage = Stage::start().await?;
    let bad = stage.play_short("o-1", false).await?;
    let mut others = Vec::new();
    for key in ["o-2", "o-3", "o-4"] {
        others.push(stage.play_short(key, false).await?);
    }
    stage.days_later(91).await?;
    let archive = refusing(&stage, Some(bad), None)?;

    let engine = stage
        .serve_with(|options| options.archive = Some(archive))
        .await?;
    let archived = &engine.metrics().runs_archived;
    let look = async || Ok(archived.get());
    until("the other runs to be archived", look, |count| *count >= 3).await?;

    for run in others {
        assert_eq!(left(&stage, run).await?, 0);
    }
    assert!(left(&stage, bad).await? > 0, "it stays");
    let failures = async || Ok(engine.metrics().archive_failures.get());
    until("the failure to be counted", failures, |count| *count > 0).await?;
    engine.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn a_file_that_cannot_be_removed_holds_up_no_other() -> Result<()> {
    let stage = Stage::start().await?;
    let every = stage.world.engine.cell().every();
    for object in ["runs/held.parquet", "runs/free.parquet"] {
        let file = archives::reserve(every, object).await?;
        archives::discard(every, &file).await?;
    }
    let archive = refusing(&stage, None, Some("runs/held.parquet"))?;
    stage.days_later(1).await?;

    // It may hold the duty of retention, and it has no archive.
    stage.world.engine.shutdown().await;
    let engine = stage
        .serve_with(|options| options.archive = Some(archive))
        .await?;

    let database = stage.world.database.connect().await?;
    let objects = async || {
        let rows = database.query("SELECT object FROM archives", &[]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect::<Vec<String>>())
    };
    let held = |objects: &Vec<String>| *objects == ["runs/held.parquet"];
    until("the file that can be removed to go", objects, held).await?;
    engine.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn a_server_without_an_archive_deletes_nothing_where_others_have_one() -> Result<()> {
    let stage = Stage::start().await?;
    stage.play_short("o-1", false).await?;
    stage.days_later(91).await?;
    stage.archive(1).await?;
    let run = stage.play_short("o-2", false).await?;
    stage.days_later(91).await?;

    let log = Log::default();
    // The services of this server run on the thread of the test.
    let _heard = tracing::subscriber::set_default(log.clone());
    let without = stage.serve_with(|options| options.archive = None).await?;
    // It says so where it would go through the runs, and goes on with something else.
    let said = async || Ok(log.text());
    let leaves = |said: &String| said.contains("no run is deleted");
    until("retention to leave the runs", said, leaves).await?;
    let deleted = without.metrics().runs_deleted.get();
    without.shutdown().await;
    let is_left = left(&stage, run).await? > 0;
    let ended = stage
        .serve_with(|options| {
            options.archive = None;
            options.archive_ended = true;
        })
        .await?;

    ensure!(is_left && deleted == 0, "{deleted} were deleted");
    // Where the operator says that archiving has ended, they are.
    let rows = async || left(&stage, run).await;
    until("the run to be deleted", rows, |rows| *rows == 0).await?;
    ended.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn a_file_that_says_something_else_than_was_written_is_not_believed() -> Result<()> {
    let stage = Stage::start().await?;
    let run = stage.play_short("o-1", false).await?;
    stage.days_later(91).await?;
    stage.archive(1).await?;
    let client = stage.client().await?;
    let before = client.get_run(run).await;
    let database = stage.world.database.connect().await?;
    let other = "UPDATE archived_runs SET sha256 = sha256('another text')";
    database.batch_execute(other).await?;

    let after = client.get_run(run).await;

    assert!(before.is_ok());
    assert_eq!(refused(after)?, Code::ArchiveUnavailable);
    Ok(())
}

#[tokio::test]
async fn what_people_did_to_an_archived_run_is_told_after_the_audit_record_forgot_it() -> Result<()>
{
    let stage = Stage::start().await?;
    let run = stage.play_short("o-1", false).await?;
    let cell = stage.world.engine.cell();
    let namespace_id = namespaces::ensure(cell.home(), &"main".parse()?).await?;
    for (actor, subject) in [("token:ada", "before"), ("token:ben", "before")] {
        let act = AuditEntry::new(namespace_id, actor, "run.cancel", subject).about(run);
        audit::begin(cell.home(), &act).await?;
    }
    stage.days_later(91).await?;
    stage.archive(1).await?;
    let owner = stage.world.database.connect().await?;
    let forget = "ALTER TABLE audit DISABLE TRIGGER USER;
                  DELETE FROM audit WHERE actor = 'token:ada'";
    owner.batch_execute(forget).await?;

    let shown = stage.client().await?.get_run(run).await?;

    let actors: Vec<&str> = shown.acts.iter().map(|act| act.actor.as_str()).collect();
    assert_eq!(actors, ["token:ada", "token:ben"], "each once");
    Ok(())
}
