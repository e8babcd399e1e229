//! Events between flows: they commit with the run, and each makes one run of each that takes it.

use anyhow::{Context, Result};
use semel_model::run::RunState;
use semel_store::effects;
use semel_store::runs::{self, RunFilter, RunView};
use semel_testkit::peer::Behaviour;
use semel_testkit::{patience, until};
use serde_json::{Value, json};

use crate::world::World;

const EMIT: &str = "steps:\n  - id: tell\n    emit: { event: order.paid, data: '${{ input }}' }\n";

/// A flow that takes the event, with more of its trigger.
async fn listen(world: &World, more: &str) -> Result<()> {
    let source = format!(
        "flow: listener\ntrigger:\n  event: {{ name: order.paid{more} }}\nsteps:\n  - id: count\n    \
         kv: {{ add: heard }}\nresult: input.id\n"
    );
    world.publish_source(&source).await
}

async fn heard(world: &World) -> Result<Vec<RunView>> {
    let filter = RunFilter {
        flow: Some("listener".to_owned()),
        ..RunFilter::default()
    };
    let cell = world.engine.cell();
    let listed = runs::list(cell.every(), world.namespace_id, &filter, 500).await?;
    Ok(listed.items)
}

async fn until_heard(world: &World, count: usize) -> Result<Vec<RunView>> {
    let what = format!("{count} runs of the listener to succeed");
    until(
        &what,
        async || heard(world).await,
        |heard| {
            let over = heard.iter().all(|run| run.state == RunState::Succeeded);
            heard.len() >= count && over
        },
    )
    .await
}

async fn until_spread(world: &World) -> Result<()> {
    let client = world.database().connect().await?;
    let left = "SELECT count(*) FROM outbox";
    let look = async || -> Result<i64> { Ok(client.query_one(left, &[]).await?.get(0)) };
    until("the outbox to be empty", look, |left| *left == 0).await?;
    Ok(())
}

fn results(heard: &[RunView]) -> Vec<String> {
    let mut results: Vec<String> = heard.iter().filter_map(|run| run.result.clone()).collect();
    results.sort();
    results
}

