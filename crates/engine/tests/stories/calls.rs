//! Calls that failed, and callers that are resumed.

use std::time::Duration;

use anyhow::{Context, Result};
use semel_model::run::RunState;
use semel_model::{Key, RunId};
use semel_store::runs::{self, RunFilter, RunSnapshot, RunView};
use semel_store::{effects, queue};
use semel_testkit::peer::Behaviour;
use semel_testkit::{patience, until, until_some};
use serde_json::{Value, json};

use crate::control::fault;
use crate::world::World;

const CALL: &str = "steps:
  - { id: other, call: { flow: called, input: { n: 4 } } }
result: steps.other.result
";

/// Acts twice: the second act is the one that fails.
const CALLED: &str = "flow: called
trigger:
  api: {}
steps:
  - { id: first, http: { post: 'PEER/plain/first', text: hi } }
  - { id: second, http: { post: 'PEER/plain/second', text: hi } }
result: input.n * 2
";

/// Waits for a callback, and fails where none comes in time.
const PATIENT: &str = "flow: called
trigger:
  api: {}
steps:
  - { id: word, wait: { callback: true, within: 1h } }
result: input.n * 2
";

async fn publish_called(world: &World, source: &str) -> Result<()> {
    let source = source.replace("PEER", &world.peer.url(""));
    world.publish_source(&source).await
}

/// A caller, and a called flow whose second act is refused so many times.
async fn refuse_second(times: u32) -> Result<World> {
    let world = World::start().await?;
    publish_called(&world, CALLED).await?;
    world.publish(CALL).await?;
    let refuse = Behaviour::RefuseWith(403);
    let peer = &world.peer;
    peer.next_times("/plain/second", times, refuse).await?;
    Ok(world)
}

async fn resume(world: &World, run: RunId) -> Result<RunSnapshot> {
    let reason = "the cause is fixed";
    let resumed = world
        .engine
        .resume(world.namespace_id, run, reason, "test")
        .await;
    resumed?;
    end_of(world, run).await
}

pub(crate) async fn end_of(world: &World, run: RunId) -> Result<RunSnapshot> {
    let end = world.engine.await_end(run, patience()).await?;
    end.context("a run")
}

/// The runs of the flow `called`, newest first.
async fn called_runs(world: &World) -> Result<Vec<RunView>> {
    let filter = RunFilter {
        flow: Some("called".to_owned()),
        ..RunFilter::default()
    };
    let listed = runs::list(world.engine.cell().every(), world.namespace_id, &filter, 10);
    Ok(listed.await?.items)
}

/// Runs one statement that changes rows.
async fn execute(world: &World, statement: &str) -> Result<u64> {
    let client = world.engine.cell().reader().await?;
    Ok(client.execute(statement, &[]).await?)
}

/// The one value that a query gives, as JSON text.
pub(crate) async fn json_of(world: &World, query: &str) -> Result<Value> {
    let client = world.engine.cell().reader().await?;
    let text: String = client.query_one(query, &[]).await?.get(0);
    Ok(serde_json::from_str(&text)?)
}

/// Puts a message into the outbox, and waits until it is carried.
async fn put_message(world: &World, event: &str, data: &Value, at: &str) -> Result<()> {
    let insert = format!(
        "INSERT INTO outbox (id, namespace_id, run_id, event, data, emitted_at)
         SELECT data.message::uuid, r.namespace_id, r.id, '{event}', '{}', {at}
           FROM runs r, (SELECT '{}' AS message) AS data
          WHERE r.key = convert_to('1', 'UTF8')",
        data["data"],
        data["id"].as_str().context("an identity")?,
    );
    assert_eq!(execute(world, &insert).await?, 1);
    until_dispatched(world).await
}

