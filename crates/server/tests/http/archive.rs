//! The archive: what is past its history is shown as it was, refuses changes, and can be erased; and nothing is
//! deleted that is not in it.

mod items;
mod refusing;
mod stage;
mod stuck;
mod trouble;

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use semel_api::Code;
use semel_api::types::{Cancel, EraseRun, PreviewReplay, Resume, RunDetail, RunStatus};
use semel_engine::{Bucket, ResourceLocation};
use semel_model::{SecretText, Span};
use semel_store::retention::{self, ClaimRule};
use semel_store::{archives, clock};
use semel_testkit::{S3, s3, until, until_some};
use serde_json::json;

use crate::console::Browser;
use crate::world::refused;
use stage::{HISTORY, ITEMS, Stage, as_before, left, write_file};

/// The run and its items.
const FAMILY: u64 = ITEMS + 1;

fn because(reason: &str) -> EraseRun {
    EraseRun {
        reason: reason.to_owned(),
    }
}

#[tokio::test]
async fn an_archived_run_is_shown_as_it_was_and_refuses_changes() -> Result<()> {
    let stage = Stage::start().await?;
    let run = stage.play_customer("o-1").await?;
    let failed = stage.play_short("o-2", true).await?;
    let before = stage.shown(run).await?;
    let before_failed = stage.shown(failed).await?;
    stage.days_later(91).await?;
    stage.archive(FAMILY + 1).await?;

    let client = stage.client().await?;
    let mut after = Vec::new();
    for one in &before {
        after.push(as_before(client.get_run(one.run.id).await?)?);
    }
    let after_failed = as_before(client.get_run(failed).await?)?;
    let awaited = client.await_run(run, Span::from_secs(1)).await?;
    let little = stage.reader().await?.get_run(run).await?;
    let stranger = stage.world.stranger().await?;
    let browser = Browser::signed_in_as(&stage.world, &client).await?;
    let page = browser.get(&format!("/console/main/runs/{run}")).await?;

    assert_eq!(before.len() as u64, FAMILY, "the run and its items");
    assert_eq!(left(&stage, run).await?, 0, "all of it was deleted");
    assert_eq!(after, before);
    assert_eq!(vec![after_failed], before_failed);
    assert!(
        format!("{:?}", after[0].journal).contains("planted-name"),
        "the input is in it"
    );
    assert_eq!(awaited.state, RunStatus::Succeeded);
    assert!(awaited.archived_at.is_some());
    assert_eq!(little.run.result, None, "without the right `payload`");
    assert!(!format!("{little:?}").contains("planted-"), "{little:?}");
    assert_eq!(
        refused(stranger.get_run(run).await)?,
        Code::RunNotFound,
        "of another namespace"
    );
    let text = page.text();
    assert!(text.contains("archived"), "{text}");
    assert!(!text.contains("/replay\""), "no form: {text}");
    assert!(
        !text.contains("/effects/eff_"),
        "no page that is not there: {text}"
    );
    let (reason, ask_again) = ("x".to_owned(), false);
    let cancel = Cancel {
        reason: reason.clone(),
    };
    let resume = Resume { reason, ask_again };
    let preview = PreviewReplay::default();
    for code in [
        refused(client.cancel_run(failed, &cancel, "c").await)?,
        refused(client.resume_run(failed, &resume, "r").await)?,
        refused(client.preview_replay(failed, &preview).await)?,
    ] {
        assert_eq!(code, Code::RunArchived);
    }
    Ok(())
}