#[tokio::test]
async fn an_event_commits_with_its_run_and_makes_one_run_of_its_listener() -> Result<()> {
    let world = World::start().await?;
    listen(&world, "").await?;
    let held = format!(
        "steps:\n  - id: pay\n    http: {{ post: 'PEER/plain/pay' }}\n{}",
        &EMIT[7..]
    );
    world.publish(&held).await?;
    let behaviour = Behaviour::HoldBeforeAnswer;
    world.peer.next("/plain/pay", behaviour).await?;

    let accepted = world.deliver(r#"{"id":"1"}"#).await?;
    world.peer.until_held(1, patience()).await?;
    // Another run's event goes the same way meanwhile.
    world.play(r#"{"id":"2"}"#).await?;
    until_spread(&world).await?;
    let before = until_heard(&world, 1).await?;
    world.peer.let_go().await?;
    world.engine.await_end(accepted.run, patience()).await?;
    until_heard(&world, 2).await?;
    until_spread(&world).await?;
    world.play(r#"{"id":"1"}"#).await?;
    world.play(r#"{"id":"3"}"#).await?;
    until_spread(&world).await?;
    let all = until_heard(&world, 3).await?;

    let committed = "nothing is dispatched before it is committed";
    assert_eq!(results(&before), ["\"2\""], "{committed}");
    assert_eq!(results(&all), ["\"1\"", "\"2\"", "\"3\""]);
    Ok(())
}

#[tokio::test]
async fn a_run_that_fails_before_its_emit_dispatches_nothing() -> Result<()> {
    let world = World::start().await?;
    listen(&world, "").await?;
    let steps = format!(
        "steps:\n  - id: pay\n    http: {{ post: 'PEER/plain/pay' }}\n{}",
        &EMIT[7..]
    );
    world.publish(&steps).await?;
    world
        .peer
        .next("/plain/pay", Behaviour::RefuseWith(404))
        .await?;

    let (_, end) = world.play(r#"{"id":"1"}"#).await?;
    world.result(r#"{"id":"2"}"#).await?;
    let heard = until_heard(&world, 1).await?;

    assert_eq!(end.state, RunState::Failed);
    assert_eq!(results(&heard), ["\"2\""]);
    Ok(())
}

#[tokio::test]
async fn an_event_that_is_dispatched_again_finds_its_first_run() -> Result<()> {
    let world = World::start().await?;
    listen(&world, "").await?;
    world.publish(EMIT).await?;
    let (accepted, _) = world.play(r#"{"id":"1"}"#).await?;
    until_heard(&world, 1).await?;
    until_spread(&world).await?;
    let cell = world.engine.cell();
    let run = runs::find(cell.of(accepted.run), world.namespace_id, accepted.run).await?;
    let run = run.context("the run")?;
    let told = effects::list_of_run(
        cell.of(run.id),
        world.namespace_id,
        run.partition_date,
        run.id,
    )
    .await?;

    // As another server would find it, had this one crashed before it removed the event.
    let again = "INSERT INTO outbox (id, namespace_id, run_id, event, data, emitted_at)
                 VALUES ($1, $2, $3, 'order.paid', '{\"id\":\"1\"}', moment())";
    let (id, of) = (told[0].id.as_uuid(), run.id.as_uuid());
    let client = cell.reader().await?;
    client
        .execute(again, &[id, &world.namespace_id, of])
        .await?;
    until_spread(&world).await?;

    assert_eq!(heard(&world).await?.len(), 1);
    assert_eq!(world.engine.metrics().duplicates.get(), 1);
    Ok(())
}

/// Integers beyond 2^53 and nesting beyond 64 levels: no sender may send them, and destinations answer
/// them.
#[tokio::test]
async fn an_event_that_passes_on_what_a_destination_answered_reaches_its_receiver() -> Result<()> {
    let world = World::start().await?;
    world
        .publish_source(
            "flow: listener\ntrigger:\n  event: { name: thing.seen }\n\
             steps:\n  - { id: count, kv: { add: heard } }\nresult: input\n",
        )
        .await?;
    world
        .publish(
            "steps:\n  - { id: look, http: { get: 'PEER/plain/x?nested=80' } }\n\
             \x20 - { id: made, function: '{\"id\": 1234567890123456789}' }\n\
             \x20 - { id: deep, emit: { event: thing.seen, data: '${{ steps.look.result }}' } }\n\
             \x20 - { id: large, emit: { event: thing.seen, data: '${{ steps.made.result }}' } }\n",
        )
        .await?;

    let (_, told) = world.play(r#"{"id":"1"}"#).await?;
    let heard = until_heard(&world, 2).await?;

    assert_eq!(told.state, RunState::Succeeded, "{told:?}");
    let results = results(&heard);
    let exact = r#"{"id":1234567890123456789}"#;
    assert!(results.iter().any(|it| it == exact), "{results:?}");
    let nested = "[".repeat(80);
    assert!(results.iter().any(|it| it.contains(&nested)), "{results:?}");
    let client = world.database().connect().await?;
    let refused = "SELECT count(*) FROM refused_deliveries";
    let refused: i64 = client.query_one(refused, &[]).await?.get(0);
    assert_eq!(refused, 0);
    Ok(())
}

/// Two payloads that a double would fold together are two payloads.
#[tokio::test]
async fn an_event_with_another_large_integer_under_its_key_is_a_mismatch_on_record() -> Result<()> {
    let world = World::start().await?;
    listen(&world, ", key: string(input.order)").await?;
    world
        .publish(
            "steps:\n  - id: one\n    emit: { event: order.paid, data: { order: 7, id: '${{ 1234567890123456789 }}' } }\n\
             \x20 - id: other\n    emit: { event: order.paid, data: { order: 7, id: '${{ 1234567890123456788 }}' } }\n",
        )
        .await?;

    world.play(r#"{"id":"1"}"#).await?;
    until_spread(&world).await?;

    assert_eq!(heard(&world).await?.len(), 1);
    let client = world.database().connect().await?;
    let refused = "SELECT code FROM refused_deliveries";
    let refused: Vec<String> = client
        .query(refused, &[])
        .await?
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert_eq!(refused, ["payload-mismatch"]);
    Ok(())
}

#[tokio::test]
async fn two_servers_share_the_events_and_dispatch_none_twice() -> Result<()> {
    let world = World::start().await?;
    let other = world.start_another().await?;
    listen(&world, "").await?;
    world.publish(EMIT).await?;

    for id in 0..60 {
        world.deliver(&format!(r#"{{"id":"{id}"}}"#)).await?;
    }
    until_heard(&world, 60).await?;
    until_spread(&world).await?;

    assert_eq!(heard(&world).await?.len(), 60);
    let metrics = [world.engine.metrics(), other.metrics()];
    let spread: u64 = metrics.iter().map(|one| one.events_dispatched.get()).sum();
    let duplicates: u64 = metrics.iter().map(|one| one.duplicates.get()).sum();
    assert_eq!((spread, duplicates), (60, 0));
    Ok(())
}

#[tokio::test]
async fn a_listener_chooses_its_events_and_their_key() -> Result<()> {
    let world = World::start().await?;
    let more = ", when: input.total > 10, key: input.order";
    listen(&world, more).await?;
    let data = "{ id: same, order: '${{ input.order }}', total: '${{ input.total }}' }";
    world.publish(&EMIT.replace("'${{ input }}'", data)).await?;

    for (id, order, total) in [
        ("1", "a", 50),
        ("2", "b", 5),
        ("3", "a", 50),
        ("4", "c", 11),
    ] {
        let payload = json!({"id": id, "order": order, "total": total});
        world.result(&payload.to_string()).await?;
    }
    until_heard(&world, 2).await?;
    until_spread(&world).await?;

    let heard = heard(&world).await?;
    let mut keys: Vec<String> = heard.iter().map(|run| run.key.text()).collect();
    keys.sort();
    assert_eq!(keys, ["a", "c"]);
    assert_eq!(world.engine.metrics().ignored.get(), 1);
    Ok(())
}

#[tokio::test]
async fn an_event_that_is_refused_for_good_delays_no_other() -> Result<()> {
    let world = World::start().await?;
    listen(&world, ", key: input.order.id").await?;
    world.publish(EMIT).await?;

    world.result(r#"{"id":"1","order":null}"#).await?;
    world.result(r#"{"id":"2","order":{"id":"o"}}"#).await?;
    let heard = until_heard(&world, 1).await?;
    until_spread(&world).await?;

    assert_eq!(results(&heard), ["\"2\""]);
    assert_eq!(world.engine.metrics().refused.get(), 1);
    Ok(())
}

#[tokio::test]
async fn what_an_event_carries_is_the_listeners_input() -> Result<()> {
    let world = World::start().await?;
    let source = "flow: listener\ntrigger: { event: { name: order.paid } }\nsteps:\n  \
                  - id: keep\n    kv: { set: seen, value: '${{ input }}' }\nresult: input.id\n";
    world.publish_source(source).await?;
    world.publish(EMIT).await?;

    world
        .result(r#"{"id":"1","lines":[1,2.5,"ü"],"none":null}"#)
        .await?;
    until_heard(&world, 1).await?;

    let seen: Value = world.kv("seen").await?;
    assert_eq!(
        seen,
        json!({"id": "1", "lines": [1, 2.5, "ü"], "none": null})
    );
    Ok(())
}