/// Waits until every event and message has left the outbox, and every wait that one was for is answered.
pub(crate) async fn until_dispatched(world: &World) -> Result<()> {
    let left = "SELECT ((SELECT count(*) FROM outbox) + (SELECT count(*) FROM broadcasts))::text";
    until(
        "the outbox to be empty",
        async || json_of(world, left).await,
        |left| *left == json!(0),
    )
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_called_run_that_failed_continues_when_its_caller_is_resumed() -> Result<()> {
    let world = refuse_second(2).await?;

    let (accepted, first) = world.play(r#"{"id":"1"}"#).await?;
    let second = resume(&world, accepted.run).await?;
    let third = resume(&world, accepted.run).await?;

    for end in [&first, &second] {
        assert_eq!(end.state, RunState::Failed, "{end:?}");
        assert_eq!(fault(end)?.code, "call-failed");
    }
    assert_eq!(third.state, RunState::Succeeded, "{third:?}");
    assert_eq!(third.result.as_deref(), Some("8"));
    assert_eq!(
        called_runs(&world).await?.len(),
        1,
        "the same run is called"
    );
    let first = world.peer.count("/plain/first").await?;
    assert_eq!(first.effects, 1, "what was done is not done again");
    let second = world.peer.count("/plain/second").await?;
    assert_eq!((second.calls, second.effects), (3, 1));
    Ok(())
}

#[tokio::test]
async fn each_call_of_a_resumed_caller_is_an_entry_of_the_ledger() -> Result<()> {
    let world = refuse_second(1).await?;

    let (accepted, _) = world.play(r#"{"id":"1"}"#).await?;
    let end = resume(&world, accepted.run).await?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    let (cell, namespace_id) = (world.engine.cell(), world.namespace_id);
    let run = runs::find(cell.of(accepted.run), namespace_id, accepted.run).await?;
    let partition = run.context("a run")?.partition_date;
    let entries =
        effects::list_of_run(cell.of(accepted.run), namespace_id, partition, accepted.run).await?;
    let called = called_runs(&world).await?[0].id.to_string();
    assert_eq!(entries.len(), 2);
    assert_ne!(entries[0].id, entries[1].id);
    for entry in entries {
        assert_eq!(entry.state, semel_model::effect::EffectState::Done);
        assert_eq!(entry.external_id.as_deref(), Some(called.as_str()));
    }
    Ok(())
}

#[tokio::test]
async fn a_call_that_could_not_start_starts_when_its_caller_is_resumed() -> Result<()> {
    let world = World::start().await?;
    world.publish(CALL).await?;

    let (accepted, unknown) = world.play(r#"{"id":"1"}"#).await?;
    let again = resume(&world, accepted.run).await?;
    publish_called(&world, CALLED).await?;
    let started = resume(&world, accepted.run).await?;

    assert_eq!(
        (unknown.state, again.state),
        (RunState::Failed, RunState::Failed)
    );
    assert_eq!(started.state, RunState::Succeeded, "{started:?}");
    assert_eq!(world.peer.count("/plain/first").await?.effects, 1);
    Ok(())
}

#[tokio::test]
async fn a_called_run_that_succeeded_meanwhile_answers_at_once() -> Result<()> {
    let world = refuse_second(1).await?;

    let (accepted, failed) = world.play(r#"{"id":"1"}"#).await?;
    let called = called_runs(&world).await?[0].id;
    let alone = resume(&world, called).await?;
    let end = resume(&world, accepted.run).await?;

    assert_eq!(failed.state, RunState::Failed);
    assert_eq!(alone.state, RunState::Succeeded, "{alone:?}");
    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(end.result.as_deref(), Some("8"));
    assert_eq!(world.peer.count("/plain/second").await?.effects, 1);
    Ok(())
}

#[tokio::test]
async fn a_cancelled_called_run_is_replaced_once_its_key_is_dropped() -> Result<()> {
    let world = World::start().await?;
    publish_called(&world, PATIENT).await?;
    world.publish(CALL).await?;
    let caller = world.deliver(r#"{"id":"1"}"#).await?.run;
    let called = until_some("a called run", async || {
        Ok(called_runs(&world).await?.pop())
    })
    .await?;
    queue::ask_cancel(
        world.engine.cell().of(called.id),
        world.namespace_id,
        called.id,
    )
    .await?;
    let cancelled = end_of(&world, caller).await?;

    let again = resume(&world, caller).await?;
    publish_called(&world, CALLED).await?;
    let key = Key::new(format!("{caller}/other").into_bytes())?;
    let (namespace, flow) = ("default".parse()?, "called".parse()?);
    let namespace_id = world.namespace_id;
    let wish = semel_engine::DropWish {
        reason: "start anew",
        new_intent: false,
    };
    let dropped = world
        .engine
        .drop_key(namespace_id, &namespace, &flow, &key, wish, "test")
        .await?;
    let anew = resume(&world, caller).await?;

    for end in [&cancelled, &again] {
        assert_eq!(end.state, RunState::Failed, "{end:?}");
        assert!(fault(end)?.message.contains("cancelled"), "{end:?}");
    }
    assert_eq!(dropped, called.id);
    assert_eq!(anew.state, RunState::Succeeded, "{anew:?}");
    assert_eq!(called_runs(&world).await?.len(), 2);
    Ok(())
}

#[tokio::test]
async fn the_call_of_an_item_continues_when_its_list_is_resumed() -> Result<()> {
    let world = World::start().await?;
    publish_called(&world, CALLED).await?;
    let list = "steps:
  - id: each
    foreach:
      in: '[1, 2]'
      key: item
      on_error: collect
      steps: [{ id: other, call: { flow: called, input: { n: '${{ item }}' } } }]
result: steps.each.result.results
";
    world.publish(list).await?;
    let refuse = Behaviour::RefuseWith(403);
    world.peer.next("/plain/second", refuse).await?;

    let (accepted, failed) = world.play(r#"{"id":"1"}"#).await?;
    let end = resume(&world, accepted.run).await?;

    assert_eq!(failed.state, RunState::Failed, "{failed:?}");
    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(end.result.as_deref(), Some("[2,4]"));
    assert_eq!(world.peer.count("/plain/first").await?.effects, 2);
    assert_eq!(world.peer.count("/plain/second").await?.effects, 2);
    Ok(())
}

/// A caller that waits for the second time, because its called run timed out and both were resumed;
/// with what answered it the first time.
async fn wait_again(world: &World) -> Result<(RunId, Value)> {
    publish_called(world, PATIENT).await?;
    world.publish(CALL).await?;
    let caller = world.deliver(r#"{"id":"1"}"#).await?.run;
    until_waiting(world).await?;
    world.move_clock(Duration::from_secs(3_700)).await?;
    assert_eq!(end_of(world, caller).await?.state, RunState::Failed);
    let answer = format!(
        "SELECT payload::text FROM waits WHERE run_id = '{}'",
        caller.as_uuid()
    );
    let answer = json_of(world, &answer).await?;
    let reason = "it comes now";
    let resumed = world
        .engine
        .resume(world.namespace_id, caller, reason, "test");
    resumed.await?;
    until_waiting(world).await?;
    Ok((caller, answer))
}

/// Both runs wait: the called one for a callback, the other for its end.
async fn until_waiting(world: &World) -> Result<()> {
    let open = "SELECT count(*)::text FROM waits WHERE state = 'open'";
    until(
        "both runs to wait",
        async || json_of(world, open).await,
        |open| *open == json!(2),
    )
    .await?;
    Ok(())
}

/// Completes the wait of the called run.
async fn complete(world: &World) -> Result<()> {
    let called = called_runs(world).await?[0].id;
    let wait = semel_model::WaitId::derive(called, "word");
    let answered = world
        .engine
        .complete_wait(world.namespace_id, wait, json!("now"), "test");
    answered.await?;
    Ok(())
}

#[tokio::test]
async fn a_repeated_end_message_does_not_answer_the_next_call() -> Result<()> {
    let world = World::start().await?;
    let (caller, mut end) = wait_again(&world).await?;
    let message = end["message"].take();
    end.as_object_mut().context("an end")?.remove("message");
    let wait = semel_model::WaitId::derive(caller, "other");
    let data = json!({ "caller": { "run": caller, "wait": wait }, "end": end });
    let id = message.as_str().and_then(|id| id.strip_prefix("eff_"));
    let message = json!({ "id": id, "data": data });

    put_message(&world, "semel.call.end", &message, "moment()").await?;

    let cell = world.engine.cell();
    let waits = semel_store::waits::find(cell.of(wait), world.namespace_id, wait).await?;
    let open = waits.context("a wait")?;
    assert_eq!(open.state, semel_model::wait::WaitState::Open);
    assert_eq!(open.payload, None, "what answered it before is not shown");
    complete(&world).await?;
    let end = end_of(&world, caller).await?;
    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(end.result.as_deref(), Some("8"));
    Ok(())
}

#[tokio::test]
async fn a_repeated_start_message_resumes_its_run_once() -> Result<()> {
    let world = World::start().await?;
    let (caller, _) = wait_again(&world).await?;
    world.move_clock(Duration::from_secs(3_700)).await?;
    assert_eq!(end_of(&world, caller).await?.state, RunState::Failed);
    let called = called_runs(&world).await?.pop().context("a called run")?;
    let data = json!({
        "flow": "called", "key": format!("{caller}/other"), "input": { "n": 4 },
        "caller": null, "claim": called.claim,
        "again": { "by": "test", "asks_again": false },
    });
    let message = json!({ "id": uuid::Uuid::from_u128(7).to_string(), "data": data });

    // It was first carried when both were resumed, more than an hour ago.
    let at = "moment() - interval '30 minutes'";
    put_message(&world, "semel.call.start", &message, at).await?;

    let called = called_runs(&world).await?;
    assert_eq!(called.len(), 1);
    assert_eq!(called[0].state, RunState::Failed, "it is not resumed again");
    Ok(())
}

#[tokio::test]
async fn a_called_run_continues_although_its_key_has_expired() -> Result<()> {
    let world = refuse_second(1).await?;
    let (accepted, failed) = world.play(r#"{"id":"1"}"#).await?;
    // As retention leaves a claim whose time is over.
    let expire = "UPDATE claims c SET expires_at = NULL, counted_from = NULL, last_run = c.run_id,
                         last_partition_date = r.partition_date
                    FROM runs r WHERE r.id = c.run_id";
    assert_eq!(execute(&world, expire).await?, 2);

    let end = resume(&world, accepted.run).await?;

    assert_eq!(failed.state, RunState::Failed);
    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(called_runs(&world).await?.len(), 1);
    assert_eq!(world.peer.count("/plain/first").await?.effects, 1);
    Ok(())
}

#[tokio::test]
async fn a_call_of_a_run_that_has_ended_starts_nothing() -> Result<()> {
    let world = World::start().await?;
    publish_called(&world, CALLED).await?;
    world.publish(CALL).await?;
    let (accepted, _) = world.play(r#"{"id":"1"}"#).await?;
    let wait = semel_model::WaitId::derive(accepted.run, "late");
    let data = json!({
        "flow": "called", "key": format!("{}/late", accepted.run), "input": { "n": 4 },
        "caller": { "run": accepted.run, "wait": wait },
        "claim": called_runs(&world).await?[0].claim,
    });
    let message = json!({ "id": uuid::Uuid::from_u128(9).to_string(), "data": data });

    put_message(&world, "semel.call.start", &message, "moment()").await?;

    assert_eq!(called_runs(&world).await?.len(), 1);
    assert_eq!(world.peer.count("/plain/first").await?.effects, 1);
    Ok(())
}
