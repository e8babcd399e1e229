//! What surrounds runs: schedules, connections, subscriptions, tasks, jobs, replays and settings.

use anyhow::{Context, Result, ensure};
use semel_model::Right;
use semel_testkit::until_some;

use super::stage::Stage;
use super::{Browser, hidden};

async fn furnished() -> Result<Stage> {
    let stage = Stage::start().await?;
    stage.furnish_unrehearsed().await?;
    Ok(stage)
}

#[tokio::test]
async fn a_schedule_says_when_it_is_due_and_is_paused_resumed_and_fired() -> Result<()> {
    let stage = furnished().await?;
    let browser = Browser::signed_in(&stage.world).await?;
    let path = "/console/main/schedules/nightly";
    let page = browser.page(path).await?;
    let form = hidden(&page, "form")?;

    ensure!(
        page.contains("Europe/Berlin") && page.contains("08:30:00"),
        "{page}"
    );
    assert_eq!(page.matches(" 08:30:00 CE").count(), 5, "{page}");
    let fields = [
        ("form", form.as_str()),
        ("key", "s-1"),
        ("reason", "holidays"),
    ];
    let paused = browser.post(&format!("{path}/pause"), &fields).await?;
    let while_paused = browser.page(path).await?;
    assert_eq!(paused.status, 303, "{}", paused.text());
    ensure!(while_paused.contains("Resume this schedule") && while_paused.contains("test"));
    let resumed = browser
        .post(
            &format!("{path}/resume"),
            &[fields[0], ("key", "s-2"), fields[2]],
        )
        .await?;
    assert_eq!(resumed.status, 303, "{}", resumed.text());
    let fire = [fields[0], ("key", "s-3")];
    let fired = browser.post(&format!("{path}/fire"), &fire).await?;
    let again = browser.post(&format!("{path}/fire"), &fire).await?;
    let to = fired.header("location").context("a run")?;
    ensure!(to.starts_with("/console/main/runs/run_"), "{to}");
    assert_eq!(
        Some(to),
        again.header("location"),
        "a second click is the same"
    );
    let wrong = [fields[0], ("key", "s-4"), ("at", "tomorrow")];
    let refused = browser.post(&format!("{path}/fire"), &wrong).await?;
    assert_eq!(refused.status, 400);
    Ok(())
}

#[tokio::test]
async fn a_connection_is_shown_without_its_secret_tested_and_paused() -> Result<()> {
    let stage = furnished().await?;
    let browser = Browser::signed_in(&stage.world).await?;
    let path = "/console/main/connections/hooked";
    let page = browser.page(path).await?;
    let secrets = browser.page("/console/main/secrets").await?;
    let form = hidden(&page, "form")?;
    let fields = [
        ("form", form.as_str()),
        ("key", "c-1"),
        ("reason", "they moved"),
    ];

    for text in [&page, &secrets] {
        ensure!(
            text.contains("hooked") && !text.contains("whsec_"),
            "{text}"
        );
    }
    let tested = browser.post(&format!("{path}/test"), &fields[..2]).await?;
    ensure!(tested.text().contains("The test "), "{}", tested.text());
    let silent = browser.post(&format!("{path}/pause"), &fields[..2]).await?;
    assert_eq!(silent.status, 422, "a reason is needed: {}", silent.text());
    let paused = browser.post(&format!("{path}/pause"), &fields).await?;
    let while_paused = browser.page(path).await?;
    assert_eq!(paused.status, 303, "{}", paused.text());
    ensure!(
        while_paused.contains("Paused by token:test: they moved"),
        "{while_paused}"
    );
    let resumed = browser
        .post(
            &format!("{path}/resume"),
            &[fields[0], ("key", "c-2"), fields[2]],
        )
        .await?;
    assert_eq!(resumed.status, 303, "{}", resumed.text());
    Ok(())
}

