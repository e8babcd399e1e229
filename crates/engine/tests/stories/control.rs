//! Control flow: cases, ends, calls of other flows, and compensation.

use std::time::Duration;

use anyhow::{Context, Result};
use semel_model::Fault;
use semel_model::run::RunState;
use semel_store::queue;
use semel_store::runs::RunSnapshot;
use semel_testkit::{patience, until, until_some};
use serde_json::{Value, json};

use crate::world::World;

/// The fault of a run that ended without success.
pub(crate) fn fault(snapshot: &RunSnapshot) -> Result<Fault> {
    let text = snapshot.fault.as_deref().context("a fault")?;
    Ok(serde_json::from_str(text)?)
}

const SWITCH: &str = "steps:
  - id: way
    switch:
      cases:
        - when: input.sum > 100
          steps:
            - { id: large, function: '\"large\"' }
            - { id: larger, function: steps.large.result + \"!\" }
        - when: input.sum > 10
          steps:
            - { id: middle, function: '\"middle\"' }
      default:
        - { id: small, function: '\"small\"' }
  - { id: all, function: 'has(steps.larger) ? steps.larger.result : has(steps.middle) ? steps.middle.result : steps.small.result' }
result: steps.all.result
";

#[tokio::test]
async fn the_first_case_that_is_true_is_taken() -> Result<()> {
    let world = World::start().await?;
    world.publish(SWITCH).await?;

    assert_eq!(
        world.result(r#"{"id":"1","sum":1000}"#).await?,
        json!("large!")
    );
    assert_eq!(
        world.result(r#"{"id":"2","sum":50}"#).await?,
        json!("middle")
    );
    assert_eq!(world.result(r#"{"id":"3","sum":1}"#).await?, json!("small"));
    Ok(())
}

#[tokio::test]
async fn an_author_ends_a_run_with_a_result_or_a_fault() -> Result<()> {
    let world = World::start().await?;
    world
        .publish(
            "steps:\n  - { id: enough, if: input.n > 1, return: 'input.n * 2' }\n\
             \x20 - id: never\n    if: input.n < 0\n    fail: { code: negative, message: 'no ${{ input.n }}' }\n\
             \x20 - { id: rest, function: '\"rest\"' }\nresult: steps.rest.result\n",
        )
        .await?;

    assert_eq!(world.result(r#"{"id":"1","n":21}"#).await?, json!(42));
    assert_eq!(world.result(r#"{"id":"2","n":0}"#).await?, json!("rest"));
    let (_, end) = world.play(r#"{"id":"3","n":-1}"#).await?;
    let fault = fault(&end)?;
    assert_eq!(end.state, RunState::Failed);
    assert_eq!(
        (fault.code.as_str(), fault.message.as_str()),
        ("negative", "no -1")
    );
    Ok(())
}

#[tokio::test]
async fn a_wait_ends_at_its_instant_and_may_continue_after_a_timeout() -> Result<()> {
    let world = World::start().await?;
    world
        .publish(
            "steps:\n  - { id: date, wait: { until: input.at } }\n\
             \x20 - { id: word, wait: { callback: true, within: 1h, on_timeout: continue } }\n\
             result: '[steps.word.result, input.id]'\n",
        )
        .await?;
    let accepted = world
        .deliver(r#"{"id":"1","at":"2100-01-01T00:00:00Z"}"#)
        .await?;

    let years = Duration::from_secs(80 * 366 * 86_400);
    world.move_clock(years).await?;
    let waits = async || {
        let cell = world.engine.cell();
        let (id, run) = (world.namespace_id, accepted.run);
        let waits = semel_store::waits::list_of_run(cell.of(run), id, run, false, None, 10);
        Ok(waits.await?.items)
    };
    until("the second wait", waits, |waits| !waits.is_empty()).await?;
    world.move_clock(Duration::from_secs(2 * 3_600)).await?;
    let end = world.engine.await_end(accepted.run, patience()).await?;
    let end = end.context("a run")?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(end.result.as_deref(), Some("[null,\"1\"]"));
    Ok(())
}

async fn publish_called(world: &World, step: &str) -> Result<()> {
    let source = format!(
        "flow: called\ntrigger:\n  api: {{}}\nsteps:\n{step}result: '{{\"twice\": input.n * 2, \"by\": trigger.kind}}'\n"
    );
    world.publish_source(&source).await
}

const CALL: &str = "steps:
  - id: other
    call: { flow: called, input: { n: '${{ input.n }}' } }
result: steps.other.result
";

#[tokio::test]
async fn a_flow_calls_another_and_continues_with_its_result() -> Result<()> {
    let world = World::start().await?;
    publish_called(&world, "  - { id: count, kv: { add: calls } }\n").await?;
    world.publish(CALL).await?;

    let result = world.result(r#"{"id":"1","n":4}"#).await?;
    let again = world.result(r#"{"id":"1","n":4}"#).await?;

    assert_eq!(result, json!({ "twice": 8, "by": "call" }));
    assert_eq!(result, again);
    let calls = world.kv("calls").await?;
    assert_eq!(calls, json!(1));
    Ok(())
}

#[tokio::test]
async fn a_call_that_fails_or_cannot_begin_fails_the_step() -> Result<()> {
    let world = World::start().await?;
    world.publish(CALL).await?;
    let (_, unknown) = world.play(r#"{"id":"1","n":4}"#).await?;
    publish_called(&world, "  - { id: no, fail: { message: not today } }\n").await?;
    let (_, failed) = world.play(r#"{"id":"2","n":4}"#).await?;

    for end in [&unknown, &failed] {
        assert_eq!(end.state, RunState::Failed, "{end:?}");
        assert_eq!(fault(end)?.code, "call-failed");
    }
    assert!(fault(&failed)?.message.contains("not today"), "{failed:?}");
    Ok(())
}

#[tokio::test]
async fn cancelling_a_caller_reaches_the_run_that_it_called() -> Result<()> {
    let world = World::start().await?;
    publish_called(&world, "  - { id: long, wait: { for: 30d } }\n").await?;
    world.publish(CALL).await?;
    let caller = world.deliver(r#"{"id":"1","n":4}"#).await?.run;
    let called = until_some("a called run", async || called_run(&world).await).await?;

    queue::ask_cancel(world.engine.cell().of(caller), world.namespace_id, caller).await?;
    for run in [caller, called] {
        let end = world.engine.await_end(run, patience()).await?;
        assert_eq!(end.context("a run")?.state, RunState::Cancelled);
    }
    Ok(())
}

/// The run of the flow `called` that waits.
async fn called_run(world: &World) -> Result<Option<semel_model::RunId>> {
    let filter = semel_store::runs::RunFilter {
        flow: Some("called".to_owned()),
        ..Default::default()
    };
    let runs =
        semel_store::runs::list(world.engine.cell().every(), world.namespace_id, &filter, 10)
            .await?;
    let waits = |run: &&semel_store::runs::RunView| {
        run.stage == Some(semel_store::runs::Stage::Waiting) && !run.held
    };
    Ok(runs.items.iter().find(waits).map(|run| run.id))
}

const SAGA: &str = "steps:
  - id: first
    http: { post: 'PEER/plain/first', text: hi }
    external_id: '\"f-1\"'
    undo: { http: { delete: 'PEER/plain/undo/${{ steps.first.external_id }}' } }
  - id: second
    kv: { add: stock }
    undo: { kv: { add: stock, by: -1 } }
  - id: third
    http: { post: 'PEER/plain/third', text: hi }
  - id: last
    if: input.fails
    fail: { code: sold-out, message: nothing left }
on_failure: undo
result: '\"kept\"'
";

#[tokio::test]
async fn effects_are_undone_in_reverse_order() -> Result<()> {
    let world = World::start().await?;
    let steps = ["a", "b", "c"].map(|id| {
        format!("  - {{ id: {id}, kv: {{ add: {id} }}, undo: {{ kv: {{ set: undone-last, value: {id} }} }} }}\n")
    });
    let no = "  - { id: no, fail: { code: sold-out, message: nothing left } }\non_failure: undo\n";
    world
        .publish(&format!("steps:\n{}{no}", steps.concat()))
        .await?;

    let (accepted, end) = world.play(r#"{"id":"1"}"#).await?;

    assert_eq!(end.state, RunState::Failed);
    let cell = world.engine.cell();
    let last = world.kv("undone-last").await?;
    assert_eq!(last, json!("a"));
    let run =
        semel_store::runs::find(cell.of(accepted.run), world.namespace_id, accepted.run).await?;
    let run = run.context("a run")?;
    let lines = semel_store::journal::read(cell.of(run.id), run.partition_date, run.id).await?;
    let text: String = lines.iter().map(|line| line.events.as_str()).collect();
    let undone = ["c", "b", "a"].map(|id| text.rfind(&format!("\"{id}.undo\"")));
    assert!(
        undone.is_sorted() && undone[0].is_some(),
        "{undone:?}: {text}"
    );
    Ok(())
}

#[tokio::test]
async fn a_run_that_fails_undoes_its_effects() -> Result<()> {
    let world = World::start().await?;
    world.publish(SAGA).await?;

    assert_eq!(
        world.result(r#"{"id":"1","fails":false}"#).await?,
        json!("kept")
    );
    let stock = || world.kv("stock");
    assert_eq!(stock().await?, json!(1));
    let (_, end) = world.play(r#"{"id":"2","fails":true}"#).await?;

    assert_eq!(end.state, RunState::Failed);
    assert_eq!(fault(&end)?.code, "sold-out");
    assert_eq!(stock().await?, json!(1), "the second order was taken back");
    assert_eq!(world.peer.count("/plain/undo/f-1").await?.effects, 1);
    assert_eq!(world.peer.count("/plain/first").await?.effects, 2);
    Ok(())
}

#[tokio::test]
async fn an_undo_that_fails_stops_the_run_until_an_operator_resumes_it() -> Result<()> {
    let world = World::start().await?;
    let steps = SAGA.replace("delete: 'PEER/plain/undo", "delete: 'PEER/status/403/undo");
    world.publish(&steps).await?;

    let (accepted, end) = world.play(r#"{"id":"1","fails":true}"#).await?;
    assert_eq!(end.state, RunState::NeedsReview, "{end:?}");
    world
        .engine
        .resume(world.namespace_id, accepted.run, "try again", "test")
        .await?;
    let state = until_some("the run to stop again", async || {
        let found = semel_store::runs::find(
            world.engine.cell().of(accepted.run),
            world.namespace_id,
            accepted.run,
        );
        let run = found.await?.context("a run")?;
        let lines =
            semel_store::journal::read(world.engine.cell().of(run.id), run.partition_date, run.id)
                .await?;
        let text: String = lines.iter().map(|line| line.events.as_str()).collect();
        let again = text.matches("\"stopped\"").count() == 2;
        Ok((again && run.state != RunState::Active).then_some(run.state))
    })
    .await?;

    assert_eq!(
        state,
        RunState::NeedsReview,
        "it was tried again and refused again"
    );
    assert_eq!(world.peer.count("/status/403/undo/f-1").await?.calls, 2);
    Ok(())
}

#[tokio::test]
async fn a_failed_run_resumes_from_its_ledger() -> Result<()> {
    let world = World::start().await?;
    world
        .publish(
            "steps:\n  - id: once\n    http: { post: 'PEER/plain/once', text: hi }\n\
             \x20 - { id: gate, kv: { get: open } }\n\
             \x20 - { id: closed, if: steps.gate.result == null, fail: { code: closed, message: not yet } }\n\
             result: '\"through\"'\n",
        )
        .await?;
    let (accepted, end) = world.play(r#"{"id":"1"}"#).await?;
    assert_eq!(
        (end.state, fault(&end)?.code.as_str()),
        (RunState::Failed, "closed")
    );

    let source = "flow: opener\ntrigger:\n  api: {}\nsteps:\n  - { id: open, kv: { set: open, value: yes } }\n";
    world.publish_source(source).await?;
    start(&world, "opener", "k").await?;
    world
        .engine
        .resume(world.namespace_id, accepted.run, "it opened", "test")
        .await?;
    let end = world.engine.await_end(accepted.run, patience()).await?;

    // The value that was read before the failure holds: a run never sees two results of one read.
    assert_eq!(end.context("a run")?.state, RunState::Failed);
    assert_eq!(world.peer.count("/plain/once").await?.effects, 1);
    Ok(())
}

/// Starts a run through the API, and waits for its end.
pub(crate) async fn start(world: &World, flow: &str, key: &str) -> Result<Value> {
    let start = semel_engine::Start {
        namespace_id: world.namespace_id,
        namespace: "default".parse()?,
        flow: flow.parse()?,
        trigger: semel_model::TriggerKind::Api,
        input: b"{}".to_vec(),
        key: Some(semel_model::Key::new(key.as_bytes().to_vec())?),
        by: None,
    };
    let semel_engine::Intake::Accepted(accepted) = world.engine.start_run(start).await? else {
        anyhow::bail!("not accepted");
    };
    let end = world.engine.await_end(accepted.run, patience()).await?;
    let end = end.context("a run")?;
    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    Ok(serde_json::from_str(
        &end.result.unwrap_or_else(|| "null".to_owned()),
    )?)
}
