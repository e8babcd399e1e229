//! Messages that do not arrive, and servers that die over one: counted, carried on, never in a loop.

use anyhow::{Context, Result};
use semel_model::Span;
use semel_store::alerts::{self, DueGroup, MessageText};
use semel_store::clock;
use semel_store::pauses::PauseKind;
use semel_testkit::{Smtp, until};

use super::{
    GATHER, LOST, QUIET, connect_hook, connect_mail, count_in, count_of, groups, later, received,
    until_counted, until_group, until_quiet, until_received, world_with_hook,
};
use crate::world::World;

/// Longer than the lease of a message, and than that of a server.
const LEASE_OVER: std::time::Duration = std::time::Duration::from_secs(61);

#[tokio::test]
async fn a_destination_that_times_out_leaves_a_doubt_and_no_loop() -> Result<()> {
    let world = world_with_hook(LOST, "/hang/plain/ops").await?;
    world.play(r#"{"id":"1"}"#).await?;
    until_group(&world, |group| group.waiting == 1).await?;

    later(&world, GATHER).await?;
    let doubted = until_group(&world, |group| group.failures == 1).await?;
    until_quiet(&world).await?;
    let tried = received(&world, "/hang/plain/ops").await?.len();
    world.play(r#"{"id":"2"}"#).await?;
    until_group(&world, |group| group.waiting == 2).await?;
    later(&world, QUIET).await?;
    let seen = until_received(&world, "/hang/plain/ops", 2).await?;
    let failing = async || Ok(world.engine.metrics().alerts_failing.get());
    until("alerts that do not arrive", failing, |count| *count == 1).await?;

    assert_eq!(doubted.message.context("a message")?.state, "in_doubt");
    assert_eq!(tried, 1, "not sent again in the same period");
    assert_eq!(doubted.waiting, 1, "its count waits for the next message");
    assert_eq!(count_of(&seen[1])?, 2, "the count of both");
    let found = groups(&world).await?;
    assert_eq!(
        found.len(),
        1,
        "a message that fails raises no alert: {found:?}"
    );
    Ok(())
}

#[tokio::test]
async fn alerts_whose_connection_is_gone_are_shown_and_arrive_once_it_is_back() -> Result<()> {
    let world = world_with_hook(LOST, "/plain/ops").await?;
    world.engine.delete_connection(world.by(), "ops").await?;

    let home = || world.engine.cell().home();
    let failing_before = alerts::count_failing(home()).await?;
    world.play(r#"{"id":"1"}"#).await?;
    until_group(&world, |group| group.waiting == 1).await?;
    later(&world, GATHER).await?;
    let failed = until_group(&world, |group| group.failures == 1).await?;
    let setting = alerts::find(home(), world.namespace_id).await?;
    connect_hook(&world, "/plain/ops").await?;
    later(&world, QUIET).await?;
    let seen = until_received(&world, "/plain/ops", 1).await?;
    until_group(&world, |group| group.failures == 0).await?;

    assert_eq!(failing_before, 1, "before any message");
    assert!(!setting.context("a setting")?.connection_exists);
    let message = failed.message.context("a message")?;
    assert_eq!(message.state, "failed");
    assert!(
        message
            .note
            .context("a note")?
            .contains("no connection `ops`")
    );
    assert_eq!(count_of(&seen[0])?, 1);
    assert_eq!(alerts::count_failing(home()).await?, 0);
    Ok(())
}

#[tokio::test]
async fn alerts_over_a_paused_connection_are_one_message_after_it() -> Result<()> {
    let world = world_with_hook(LOST, "/plain/ops").await?;
    let hook = (PauseKind::Connection, "ops");
    let paused = world.engine.pause(world.by(), hook, "their system moves");
    assert!(paused.await?);
    for id in 1..=3 {
        world.play(&format!(r#"{{"id":"{id}"}}"#)).await?;
        until_group(&world, |group| group.waiting == id).await?;
        later(&world, QUIET).await?;
        until_quiet(&world).await?;
    }

    let meanwhile = received(&world, "/plain/ops").await?.len();
    let resumed = world.engine.resume_paused(world.by(), hook, None, None);
    assert!(resumed.await?);
    let seen = until_received(&world, "/plain/ops", 1).await?;
    until_quiet(&world).await?;

    assert_eq!(meanwhile, 0);
    assert_eq!(count_of(&seen[0])?, 3);
    assert_eq!(received(&world, "/plain/ops").await?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn what_failed_for_long_goes_to_the_destination_that_is_set_next() -> Result<()> {
    let world = world_with_hook(LOST, "/plain/ops").await?;
    world.engine.delete_connection(world.by(), "ops").await?;
    world.play(r#"{"id":"1"}"#).await?;
    until_group(&world, |group| group.waiting == 1).await?;
    later(&world, GATHER).await?;
    for failures in 1..=8 {
        until_group(&world, |group| group.failures == failures).await?;
        later(&world, QUIET).await?;
    }
    until_quiet(&world).await?;
    let given_up = until_group(&world, |group| group.failures == 8).await?;

    connect_hook(&world, "/plain/ops").await?;
    world.engine.set_alerts(world.by(), "ops", &[]).await?;
    let seen = until_received(&world, "/plain/ops", 1).await?;

    assert_eq!(given_up.waiting, 1);
    assert_eq!(count_of(&seen[0])?, 1);
    let home = world.engine.cell().home();
    assert_eq!(alerts::count_failing(home).await?, 0);
    Ok(())
}

/// What a message says in the place of a server that dies.
fn text(due: &DueGroup) -> MessageText {
    MessageText {
        subject: "died".to_owned(),
        body: format!("How many: {}", due.count),
    }
}

/// Brings a message as far as a server that dies right after it was written.
async fn intend_and_die(world: &World) -> Result<DueGroup> {
    world.engine.suspend();
    let home = || world.engine.cell().home();
    let (namespace_id, engine) = (world.namespace_id, &world.engine);
    for _ in 0..3 {
        engine
            .raise_not_proven(namespace_id, "story", "bank")
            .await?;
    }
    alerts::fold(home()).await?;
    // Its lease ends as well, so that the next server does its duties at once.
    clock::move_ahead(world.engine.cell(), LEASE_OVER).await?;
    let mut written = alerts::intend(home(), text).await?;
    written.pop().context("a message")
}

#[tokio::test]
async fn a_message_that_was_written_and_not_taken_is_sent_by_the_next_server() -> Result<()> {
    let (world, smtp) = (World::start().await?, Smtp::start().await?);
    connect_mail(&world, &smtp).await?;
    intend_and_die(&world).await?;

    let _next = world.start_another().await?;
    until_group(&world, |group| {
        group.message.as_ref().is_some_and(|it| it.state == "done")
    })
    .await?;
    later(&world, QUIET).await?;
    until_quiet(&world).await?;

    let mails = smtp.mails()?;
    assert_eq!(mails.len(), 1, "{mails:?}");
    assert_eq!(count_in(&mails[0])?, 3);
    Ok(())
}

#[tokio::test]
async fn a_webhook_gets_a_message_again_under_the_same_key_after_its_server_died() -> Result<()> {
    let world = world_with_hook(LOST, "/plain/ops").await?;
    let written = intend_and_die(&world).await?;
    let home = || world.engine.cell().home();
    let taken = alerts::take_due(home(), 10, Span::from_secs(60)).await?;

    let _next = world.start_another().await?;
    until_counted(&world).await?;
    let early = received(&world, "/plain/ops").await?.len();
    later(&world, LEASE_OVER).await?;
    let seen = until_received(&world, "/plain/ops", 1).await?;

    assert_eq!((taken.len(), early), (1, 0), "its lease is respected");
    assert_eq!(seen[0].signed["webhook-id"], written.key().to_string());
    assert_eq!(count_of(&seen[0])?, 3);
    Ok(())
}

#[tokio::test]
async fn a_mail_is_in_doubt_after_its_server_died_and_its_count_comes_with_the_next() -> Result<()>
{
    let (world, smtp) = (World::start().await?, Smtp::start().await?);
    connect_mail(&world, &smtp).await?;
    intend_and_die(&world).await?;
    let home = || world.engine.cell().home();
    alerts::take_due(home(), 10, Span::from_secs(60)).await?;

    let next = world.start_another().await?;
    later(&world, LEASE_OVER).await?;
    let doubted = until_group(&world, |group| group.failures == 1).await?;
    let sent_again = smtp.mails()?.len();
    next.raise_not_proven(world.namespace_id, "story", "bank")
        .await?;
    until_group(&world, |group| group.waiting == 4).await?;
    later(&world, QUIET).await?;
    until_group(&world, |group| group.failures == 0).await?;

    let mails = smtp.mails()?;
    assert_eq!(doubted.message.context("a message")?.state, "in_doubt");
    assert_eq!((sent_again, mails.len()), (0, 1), "{mails:?}");
    assert_eq!(
        count_in(&mails[0])?,
        4,
        "what was in doubt, and what came since"
    );
    Ok(())
}
