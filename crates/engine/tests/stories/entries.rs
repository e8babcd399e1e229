//! Shared entries: sets that commit together, in the order of their steps, and once each.

use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};
use semel_model::RunId;
use semel_model::run::RunState;
use semel_store::pauses::PauseKind;
use serde_json::{Value, json};

use crate::pauses::{all_end, until_all_paused};
use crate::world::World;

const THREE: &str = "steps:\n  - id: a\n    kv: { set: 'a/${{ input.id }}', value: 1 }\n\
    \x20 - id: b\n    kv: { set: 'b/${{ input.id }}', value: '${{ steps.a.result }}' }\n\
    \x20 - id: c\n    kv: { set: 'c/${{ input.id }}', value: '${{ steps.b.result }}' }\n";

/// The same with something slow to compute between the sets.
const SLOW: &str = "steps:\n  - id: a\n    kv: { set: 'a/${{ input.id }}', value: 1 }\n\
    \x20 - id: slow\n    function: 'input.list.map(x, input.list.exists(y, y == x + 1000))'\n\
    \x20 - id: b\n    kv: { set: 'b/${{ input.id }}', value: '${{ steps.a.result }}' }\n\
    \x20 - id: c\n    kv: { set: 'c/${{ input.id }}', value: '${{ steps.b.result }}' }\n";

const ENTRIES: &str = "
    SELECT json_object_agg(entry, json_build_array(value, version) ORDER BY entry)::text FROM kv";

const INTENTS: &str = "
    SELECT count(*) FROM journal j, json_array_elements(j.events) AS e
     WHERE e ->> 'event' = 'intended'";

const LEDGER: &str = "
    SELECT json_agg(json_build_array(step, state, attempt) ORDER BY step)::text FROM effects";

async fn read(world: &World, sql: &str) -> Result<Value> {
    let client = world.engine.cell().reader().await?;
    let text: Option<String> = client.query_one(sql, &[]).await?.get(0);
    Ok(serde_json::from_str(&text.context("rows")?)?)
}

async fn count(world: &World, sql: &str) -> Result<i64> {
    let client = world.engine.cell().reader().await?;
    Ok(client.query_one(sql, &[]).await?.get(0))
}

/// How many rows a run's journal has.
async fn writes(world: &World, run: RunId) -> Result<i64> {
    let client = world.engine.cell().reader().await?;
    let text = "SELECT count(*) FROM journal WHERE run_id = $1";
    Ok(client.query_one(text, &[run.as_uuid()]).await?.get(0))
}

/// A flow that sets so many entries of this size, one after the other.
fn many(count: usize, size: usize) -> String {
    let value = "x".repeat(size);
    let mut steps = "steps:\n".to_owned();
    for number in 0..count {
        let _ = write!(
            steps,
            "  - id: s{number}\n    kv: {{ set: 'e/{number}', value: '{value}' }}\n"
        );
    }
    steps
}

