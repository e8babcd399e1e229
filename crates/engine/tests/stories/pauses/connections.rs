//! Paused connections: every effect over one waits, none is lost, and they drain at a rate.

use std::time::Duration;

use anyhow::{Result, ensure};
use futures_util::future::try_join_all;
use semel_store::pauses::PauseKind;
use semel_testkit::{patience, until_some};
use serde_json::json;

use super::{FLOW, HELD_RUNS, INTENTS, all_end, count, deliver_by, until_count, until_held};
use crate::world::World;

const BANK: (PauseKind, &str) = (PauseKind::Connection, "bank");

const PAY: &str = "steps:\n  - id: note\n    kv: { add: notes }\n\
    \x20 - id: pay\n    http: { connection: bank, post: /plain/pay, json: { id: '${{ input.id }}' } }\n";

/// When the requests of held runs become due, in milliseconds after the first of them.
const DUE: &str = "
    SELECT coalesce(extract(epoch FROM max(due_at) - min(due_at)) * 1000, 0)::int8 FROM queue";

async fn start() -> Result<World> {
    let world = World::start().await?;
    let bank = json!({ "to": { "http": { "base_url": world.peer.url("") } } });
    world.connect("bank", bank).await?;
    world.publish(PAY).await?;
    Ok(world)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_connection_holds_a_thousand_effects_and_drains_at_its_rate() -> Result<()> {
    const RUNS: usize = 1_000;
    let world = start().await?;
    let other = world.start_another().await?;
    world
        .engine
        .pause(world.by(), BANK, "their maintenance")
        .await?;
    until_some("the other server to know the flow", async || {
        Ok(deliver_by(&other, 0).await.ok())
    })
    .await?;
    try_join_all((1..RUNS).map(|id| deliver_by(&world.engine, id))).await?;
    until_held(&world, RUNS as i64).await?;
    let calls = world.peer.count("/plain/").await?.calls;
    let intents = count(&world, INTENTS).await?;
    let before = clock_now(&world).await?;

    let rate = Some(500.0);
    ensure!(other.resume_paused(world.by(), BANK, rate, None).await?);
    until_held(&world, 0).await?;
    let spread = count(&world, DUE).await?;
    all_end(&world).await?;
    let took = clock_now(&world).await? - before;
    let seen = world.peer.count("/plain/").await?;

    assert_eq!(calls, 0, "nothing was sent");
    assert_eq!(intents, RUNS as i64, "other steps go on");
    assert_eq!((seen.effects, seen.calls), (RUNS as u64, RUNS as u64));
    ensure!(
        took >= 1_900,
        "a thousand at 500 in a second took {took} ms"
    );
    ensure!(spread <= 2_000, "the last is due after {spread} ms");
    other.shutdown().await;
    Ok(())
}

async fn clock_now(world: &World) -> Result<i64> {
    count(world, "SELECT (extract(epoch FROM moment()) * 1000)::int8").await
}

#[tokio::test]
async fn what_was_sent_before_the_pause_is_left_to_finish() -> Result<()> {
    let world = World::start().await?;
    let bank = json!({ "to": { "http": { "base_url": world.peer.url("/hold") } } });
    world.connect("bank", bank).await?;
    world.publish(PAY).await?;
    world.deliver(r#"{"id":"1"}"#).await?;
    world.peer.until_held(1, patience()).await?;
    world
        .engine
        .pause(world.by(), BANK, "their maintenance")
        .await?;
    world.peer.let_go().await?;
    all_end(&world).await?;

    assert_eq!(world.peer.count("/").await?.effects, 1);
    assert_eq!(count(&world, HELD_RUNS).await?, 0);
    Ok(())
}

#[tokio::test]
async fn the_time_limit_of_an_effect_stands_still_while_its_connection_is_paused() -> Result<()> {
    let world = World::start().await?;
    let bank = json!({ "to": { "http": { "base_url": world.peer.url("/fail-first/2") } } });
    world.connect("bank", bank).await?;
    world.publish(PAY).await?;
    let paused = async || -> Result<()> {
        world.deliver(r#"{"id":"1"}"#).await?;
        let retrying = "SELECT count(*) FROM effects WHERE state = 'retrying'";
        until_count(&world, "the effect to be retried", retrying, 1).await?;
        world
            .engine
            .pause(world.by(), BANK, "their maintenance")
            .await?;
        Ok(())
    };
    paused().await?;
    // The retries of a story end after an hour.
    world.move_clock(Duration::from_secs(7_200)).await?;
    until_held(&world, 1).await?;
    world.pass_the_queue().await?;
    world
        .engine
        .resume_paused(world.by(), BANK, None, None)
        .await?;
    all_end(&world).await?;

    assert_eq!(world.peer.count("/").await?.effects, 1);
    Ok(())
}

/// One pause begins and ends within another. Without the time of both, the hour for retries would be over.
async fn overlap(outer: (PauseKind, &'static str), inner: (PauseKind, &'static str)) -> Result<()> {
    const THREE_HOURS: Duration = Duration::from_secs(3 * 3_600);
    const HALF_AN_HOUR: Duration = Duration::from_secs(1_800);
    let world = World::start().await?;
    let bank = json!({ "to": { "http": { "base_url": world.peer.url("/fail-first/2") } } });
    world.connect("bank", bank).await?;
    world.publish(PAY).await?;
    world.deliver(r#"{"id":"1"}"#).await?;
    let retrying = "SELECT count(*) FROM effects WHERE state = 'retrying'";
    until_count(&world, "the effect to be retried", retrying, 1).await?;

    world.engine.pause(world.by(), outer, "a night").await?;
    world.move_clock(THREE_HOURS).await?;
    until_held(&world, 1).await?;
    world.engine.pause(world.by(), inner, "as well").await?;
    world.move_clock(HALF_AN_HOUR).await?;
    let resumed = world.engine.resume_paused(world.by(), inner, None, None);
    ensure!(resumed.await?);
    world.move_clock(HALF_AN_HOUR).await?;
    world.pass_the_queue().await?;
    let held = count(&world, HELD_RUNS).await?;
    let resumed = world.engine.resume_paused(world.by(), outer, None, None);
    ensure!(resumed.await?);
    all_end(&world).await?;

    assert_eq!(held, 1, "the other pause holds it");
    assert_eq!(world.peer.count("/").await?.effects, 1);
    Ok(())
}

#[tokio::test]
async fn a_run_under_two_pauses_goes_on_with_all_its_time_when_that_of_the_connection_ends_last()
-> Result<()> {
    overlap(BANK, FLOW).await
}

#[tokio::test]
async fn a_run_under_two_pauses_goes_on_with_all_its_time_when_that_of_the_flow_ends_last()
-> Result<()> {
    overlap(FLOW, BANK).await
}