#[tokio::test]
async fn what_changes_while_its_file_is_written_is_not_deleted() -> Result<()> {
    let stage = Stage::start().await?;
    let run = stage.play_short("o-1", true).await?;
    stage.days_later(91).await?;
    let cell = stage.world.engine.cell();
    let archive = stage.world.engine.options().archive.clone();
    let archive = archive.context("an archive")?;
    let (keys, file) = write_file(&stage, run).await?;
    let (count, content) = archive.write(cell, &file, &keys).await?;
    let resume = Resume {
        reason: "once more".to_owned(),
        ask_again: false,
    };
    stage.client().await?.resume_run(run, &resume, "r").await?;

    let written = (&file, &content);
    let rule = ClaimRule::default();
    let deleted = retention::delete_archived(cell.every(), &keys, written, HISTORY, &rule).await?;

    assert_eq!((count, deleted), (1, None));
    assert!(left(&stage, run).await? > 0, "the run is where it was");
    let found = archives::find(cell.of(run), keys[0].namespace_id, run).await?;
    assert_eq!(found, None, "and nowhere else");
    Ok(())
}

#[tokio::test]
async fn what_is_erased_while_its_file_is_written_stays_in_no_file() -> Result<()> {
    let stage = Stage::start().await?;
    let run = stage.play_customer("o-1").await?;
    stage.days_later(91).await?;
    let cell = stage.world.engine.cell();
    let archive = stage.world.engine.options().archive.clone();
    let archive = archive.context("an archive")?;
    let (keys, file) = write_file(&stage, run).await?;
    let (_, content) = archive.write(cell, &file, &keys).await?;
    let client = stage.client().await?;
    client.erase_run(run, &because("request 118"), "e").await?;

    let written = (&file, &content);
    let rule = ClaimRule::default();
    let deleted = retention::delete_archived(cell.every(), &keys, written, HISTORY, &rule).await?;
    archives::discard(cell.every(), &file).await?;
    let engine = stage.serve(None).await?;
    let first = stage.path()?.join(&file.object);
    until_some(
        "the family to be archived and its first file to go",
        async || {
            let is_archived = engine.metrics().runs_archived.get() == FAMILY;
            Ok((is_archived && !first.exists()).then_some(()))
        },
    )
    .await?;
    engine.shutdown().await;

    assert_eq!(deleted, None);
    let said = stage.texts()?;
    assert!(!said.is_empty());
    let said = said.iter().filter(|text| text.contains("planted-"));
    assert_eq!(said.count(), 0, "what was archived had been erased");
    Ok(())
}

#[tokio::test]
async fn a_crash_after_the_file_leaves_the_runs_and_the_file_goes() -> Result<()> {
    let stage = Stage::start().await?;
    let run = stage.play_short("o-1", false).await?;
    stage.days_later(91).await?;
    let cell = stage.world.engine.cell();
    let archive = stage.world.engine.options().archive.clone();
    let archive = archive.context("an archive")?;
    let (keys, file) = write_file(&stage, run).await?;
    archive.write(cell, &file, &keys).await?;
    let orphan = stage.path()?.join(&file.object);

    let rows = left(&stage, run).await?;
    assert!(orphan.is_file() && rows > 0);
    stage.archive(1).await?;
    assert!(orphan.is_file(), "it may still be being written");
    clock::move_ahead(cell, Duration::from_secs(2 * 3_600)).await?;
    let engine = stage.serve(None).await?;
    let look = async || Ok(orphan.exists());
    until("the file of the crash to go", look, |is_there| !is_there).await?;
    engine.shutdown().await;

    let shown = stage.client().await?.get_run(run).await?;
    assert!(shown.run.archived_at.is_some());
    assert_eq!(stage.files()?.len(), 1, "the file that has the run");
    Ok(())
}

