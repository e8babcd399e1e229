//! An event with very many waits: they are completed without delaying anything else.

use anyhow::{Context, Result};
use semel_testkit::{patience, until};
use serde_json::json;

use crate::control::start;
use crate::world::World;

/// How many waits have the same topic as the one that matches the event.
const LISTENERS: i64 = 10_000;

const WAITING: &str = "steps:\n  - id: shipped\n    \
    wait: { event: order.shipped, match: event.id == input.id, within: 30d }\n\
    result: steps.shipped.result.by\n";

const SHIPPER: &str = "flow: shipper\ntrigger:\n  api: {}\nsteps:\n  - id: tell\n    \
    emit: { event: order.shipped, data: { id: '${{ run.key }}', by: post } }\n";

const CALLED: &str = "flow: called\ntrigger:\n  api: {}\nsteps:\n  - { id: one, function: '1' }\n\
    result: steps.one.result\n";

const CALLER: &str = "flow: caller\ntrigger:\n  api: {}\nsteps:\n  - id: other\n    \
    call: { flow: called, input: {} }\nresult: steps.other.result\n";

#[tokio::test]
async fn an_event_with_ten_thousand_waits_delays_no_call() -> Result<()> {
    let world = World::start().await?;
    world.publish(WAITING).await?;
    for source in [SHIPPER, CALLED, CALLER] {
        world.publish_source(source).await?;
    }
    start(&world, "shipper", "other").await?;
    let mine = world.deliver(r#"{"id":"aa"}"#).await?.run;
    until_count(&world, "event_waits", 1).await?;
    // Waits of a run that has continued: each is checked, and none matches.
    let copies = "
        INSERT INTO event_waits (wait_id, run_id, namespace_id, event, path, value)
        SELECT md5(n::text)::uuid, r.id, l.namespace_id, l.event, l.path, l.value
          FROM event_waits l, runs r, generate_series(1, $1::int8) AS n
         WHERE r.state = 'succeeded'";
    let client = world.engine.cell().reader().await?;
    client.execute(copies, &[&LISTENERS]).await?;
    drop(client);

    start(&world, "shipper", "aa").await?;
    until_count(&world, "broadcasts", 1).await?;
    let called = start(&world, "caller", "1").await?;
    let under_way = count(&world, "broadcasts").await?;
    let end = world.engine.await_end(mine, patience()).await?;

    assert_eq!(called, json!(1));
    assert_eq!(under_way, 1, "the call did not wait for the event's waits");
    assert_eq!(end.context("a run")?.result.as_deref(), Some("\"post\""));
    Ok(())
}

#[tokio::test]
async fn every_wait_of_a_broadcast_is_completed_once() -> Result<()> {
    let world = World::start().await?;
    let steps = WAITING.replace("event.id == input.id", r#"event.id == "aa""#);
    world.publish(&steps).await?;
    world.publish_source(SHIPPER).await?;
    let mut runs = Vec::new();
    for number in 0..60 {
        let payload = format!(r#"{{"id":"{number}"}}"#);
        runs.push(world.deliver(&payload).await?.run);
    }
    until_count(&world, "event_waits", 60).await?;

    start(&world, "shipper", "aa").await?;
    for run in runs {
        let end = world.engine.await_end(run, patience()).await?;
        assert_eq!(end.context("a run")?.result.as_deref(), Some("\"post\""));
    }
    until_count(&world, "broadcasts", 0).await?;

    assert_eq!(count(&world, "event_waits").await?, 0);
    assert_eq!(world.engine.metrics().duplicates.get(), 0);
    Ok(())
}

/// Waits until a table has so many rows.
async fn until_count(world: &World, table: &str, wanted: i64) -> Result<()> {
    let what = format!("{wanted} rows in {table}");
    until(
        &what,
        async || count(world, table).await,
        |rows| *rows == wanted,
    )
    .await?;
    Ok(())
}

async fn count(world: &World, table: &str) -> Result<i64> {
    let client = world.engine.cell().reader().await?;
    let text = format!("SELECT count(*) FROM {table}");
    Ok(client.query_one(&text, &[]).await?.get(0))
}
