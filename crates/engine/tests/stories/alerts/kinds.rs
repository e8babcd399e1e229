//! Every kind of alert, from what really happens.

use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use semel_engine::{AlertError, HeldWish};
use semel_model::AlertKind;
use semel_store::pauses::PauseKind;
use semel_store::{alerts, duplicates};
use semel_testkit::until;

use super::{
    GATHER, LOST, groups, later, received, until_counted, until_group, until_quiet, until_received,
    world_with_hook,
};
use crate::world::World;

const DONE: &str = "steps:\n  - { id: note, kv: { add: seen } }\n";

fn orders(mismatch: &str) -> String {
    format!(
        "flow: orders\ntrigger:\n  webhook: {{ auth: none, key: input.id, mismatch: {mismatch} }}\n{DONE}"
    )
}

async fn deliver(world: &World, payload: &str) {
    // A delivery that differs is refused or held: either way its sender has an answer.
    let _ = world.try_deliver_to("orders", payload).await;
}

#[tokio::test]
async fn a_held_delivery_is_counted_once_and_a_mismatch_each_time() -> Result<()> {
    let world = world_with_hook(LOST, "/plain/ops").await?;
    world.publish_source(&orders("hold")).await?;
    deliver(&world, r#"{"id":"1","total":1}"#).await;
    for _ in 0..3 {
        deliver(&world, r#"{"id":"1","total":2}"#).await;
    }
    let held = until_group(&world, |group| group.group.kind == AlertKind::Held).await?;
    world.publish_source(&orders("reject")).await?;
    deliver(&world, r#"{"id":"2","total":1}"#).await;
    for _ in 0..3 {
        deliver(&world, r#"{"id":"2","total":2}"#).await;
    }
    let differs = until_group(&world, |group| {
        group.group.kind == AlertKind::Mismatch && group.total == 3
    })
    .await?;

    assert_eq!((held.total, held.group.flow.as_str()), (1, "orders"));
    assert_eq!(differs.group.flow, "orders");
    assert_eq!(groups(&world).await?.len(), 2);
    Ok(())
}

/// Only the first few payloads of a key are kept; the others are one row, which a later one opens again.
#[tokio::test]
async fn what_waits_for_a_decision_again_is_reported_again() -> Result<()> {
    let world = world_with_hook(LOST, "/plain/ops").await?;
    world.publish_source(&orders("hold")).await?;
    let cell = world.engine.cell();
    let order = |total: u32| format!(r#"{{"id":"1","total":{total}}}"#);
    for total in 0..8 {
        deliver(&world, &order(total)).await;
    }
    world.engine.write_down_repeats().await;
    let (held, _) =
        duplicates::list_held(cell.every(), world.namespace_id, None, None, 99, true).await?;
    let rows = i64::try_from(held.len())?;
    let before = until_group(&world, |group| group.total == rows).await?;
    let together = held.iter().find(|one| one.payload.is_none());
    let together = together.context("what is only counted")?.id();
    let (wish, reason) = (HeldWish::Dismiss, "tests");
    world
        .engine
        .decide_held(world.by(), together, &wish, reason)
        .await?;

    for total in 8..11 {
        deliver(&world, &order(total)).await;
        world.engine.write_down_repeats().await;
    }

    until_group(&world, |group| group.total > rows).await?;
    until_counted(&world).await?;
    let after = groups(&world).await?;
    assert_eq!(before.group.kind, AlertKind::Held);
    assert_eq!(after[0].total, rows + 1, "once, although three more came");
    assert_eq!(after.len(), 1);
    Ok(())
}

#[tokio::test]
async fn an_approval_is_reported_when_it_opens_and_when_its_time_is_over() -> Result<()> {
    let sign = "steps:\n  - id: sign\n    approval: { from: [ada], show: 1, within: 1h }\n";
    let world = world_with_hook(sign, "/plain/ops").await?;

    world.deliver(r#"{"id":"1"}"#).await?;
    let pending = until_group(&world, |_| true).await?;
    later(&world, Duration::from_secs(3_601)).await?;
    let overdue = until_group(&world, |group| {
        group.group.kind == AlertKind::ApprovalOverdue
    })
    .await?;

    assert_eq!(pending.group.kind, AlertKind::ApprovalPending);
    assert_eq!((pending.total, pending.group.step.as_str()), (1, "sign"));
    assert_eq!(overdue.total, 1);
    Ok(())
}

#[tokio::test]
async fn a_hundred_duplicates_of_a_flow_in_a_minute_are_a_burst_that_counts_once() -> Result<()> {
    let world = world_with_hook(DONE, "/plain/ops").await?;
    let other = world.start_another().await?;
    let client = world.database().connect().await?;
    let second = "SELECT extract(second FROM moment())::float8";
    let second: f64 = client.query_one(second, &[]).await?.get(0);
    // All of them in one minute, once both engines know that it has begun.
    later(&world, Duration::from_secs_f64(60.0 - second)).await?;
    let begun: Timestamp = client.query_one("SELECT moment()", &[]).await?.get(0);
    let clocks = async || Ok([world.engine.now(), other.now()]);
    until("both engines to know the minute", clocks, |clocks| {
        clocks.iter().all(|clock| *clock >= begun)
    })
    .await?;
    for _ in 0..=120 {
        world.deliver(r#"{"id":"1"}"#).await?;
    }
    for _ in 0..=20 {
        world.deliver(r#"{"id":"few"}"#).await?;
    }
    world.engine.write_down_repeats().await;

    later(&world, Duration::from_secs(65)).await?;
    let burst = until_group(&world, |group| group.group.kind == AlertKind::Duplicates).await?;
    // As the other server does when its turn comes.
    let again = alerts::count_bursts(world.engine.cell().home()).await?;

    assert_eq!((burst.total, burst.group.flow.as_str()), (140, "story"));
    assert_eq!(again, 0, "it is counted");
    assert_eq!(
        groups(&world).await?[0].total,
        140,
        "two servers count it once"
    );
    drop(other);
    Ok(())
}

#[tokio::test]
async fn a_quarantined_run_is_reported() -> Result<()> {
    let naps = "steps:\n  - { id: nap, wait: { for: 1h } }\n  - { id: note, kv: { add: seen } }\n";
    let world = world_with_hook(naps, "/plain/ops").await?;
    let accepted = world.deliver(r#"{"id":"1"}"#).await?;
    // An event that does not fit its place in the journal: the run cannot be read.
    let odd = "UPDATE journal SET events = '[{\"event\":\"skipped\",\"step\":\"a\"}]'
                WHERE run_id = $1 AND seq = 2";
    let client = world.database().connect().await?;
    let change = async || Ok(client.execute(odd, &[accepted.run.as_uuid()]).await?);
    until("a second row of the journal", change, |rows| *rows == 1).await?;

    later(&world, Duration::from_secs(3_601)).await?;
    let group = until_group(&world, |group| group.group.kind == AlertKind::Quarantined).await?;

    assert_eq!((group.total, group.group.flow.as_str()), (1, "story"));
    assert_eq!(group.example, Some(accepted.run));
    Ok(())
}

#[tokio::test]
async fn alerts_wait_for_the_end_of_a_pause_of_their_connection() -> Result<()> {
    let world = world_with_hook(LOST, "/plain/ops").await?;
    let ops = (PauseKind::Connection, "ops");
    world.engine.pause(world.by(), ops, "tests").await?;
    world.deliver(r#"{"id":"1"}"#).await?;
    until_group(&world, |group| group.total == 1).await?;
    later(&world, GATHER).await?;
    until_quiet(&world).await?;

    let held = received(&world, "/plain/ops").await?.len();
    let tested = world.engine.test_alerts(world.by()).await;
    world
        .engine
        .resume_paused(world.by(), ops, None, None)
        .await?;
    let arrived = until_received(&world, "/plain/ops", 1).await?;

    assert_eq!(held, 0, "nothing is sent over a paused connection");
    assert!(matches!(tested, Err(AlertError::Invalid(_))), "{tested:?}");
    assert_eq!(arrived.len(), 1);
    Ok(())
}

#[tokio::test]
async fn nothing_is_sent_after_alerts_were_unset() -> Result<()> {
    let world = world_with_hook(LOST, "/plain/ops").await?;
    let ops = (PauseKind::Connection, "ops");
    world.engine.pause(world.by(), ops, "tests").await?;
    world.deliver(r#"{"id":"1"}"#).await?;
    until_group(&world, |group| group.total == 1).await?;
    later(&world, GATHER).await?;

    world.engine.unset_alerts(world.by()).await?;
    let resumed = world.engine.resume_paused(world.by(), ops, None, None);
    resumed.await?;
    until_quiet(&world).await?;

    let client = world.engine.cell().reader().await?;
    let messages = "SELECT count(*) FROM alert_messages";
    let count: i64 = client.query_one(messages, &[]).await?.get(0);
    assert_eq!((count, received(&world, "/plain/ops").await?.len()), (0, 0));
    Ok(())
}