#[tokio::test]
async fn many_runs_are_cancelled_only_as_they_were_shown() -> Result<()> {
    let stage = furnished().await?;
    let world = &stage.world;
    for key in ["many-1", "many-2"] {
        super::stage::begin(world, "asking", key, "x").await?;
    }
    let browser = Browser::signed_in(world).await?;
    let path = "/console/main/jobs/new?verb=cancel&flow=asking&state=active";
    until_some("three active runs", async || {
        let page = browser.page(path).await?;
        Ok(page
            .contains("3 runs of asking would be cancelled.")
            .then_some(()))
    })
    .await?;
    let page = browser.page(path).await?;
    let (form, digest) = (hidden(&page, "form")?, hidden(&page, "digest")?);
    let fields = |digest: &'static str| {
        [
            ("verb", "cancel"),
            ("flow", "asking"),
            ("state", "active"),
            ("reason", "a mistake"),
            ("key", digest),
        ]
    };
    let with = |digest: &str, key: &'static str| {
        let mut all: Vec<(&str, String)> = fields(key)
            .iter()
            .map(|(name, it)| (*name, (*it).to_owned()))
            .collect();
        all.push(("digest", digest.to_owned()));
        all.push(("form", form.clone()));
        all
    };
    let post = async |all: Vec<(&str, String)>| {
        let all: Vec<(&str, &str)> = all.iter().map(|(name, it)| (*name, it.as_str())).collect();
        browser.post("/console/main/jobs", &all).await
    };

    let other = post(with("0000", "j-1")).await?;
    let made = post(with(&digest, "j-2")).await?;
    let again = post(with(&digest, "j-2")).await?;

    ensure!(other.status.is_client_error(), "{}", other.text());
    ensure!(other.text().contains("a mistake"), "what was typed stays");
    assert_eq!(made.status, 303, "{}", made.text());
    assert_eq!(made.header("location"), again.header("location"));
    let job = made.header("location").context("a page")?;
    until_some("the outcomes of three runs", async || {
        let page = browser.page(job).await?;
        Ok(page.contains("3 of 3 runs have an outcome.").then_some(()))
    })
    .await?;
    let none = "/console/main/jobs/new?verb=cancel&flow=nightly&state=active";
    let empty = browser.get(none).await?;
    assert_eq!(empty.status, 422, "{}", empty.text());
    ensure!(
        empty.text().contains("<option value=\"nightly\" selected>"),
        "{}",
        empty.text()
    );
    let rights = [Right::Read].into_iter().collect();
    let viewer = Browser::with_rights(world, "viewer", rights).await?;
    assert_eq!(viewer.get(path).await?.status, 403);
    let seen = viewer.page("/console/main/jobs").await?;
    ensure!(seen.contains("does not have the right operate"), "{seen}");
    Ok(())
}

#[tokio::test]
async fn a_replay_is_planned_previewed_and_then_applied() -> Result<()> {
    let stage = furnished().await?;
    let browser = Browser::signed_in(&stage.world).await?;
    let page = browser.page("/console/main/replays").await?;
    let form = hidden(&page, "form")?;
    let fields = [
        ("form", form.as_str()),
        ("key", "r-1"),
        ("flow", "failing"),
        ("state", "failed"),
        ("reason", "fixed"),
    ];

    let planned = browser.post("/console/main/replays", &fields).await?;
    assert_eq!(planned.status, 303, "{}", planned.text());
    let plan = planned.header("location").context("a page")?.to_owned();
    until_some("the preview", async || {
        let page = browser.page(&plan).await?;
        Ok(page.contains("Replay these runs").then_some(()))
    })
    .await?;
    let apply = [fields[0], ("key", "r-2"), ("decision", "apply"), fields[4]];
    let applied = browser.post(&format!("{plan}/change"), &apply).await?;
    assert_eq!(applied.status, 303, "{}", applied.text());
    until_some("two replayed runs", async || {
        let page = browser.page(&plan).await?;
        Ok(page.contains("2 are replayed").then_some(()))
    })
    .await?;
    let nothing = [fields[0], ("key", "r-3"), fields[4]];
    assert_eq!(
        browser
            .post(&format!("{plan}/change"), &nothing)
            .await?
            .status,
        400
    );
    Ok(())
}

#[tokio::test]
async fn queues_subscriptions_and_settings_show_who_has_what() -> Result<()> {
    let stage = furnished().await?;
    let browser = Browser::signed_in(&stage.world).await?;

    let tasks = browser.page("/console/main/tasks?all=yes").await?;
    let subscription = browser.page("/console/main/subscriptions/hooked").await?;
    let settings = browser.page("/console/main/settings").await?;

    ensure!(
        tasks.contains("images") && tasks.contains("resize"),
        "{tasks}"
    );
    ensure!(subscription.contains("order.paid"), "{subscription}");
    ensure!(
        settings.contains(env!("CARGO_PKG_VERSION")) && settings.contains("Send a test message")
    );
    let rights = [Right::Read].into_iter().collect();
    let viewer = Browser::with_rights(&stage.world, "viewer", rights).await?;
    let seen = viewer.page("/console/main/settings").await?;
    ensure!(seen.contains("does not have the right connect") && !seen.contains("Namespaces</h2>"));
    Ok(())
}