#[tokio::test]
async fn what_is_erased_is_in_no_file_and_the_run_still_says_what_it_did() -> Result<()> {
    let stage = Stage::start().await?;
    let run = stage.play_customer("o-1").await?;
    let other = stage.play_short("planted-other", false).await?;
    let before = stage.shown(run).await?;
    let before_other = stage.shown(other).await?;
    stage.days_later(91).await?;
    stage.archive(FAMILY + 1).await?;
    let is_said = |texts: &[String], word: &str| texts.iter().any(|text| text.contains(word));
    let mut words: Vec<String> = (0..ITEMS)
        .map(|id| format!("planted-item-{id}\""))
        .collect();
    let said = [
        "planted-name",
        "planted-function planted-name",
        "planted-callback",
        "of o-1",
    ];
    words.extend(said.map(str::to_owned));
    let planted = stage.texts()?;
    for word in &words {
        let quoted = word.replace('"', "\\\"");
        let is_there = is_said(&planted, word) || is_said(&planted, &quoted);
        ensure!(is_there, "{word} was not archived");
    }

    let client = stage.client().await?;
    let erased = client.erase_run(run, &because("request 118"), "e1").await?;
    let texts = stage.texts()?;
    let after = client.get_run(run).await?;
    let item = client.get_run(before[1].run.id).await?;
    let again = client.erase_run(run, &because("once more"), "e2").await?;

    assert_eq!(words.len() as u64, ITEMS + 4, "twenty words");
    assert_eq!(erased.body.runs, FAMILY);
    for word in &words {
        assert!(!is_said(&texts, word.trim_end_matches('"')), "{word}");
    }
    assert!(is_said(&texts, "planted-other"), "another key stays");
    assert_eq!(vec![as_before(client.get_run(other).await?)?], before_other);
    assert!(after.run.erased_at.is_some() && item.run.erased_at.is_some());
    assert_eq!(after.run.result, Some(json!("erased")));
    let kept = |detail: &RunDetail| {
        let effects = detail.effects.iter();
        let effects = effects.map(|it| (it.id, it.state, it.external_id.clone(), it.key_sent));
        let effects: Vec<_> = effects.collect();
        let run = detail.run.clone();
        (run.id, run.key, run.state, run.ended_at, effects)
    };
    assert_eq!(kept(&after), kept(&before[0]), "what it did stays");
    let act = after.acts.last().context("an act")?;
    assert_eq!(act.action, "run.erase");
    assert_eq!(again.body.runs, FAMILY, "a repeat finds the same runs");
    assert_eq!(stage.files()?.len(), 1, "the old file is gone");
    let named = stage.world.database.connect().await?;
    let named = named
        .query_one(
            "SELECT count(*) FROM named_effects WHERE result::text LIKE '%planted-%'",
            &[],
        )
        .await?;
    assert_eq!(named.get::<_, i64>(0), 0, "what its business keys kept");
    Ok(())
}

#[tokio::test]
async fn two_customers_of_one_file_are_erased_at_the_same_time() -> Result<()> {
    let stage = Stage::start().await?;
    let one = stage.play_short("planted-one", false).await?;
    let two = stage.play_short("planted-two", false).await?;
    stage.days_later(91).await?;
    stage.archive(2).await?;
    let client = stage.client().await?;
    let (reason, other) = (because("1"), because("2"));

    let (first, second) = tokio::join!(
        client.erase_run(one, &reason, "e1"),
        client.erase_run(two, &other, "e2"),
    );

    assert_eq!((first?.body.runs, second?.body.runs), (1, 1));
    for run in [one, two] {
        let shown = client.get_run(run).await?;
        assert!(shown.run.erased_at.is_some());
        assert_eq!(shown.run.result, Some(json!("erased")));
    }
    assert_eq!(stage.files()?.len(), 1);
    Ok(())
}

/// A key that was forgotten and came back has a run of the same identity.
#[tokio::test]
async fn a_key_that_came_back_is_shown_as_it_was_last_and_erased_whole() -> Result<()> {
    let stage = Stage::start().await?;
    let first = stage.play_short("planted-key", false).await?;
    stage.days_later(91).await?;
    stage.archive(1).await?;
    let engine = stage.serve(None).await?;
    let second = stage.play_short("planted-key", true).await?;
    engine.shutdown().await;
    let live = stage.client().await?.get_run(second).await?;
    stage.days_later(91).await?;
    stage.archive(1).await?;

    let client = stage.client().await?;
    let shown = client.get_run(first).await?;
    let erased = client.erase_run(first, &because("both"), "e").await?;

    assert_eq!(first, second);
    assert_eq!(live.run.archived_at, None, "what is here comes first");
    assert_eq!(as_before(shown)?.run.state, RunStatus::Failed);
    assert_eq!(erased.body.runs, 2);
    let said = stage.texts()?;
    let said = said.iter().filter(|text| text.contains("planted-function"));
    assert_eq!(said.count(), 0);
    Ok(())
}

