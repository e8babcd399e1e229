//! Parts of runs: items of lists, and branches.

use anyhow::{Context, Result};
use semel_model::RunId;
use semel_model::run::RunState;
use semel_store::child_runs::{self, ChildRunFilter};
use semel_store::queue;
use semel_testkit::{patience, until, until_some};
use serde_json::{Value, json};

use crate::calls::{end_of, json_of};
use crate::control::{fault, start};
use crate::world::World;

#[tokio::test]
async fn branches_run_in_parallel_and_later_steps_read_their_results() -> Result<()> {
    let world = World::start().await?;
    world
        .publish(
            "steps:\n  - { id: base, function: input.n + 1 }\n  - id: both\n    parallel:\n      branches:\n\
             \x20       - steps: [{ id: left, kv: { add: left } }, { id: more, function: steps.left.result + steps.base.result }]\n\
             \x20       - steps: [{ id: right, http: { post: PEER/plain/right, text: hi } }]\n\
             \x20 - { id: sum, function: '[steps.more.result, steps.right.status]' }\nresult: steps.sum.result\n",
        )
        .await?;

    assert_eq!(
        world.result(r#"{"id":"1","n":40}"#).await?,
        json!([42, 201])
    );
    assert_eq!(world.peer.count("/plain/right").await?.effects, 1);
    Ok(())
}

#[tokio::test]
async fn the_first_branch_that_succeeds_is_enough_where_the_author_says_so() -> Result<()> {
    let world = World::start().await?;
    world
        .publish(
            "steps:\n  - id: race\n    parallel:\n      join: first\n      branches:\n\
             \x20       - steps: [{ id: answer, wait: { callback: true, within: 30d } }]\n\
             \x20       - steps: [{ id: broken, fail: { message: no } }]\n\
             \x20       - steps: [{ id: late, wait: { for: 100ms } }, { id: word, function: '\"late\"' }]\n\
             result: 'has(steps.word) ? steps.word.result : \"answered\"'\n",
        )
        .await?;

    let (accepted, end) = world.play(r#"{"id":"1"}"#).await?;

    assert_eq!(end.result.as_deref(), Some("\"late\""), "{end:?}");
    let states: Vec<String> = list(&world, accepted.run).await?;
    assert_eq!(states, ["cancelled", "failed", "succeeded"]);
    Ok(())
}

#[tokio::test]
async fn a_branch_that_fails_fails_the_step_once_all_have_ended() -> Result<()> {
    let world = World::start().await?;
    world
        .publish(
            "steps:\n  - id: both\n    parallel:\n      branches:\n\
             \x20       - steps: [{ id: broken, fail: { code: no, message: left is closed } }]\n\
             \x20       - steps: [{ id: late, wait: { for: 100ms } }, { id: right, http: { post: PEER/plain/right, text: hi } }]\n",
        )
        .await?;

    let (_, end) = world.play(r#"{"id":"1"}"#).await?;

    assert_eq!(end.state, RunState::Failed);
    let fault = fault(&end)?;
    assert_eq!(fault.code, "branch-failed");
    assert!(
        fault.message.contains("left is closed"),
        "{}",
        fault.message
    );
    assert_eq!(world.peer.count("/plain/right").await?.effects, 1);
    Ok(())
}

const EACH: &str = "steps:
  - id: each
    foreach:
      in: input.items
      key: item.id
      parallel: 3
      on_error: ON_ERROR
      steps:
        - { id: gate, if: item.id == \"b\", http: { get: PEER/fail-first/99/gate } }
        - { id: bill, http: { post: PEER/plain/bill, json: { id: '${{ item.id }}', n: '${{ item.n }}' } } }
        - { id: sum, function: item.n * input.factor }
result: steps.each.result
";

const ITEMS: &str = r#"{"id":"1","factor":2,"items":[{"id":"a","n":1},{"id":"c","n":3},{"id":"a","n":1},{"id":"d","n":4}]}"#;

#[tokio::test]
async fn each_item_is_done_once_by_its_key() -> Result<()> {
    let world = World::start().await?;
    world.publish(&EACH.replace("ON_ERROR", "stop")).await?;

    let (accepted, end) = world.play(ITEMS).await?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    let result: serde_json::Value = serde_json::from_str(&end.result.unwrap_or_default())?;
    assert_eq!(result["count"], 3);
    assert_eq!(result["results"], json!([2, 6, 8]));
    assert_eq!(world.peer.count("/plain/bill").await?.effects, 3);
    assert_eq!(list(&world, accepted.run).await?, ["succeeded"; 3]);
    Ok(())
}

const GATED: &str = "steps:
  - id: each
    foreach:
      in: input.items
      key: item
      on_error: ON_ERROR
      steps:
        - { id: bill, http: { post: PEER/plain/bill, text: '${{ item }}' } }
        - { id: flag, http: { get: PEER/flag }, if: item == \"b\", retry: { attempts: 1 } }
result: steps.each.result.succeeded
";

#[tokio::test]
async fn only_what_failed_is_tried_again() -> Result<()> {
    let world = World::start().await?;
    // A destination that is not there yet: the read fails at once.
    let steps = GATED.replace("PEER/flag", "PEER/status/403/flag");
    world.publish(&steps.replace("ON_ERROR", "stop")).await?;

    let (accepted, end) = world.play(r#"{"id":"1","items":["a","b","c"]}"#).await?;
    assert_eq!(end.state, RunState::Failed, "{end:?}");
    let first = fault(&end)?;
    assert_eq!(first.code, "item-failed");
    assert!(first.message.starts_with("item b"), "{}", first.message);
    assert_eq!(
        list(&world, accepted.run).await?,
        ["succeeded", "failed", "pending"]
    );

    world
        .engine
        .resume(world.namespace_id, accepted.run, "try again", "test")
        .await?;
    let end = world.engine.await_end(accepted.run, patience()).await?;
    assert_eq!(
        end.context("a run")?.state,
        RunState::Failed,
        "it is still refused"
    );
    assert_eq!(world.peer.count("/status/403/flag").await?.calls, 2);
    assert_eq!(
        world.peer.count("/plain/bill").await?.effects,
        2,
        "no bill is sent twice"
    );
    Ok(())
}

#[tokio::test]
async fn other_items_continue_after_a_failure_where_the_author_says_so() -> Result<()> {
    let world = World::start().await?;
    let steps = GATED.replace("PEER/flag", "PEER/status/403/flag");
    world
        .publish(&steps.replace("ON_ERROR", "continue"))
        .await?;

    let result = world.result(r#"{"id":"1","items":["a","b","c"]}"#).await?;

    assert_eq!(result, json!(2));
    assert_eq!(world.peer.count("/plain/bill").await?.effects, 3);
    Ok(())
}

#[tokio::test]
async fn items_are_undone_where_the_run_fails() -> Result<()> {
    let world = World::start().await?;
    world
        .publish(
            "steps:\n  - id: before\n    kv: { add: before }\n    undo: { kv: { add: before, by: -1 } }\n\
             \x20 - id: each\n    foreach:\n      in: input.items\n      key: item\n      parallel: 2\n      steps:\n\
             \x20       - { id: book, http: { post: PEER/plain/book, text: hi }, undo: { http: { delete: 'PEER/plain/free/${{ item }}' } } }\n\
             \x20 - { id: no, fail: { code: sold-out, message: nothing left } }\non_failure: undo\n",
        )
        .await?;

    let (accepted, end) = world.play(r#"{"id":"1","items":["a","b","c"]}"#).await?;

    assert_eq!(
        (end.state, fault(&end)?.code.as_str()),
        (RunState::Failed, "sold-out")
    );
    assert_eq!(world.peer.count("/plain/book").await?.effects, 3);
    for item in ["a", "b", "c"] {
        let freed = world
            .peer
            .count(&format!("/plain/free/{item}"))
            .await?
            .effects;
        assert_eq!(freed, 1, "{item}");
    }
    let before = world.kv("before").await?;
    assert_eq!(before, json!(0));
    assert_eq!(list(&world, accepted.run).await?, ["failed"; 3]);
    Ok(())
}

#[tokio::test]
async fn cancelling_a_run_reaches_its_items() -> Result<()> {
    let world = World::start().await?;
    world
        .publish(
            "steps:\n  - id: each\n    foreach:\n      in: input.items\n      key: item\n      parallel: 2\n      steps:\n\
             \x20       - { id: long, wait: { for: 30d } }\n",
        )
        .await?;
    let run = world
        .deliver(r#"{"id":"1","items":["a","b","c"]}"#)
        .await?
        .run;
    until(
        "the first item to be open",
        async || list(&world, run).await,
        |states| states.first().is_some_and(|state| state == "open"),
    )
    .await?;

    queue::ask_cancel(world.engine.cell().of(run), world.namespace_id, run).await?;
    let end = world.engine.await_end(run, patience()).await?;

    assert_eq!(end.context("a run")?.state, RunState::Cancelled);
    assert_eq!(
        list(&world, run).await?,
        ["cancelled", "cancelled", "pending"]
    );
    Ok(())
}

#[tokio::test]
async fn lists_hold_lists_and_each_item_knows_what_is_around_it() -> Result<()> {
    let world = World::start().await?;
    world
        .publish(
            "steps:\n  - { id: base, function: input.base }\n  - id: orders\n    foreach:\n      in: input.orders\n      as: order\n\
             \x20     key: order.id\n      parallel: 2\n      steps:\n\
             \x20       - { id: fee, function: order.fee }\n\
             \x20       - id: lines\n          foreach:\n            in: order.lines\n            as: line\n            key: string(line)\n\
             \x20           steps: [{ id: sum, function: line + steps.fee.result + steps.base.result }]\n\
             \x20       - { id: total, function: steps.lines.result.results }\n\
             result: steps.orders.result.results\n",
        )
        .await?;

    let result = world
        .result(r#"{"id":"1","base":100,"orders":[{"id":"x","fee":10,"lines":[1,2]},{"id":"y","fee":20,"lines":[3]}]}"#)
        .await?;

    assert_eq!(result, json!([[111, 112], [123]]));
    Ok(())
}

#[tokio::test]
async fn a_long_list_is_read_from_a_resource_piece_by_piece() -> Result<()> {
    let world = World::start_with_outputs().await?;
    world
        .publish(
            "steps:\n  - { id: list, http: { get: PEER/list/1500 } }\n  - id: each\n    foreach:\n      in: steps.list.result\n\
             \x20     key: string(item.id)\n      parallel: 100\n      steps: [{ id: one, kv: { add: done } }]\n\
             result: '[steps.each.result.count, steps.each.result.succeeded]'\n",
        )
        .await?;

    assert_eq!(world.result(r#"{"id":"1"}"#).await?, json!([1500, 1500]));
    let done = world.kv("done").await?;
    assert_eq!(done, json!(1500));
    Ok(())
}

#[tokio::test]
async fn a_list_in_the_input_is_read_in_place_however_long_it_is() -> Result<()> {
    let world = World::start().await?;
    world
        .publish(
            "steps:\n  - id: each\n    foreach: { in: input.items, key: item.id, parallel: 9, steps: [{ id: one, kv: { add: done } }] }\n\
             result: steps.each.result.succeeded\n",
        )
        .await?;
    let item = |id: u32| json!({ "id": id, "text": "x".repeat(10_000) });
    let items: Vec<Value> = (0..60).map(item).collect();
    let input = json!({ "id": "1", "items": items }).to_string();
    let result = world.result(&input).await?;

    assert_eq!(
        result,
        json!(60),
        "600 kB are more than an expression may make"
    );
    Ok(())
}

#[tokio::test]
async fn a_foreach_over_no_list_fails_the_run() -> Result<()> {
    let world = World::start().await?;
    world
        .publish(
            "steps:\n  - id: each\n    foreach: { in: input.items, steps: [{ id: one, function: item }] }\n",
        )
        .await?;

    let (_, end) = world.play(r#"{"id":"1","items":7}"#).await?;

    assert_eq!(
        (end.state, fault(&end)?.code.as_str()),
        (RunState::Failed, "items-not-a-list")
    );
    let empty = world.play(r#"{"id":"2","items":[]}"#).await?.1;
    assert_eq!(empty.state, RunState::Succeeded);
    let source = "flow: other\ntrigger:\n  api: {}\nsteps:\n  - { id: a, function: '1' }\nresult: steps.a.result\n";
    world.publish_source(source).await?;
    assert_eq!(start(&world, "other", "k").await?, json!(1));
    Ok(())
}

#[tokio::test]
async fn an_item_cancelled_at_its_wait_waits_again_when_its_list_is_resumed() -> Result<()> {
    let world = World::start().await?;
    let list = "steps:
  - id: each
    foreach:
      in: '[7]'
      key: item
      on_error: collect
      steps: [{ id: word, wait: { callback: true, within: 1h } }]
result: steps.each.result.results
";
    world.publish(list).await?;
    let caller = world.deliver(r#"{"id":"1"}"#).await?.run;
    let open = "SELECT coalesce(json_agg(run_id), '[]')::text FROM waits WHERE state = 'open'";
    let item = async || Ok(json_of(&world, open).await?[0].as_str().map(str::to_owned));
    let item = until_some("an item that waits", item).await?;
    let item: RunId = RunId::from_uuid(item.parse()?);
    let cell = world.engine.cell().of(item);
    queue::ask_cancel(cell, world.namespace_id, item).await?;
    let failed = end_of(&world, caller).await?;

    let resumed = world
        .engine
        .resume(world.namespace_id, caller, "it comes now", "test");
    resumed.await?;
    let count = "SELECT count(*)::text FROM waits WHERE state = 'open'";
    until(
        "an open wait",
        async || json_of(&world, count).await,
        |count| *count == json!(1),
    )
    .await?;
    let wait = semel_model::WaitId::derive(item, "word");
    let engine = &world.engine;
    engine
        .complete_wait(world.namespace_id, wait, json!("now"), "test")
        .await?;
    let end = end_of(&world, caller).await?;

    assert_eq!(failed.state, RunState::Failed, "{failed:?}");
    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    Ok(())
}

/// The states of the child runs of a run, in order.
async fn list(world: &World, run: RunId) -> Result<Vec<String>> {
    let views = child_runs::list(
        world.engine.cell().of(run),
        run,
        ChildRunFilter::default(),
        1000,
    )
    .await?;
    Ok(views.into_iter().map(|child| child.state).collect())
}