#[tokio::test]
async fn sets_one_after_the_other_are_one_write() -> Result<()> {
    let world = World::start().await?;
    world.publish(THREE).await?;

    let (accepted, end) = world.play(r#"{"id":"1"}"#).await?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(writes(&world, accepted.run).await?, 2);
    assert_eq!(
        read(&world, ENTRIES).await?,
        json!({"a/1": [1, 1], "b/1": [1, 1], "c/1": [1, 1]})
    );
    assert_eq!(
        read(&world, LEDGER).await?,
        json!([["a", "done", 1], ["b", "done", 1], ["c", "done", 1]])
    );
    Ok(())
}

#[tokio::test]
async fn an_entry_that_is_set_twice_keeps_the_later_value() -> Result<()> {
    let world = World::start().await?;
    let steps = "steps:\n  - id: a\n    kv: { set: e, value: 1 }\n  - id: b\n    kv: { set: f, value: 2 }\n\
        \x20 - id: c\n    kv: { set: e, value: 3 }\n  - id: d\n    kv: { delete: f }\n\
        \x20 - id: e\n    kv: { set: g, value: 4 }\n";
    world.publish(steps).await?;

    let (_, end) = world.play(r#"{"id":"1"}"#).await?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(
        read(&world, ENTRIES).await?,
        json!({"e": [3, 2], "g": [4, 1]}),
        "each set counts in the version"
    );
    let same = "steps:\n  - id: a\n    kv: { set: s, value: paid }\n  - id: b\n    kv: { set: s, value: packed }\n\
        \x20 - id: c\n    kv: { set: s, value: sent, ttl: 1h }\n";
    world.publish(same).await?;
    let (accepted, _) = world.play(r#"{"id":"2"}"#).await?;
    assert_eq!(writes(&world, accepted.run).await?, 2);
    assert_eq!(read(&world, ENTRIES).await?["s"], json!(["sent", 3]));
    let (_, _) = world.play(r#"{"id":"3"}"#).await?;
    assert_eq!(read(&world, ENTRIES).await?["s"], json!(["sent", 6]));
    Ok(())
}

#[tokio::test]
async fn a_step_reads_and_counts_what_the_steps_before_it_set() -> Result<()> {
    let world = World::start().await?;
    let steps = "steps:\n  - id: a\n    kv: { set: e, value: 1 }\n  - id: b\n    kv: { set: f, value: 2 }\n\
        \x20 - id: c\n    kv: { get: f }\n  - id: d\n    kv: { add: e, by: 5 }\n\
        \x20 - id: e\n    kv: { set: g, value: '${{ steps.d.result }}' }\n  - id: f\n    kv: { get: g }\n\
        result: '[steps.c.result, steps.f.result]'\n";
    world.publish(steps).await?;

    assert_eq!(world.result(r#"{"id":"1"}"#).await?, json!([2, 6]));
    Ok(())
}

#[tokio::test]
async fn an_outcome_outside_is_written_before_entries_are_set() -> Result<()> {
    let world = World::start().await?;
    let steps = "steps:\n  - id: call\n    http: { post: 'PEER/plain/x', json: {} }\n\
        \x20 - id: a\n    kv: { set: e, value: 1 }\n  - id: b\n    kv: { set: f, value: 2 }\n\
        \x20 - id: last\n    http: { post: 'PEER/plain/y', json: {} }\n";
    world.publish(steps).await?;

    let (accepted, end) = world.play(r#"{"id":"1"}"#).await?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    // With what came and the first intent; the outcome; both sets and the next intent; the end.
    assert_eq!(writes(&world, accepted.run).await?, 4);
    Ok(())
}

#[tokio::test]
async fn events_go_out_with_the_sets_around_them() -> Result<()> {
    let world = World::start().await?;
    let steps = "steps:\n  - id: a\n    kv: { set: e, value: 1 }\n\
        \x20 - id: told\n    emit: { event: thing.done, data: { n: 1 } }\n\
        \x20 - id: b\n    kv: { set: f, value: 2 }\n  - id: again\n    emit: { event: thing.done, data: { n: 2 } }\n";
    world.publish(steps).await?;

    let (accepted, end) = world.play(r#"{"id":"1"}"#).await?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(writes(&world, accepted.run).await?, 2);
    let ledger = read(&world, LEDGER).await?;
    let done = |step: &str| json!([step, "done", 1]);
    assert_eq!(
        ledger,
        json!([done("a"), done("again"), done("b"), done("told")])
    );
    Ok(())
}

#[tokio::test]
async fn no_write_grows_without_bound() -> Result<()> {
    let world = World::start().await?;
    world.publish(&many(40, 10)).await?;
    let (small, _) = world.play(r#"{"id":"1"}"#).await?;
    world.publish(&many(5, 40 << 10)).await?;
    let (large, _) = world.play(r#"{"id":"2"}"#).await?;

    let (small, large) = (
        writes(&world, small.run).await?,
        writes(&world, large.run).await?,
    );

    assert_eq!(small, 4, "forty sets are three writes after the first");
    assert_eq!(large, 4, "no more than two sets of 40 KiB are one write");
    assert_eq!(count(&world, "SELECT count(*) FROM kv").await?, 40);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_refuses_sets_that_were_decided_before_it_and_none_is_made_twice() -> Result<()> {
    const ROUNDS: usize = 8;
    const RUNS: usize = 50;
    let world = World::start().await?;
    let other = world.start_another().await?;
    world.publish(SLOW).await?;
    let made = "SELECT count(*) FROM kv";
    let flow = (PauseKind::Flow, "story");
    let list: Vec<usize> = (0..100).collect();
    let mut interrupted = 0;
    for round in 0..ROUNDS {
        let payload = |id| json!({ "id": format!("{round}-{id}"), "list": list }).to_string();
        let payloads: Vec<String> = (0..RUNS).map(payload).collect();
        let deliveries = payloads.iter().map(|payload| world.deliver(payload));
        // By the server that carries the runs, and by another one.
        let pausing = [&world.engine, &other][round % 2];
        let (delivered, paused) = tokio::join!(
            futures_util::future::try_join_all(deliveries),
            pausing.pause(world.by(), flow, "the bank asks")
        );
        ensure!(paused?, "it was not paused");
        let at_return = count(&world, INTENTS).await?;
        delivered?;
        // What was intended before may be set yet.
        interrupted += until_all_paused(&world).await?;
        assert_eq!(
            at_return,
            count(&world, INTENTS).await?,
            "no intent follows the pause"
        );
        ensure!(pausing.resume_paused(world.by(), flow, None, None).await?);
        all_end(&world).await?;
    }

    let all = (3 * ROUNDS * RUNS) as i64;
    let versions = "SELECT count(*) FROM kv WHERE version <> 1";
    assert!(interrupted > 0, "no pause came in time");
    assert_eq!(count(&world, made).await?, all);
    assert_eq!(count(&world, versions).await?, 0, "each entry is set once");
    let done = "SELECT count(*) FROM effects WHERE state = 'done'";
    assert_eq!(count(&world, done).await?, all);
    other.shutdown().await;
    Ok(())
}