#[tokio::test]
async fn an_archive_that_does_not_answer_keeps_every_run() -> Result<()> {
    let stage = Stage::start().await?;
    let archived = stage.play_short("o-1", false).await?;
    stage.days_later(91).await?;
    stage.archive(1).await?;
    let engine = stage.serve(None).await?;
    let run = stage.play_short("o-2", false).await?;
    engine.shutdown().await;
    let rows = left(&stage, run).await?;
    stage.days_later(91).await?;
    let path = stage.path()?;
    let aside = path.with_extension("aside");
    fs::rename(&path, &aside)?;
    fs::write(&path, "no folder")?;

    let engine = stage.serve(None).await?;
    let failures = &engine.metrics().archive_failures;
    let look = async || Ok(failures.get());
    until("the archive to fail", look, |count| *count > 0).await?;
    engine.shutdown().await;
    let client = stage.client().await?;
    let shown = refused(client.get_run(archived).await)?;
    let erased = refused(client.erase_run(archived, &because("x"), "e1").await)?;

    assert!(rows > 0);
    assert_eq!(left(&stage, run).await?, rows, "nothing was deleted");
    assert_eq!(shown, Code::ArchiveUnavailable);
    assert_eq!(erased, Code::ArchiveUnavailable);
    fs::remove_file(&path)?;
    fs::rename(&aside, &path)?;
    stage.archive(1).await?;
    let erased = client.erase_run(archived, &because("x"), "e2").await?;
    assert_eq!(erased.body.runs, 1, "asked again, it is erased");
    Ok(())
}

#[tokio::test]
async fn files_whose_time_is_over_go_with_what_leads_to_them() -> Result<()> {
    let stage = Stage::start().await?;
    let run = stage.play_short("o-1", false).await?;
    stage.days_later(91).await?;
    stage.archive(1).await?;
    let keep = Span::from_secs(200 * 86_400);
    let young = stage.serve(Some(keep)).await?;
    young.shutdown().await;
    let still = stage.client().await?.get_run(run).await?;

    stage.days_later(110).await?;
    let engine = stage.serve(Some(keep)).await?;
    until("the files to go", async || stage.files(), Vec::is_empty).await?;
    engine.shutdown().await;

    assert!(still.run.archived_at.is_some());
    let gone = stage.client().await?.get_run(run).await;
    assert_eq!(refused(gone)?, Code::RunNotFound);
    Ok(())
}

#[tokio::test]
async fn runs_are_archived_to_a_bucket_and_erased_there() -> Result<()> {
    let store = S3::start().await?;
    let place = ResourceLocation::Bucket(Bucket {
        bucket: s3::BUCKET.to_owned(),
        prefix: "semel/eu".to_owned(),
        endpoint: Some(store.endpoint()),
        region: "us-east-1".to_owned(),
        keys: Some(("who".to_owned(), SecretText::new("hush".to_owned()))),
    });
    let stage = Stage::start_at(&place).await?;
    let run = stage.play_customer("o-1").await?;
    let before = stage.shown(run).await?;
    stage.days_later(91).await?;
    stage.archive(FAMILY).await?;

    let client = stage.client().await?;
    let after = client.get_run(run).await?;
    let first = store.list().await?;
    client.erase_run(run, &because("request 118"), "e").await?;
    let erased = client.get_run(run).await?;
    let second = store.list().await?;

    assert_eq!(as_before(after)?, before[0]);
    assert_eq!((first.len(), second.len()), (1, 1));
    assert_ne!(first, second, "written anew, and the old one is gone");
    assert!(second[0].starts_with("semel/eu/runs/"), "{second:?}");
    assert!(!format!("{erased:?}").contains("planted-"), "{erased:?}");
    Ok(())
}
