//! Tasks: claimed by outside workers, answered once, and settled by the guard where a worker is
//! lost.

use std::cell::RefCell;
use std::time::Duration;

use anyhow::{Context, Result};
use futures_util::future::try_join_all;
use semel_engine::Settlement;
use semel_engine::commands::answer_task::{TaskAnswer, TaskError};
use semel_model::Span;
use semel_model::run::RunState;
use semel_model::task;
use semel_store::tasks::{TaskClaim, TaskHold};
use semel_store::{effects, tasks};
use semel_testkit::{patience, until as until_true};
use serde_json::{Value, json};

pub(crate) mod hands;
mod paused;

use hands::{answer, claim, done, end, failed, hold, lose, take, until, world_with};

use crate::world::World;

/// A worker's list, and a step for each of its items.
const WORK_LIST: &str = "steps:
  - { id: work, task: { queue: images, within: 1h, lease: 30s }, guard: natural }
";
const EACH: &str = "  - id: each
    foreach: { in: steps.work.result, key: item.id, parallel: 9, steps: [{ id: one, kv: { add: done } }] }
result: '[steps.each.result.succeeded, steps.work.result]'
";

#[tokio::test]
async fn a_worker_s_result_is_the_step_s() -> Result<()> {
    let world = world_with("guard: key").await?;
    let accepted = world.deliver(r#"{"id":"1"}"#).await?;
    let task = take(&world).await?;
    let ledger = effects::find(
        world.engine.cell().of(task.task),
        world.namespace_id,
        task.task,
    )
    .await?;
    let ledger = ledger.context("the intent is recorded")?;

    let first = answer(&world, &task, done(json!({"width": 7}))).await?;
    let again = answer(&world, &task, done(json!({"width": 7}))).await?;
    let contrary = answer(&world, &task, done(json!({"width": 8}))).await;
    let end = end(&world, accepted.run).await?;

    assert_eq!(
        serde_json::from_str::<Value>(&task.input)?,
        json!({"id": "1"})
    );
    assert_eq!(
        (ledger.kind.as_str(), ledger.state),
        ("task", semel_model::effect::EffectState::Pending)
    );
    assert!(!first.replayed && again.replayed);
    match contrary {
        Err(TaskError::Answered { recorded }) => {
            assert_eq!(recorded, Some(json!({"result": {"width": 7}})));
        }
        other => anyhow::bail!("a contrary answer was taken: {other:?}"),
    }
    assert_eq!(end.state, RunState::Succeeded);
    assert_eq!(end.result.as_deref(), Some(r#"{"width":7}"#));
    Ok(())
}

#[tokio::test]
async fn a_large_answer_of_a_worker_is_a_resource_and_a_list_of_items() -> Result<()> {
    let world = World::start_with_outputs().await?;
    world.publish(&format!("{WORK_LIST}{EACH}")).await?;
    let accepted = world.deliver(r#"{"id":"1"}"#).await?;
    let task = take(&world).await?;
    let rows: Vec<Value> = (0..90)
        .map(|row| json!({ "id": row, "text": "x".repeat(1_000) }))
        .collect();

    answer(&world, &task, done(json!(rows))).await?;
    let end = end(&world, accepted.run).await?;

    assert_eq!(end.state, RunState::Succeeded, "{:?}", end.fault);
    let result: Value = serde_json::from_str(end.result.as_deref().unwrap_or_default())?;
    assert_eq!(result[0], 90, "{result}");
    assert_eq!(result[1]["type"], "application/json", "{result}");
    Ok(())
}

#[tokio::test]
async fn a_failure_follows_the_retry_policy_under_the_same_key() -> Result<()> {
    let world = world_with("guard: key").await?;
    let accepted = world.deliver(r#"{"id":"1"}"#).await?;

    let first = take(&world).await?;
    answer(&world, &first, failed(true)).await?;
    let repeated = answer(&world, &first, failed(true)).await?;
    let second = take(&world).await?;
    answer(&world, &second, failed(false)).await?;
    let end = end(&world, accepted.run).await?;

    assert_eq!((first.attempt, second.attempt), (1, 2));
    assert_eq!(first.task, second.task, "the key is the same");
    assert!(second.token > first.token);
    assert!(repeated.replayed);
    assert_eq!(end.state, RunState::Failed);
    assert!(end.fault.unwrap_or_default().contains("task-broken-image"));
    Ok(())
}

#[tokio::test]
async fn a_lost_worker_s_task_is_given_to_another_where_the_key_makes_that_safe() -> Result<()> {
    let world = world_with("guard: key").await?;
    let accepted = world.deliver(r#"{"id":"1"}"#).await?;
    let first = take(&world).await?;

    lose(&world).await?;
    let second = take(&world).await?;
    let late = answer(&world, &first, done(json!("late"))).await;
    answer(&world, &second, done(json!("in time"))).await?;
    let after = answer(&world, &first, done(json!("late"))).await;
    let end = end(&world, accepted.run).await?;

    assert_eq!((second.task, second.attempt), (first.task, 2));
    assert!(
        matches!(late, Err(TaskError::NotHeld { kept: true, .. })),
        "{late:?}"
    );
    assert!(
        matches!(after, Err(TaskError::Answered { .. })),
        "{after:?}"
    );
    assert_eq!(end.result.as_deref(), Some(r#""in time""#));
    Ok(())
}

#[tokio::test]
async fn a_lost_worker_without_a_guard_leaves_a_doubt_for_an_operator() -> Result<()> {
    let world = world_with("guard: review").await?;
    let accepted = world.deliver(r#"{"id":"1"}"#).await?;
    let task = take(&world).await?;

    lose(&world).await?;
    let stands = end(&world, accepted.run).await?;
    let nobody = world
        .engine
        .claim_tasks(&claim(&world), Duration::ZERO)
        .await?;
    let settlement = Settlement::Happened {
        external_id: None,
        result: Some(json!("seen")),
        reason: "seen".to_owned(),
    };
    let id = world.namespace_id;
    world
        .engine
        .settle(id, task.task, settlement, "test")
        .await?;
    let end = end(&world, accepted.run).await?;

    assert_eq!(stands.state, RunState::InDoubt);
    assert!(
        nobody.is_empty(),
        "no worker gets a task that may have happened"
    );
    assert_eq!(end.result.as_deref(), Some(r#""seen""#));
    Ok(())
}

#[tokio::test]
async fn a_late_response_turns_doubt_into_done() -> Result<()> {
    let world = world_with("guard: review").await?;
    let accepted = world.deliver(r#"{"id":"1"}"#).await?;
    let task = take(&world).await?;
    lose(&world).await?;
    let stands = end(&world, accepted.run).await?;

    let late = answer(&world, &task, done(json!({"late": true}))).await;
    let look = async || end(&world, accepted.run).await;
    let ended = until_true("the run to succeed", look, |stands| {
        stands.state == RunState::Succeeded
    })
    .await?;

    assert_eq!(stands.state, RunState::InDoubt);
    assert!(
        matches!(late, Err(TaskError::NotHeld { kept: true, .. })),
        "{late:?}"
    );
    assert_eq!(ended.result.as_deref(), Some(r#"{"late":true}"#));
    Ok(())
}

#[tokio::test]
async fn a_worker_that_cannot_say_leaves_a_doubt() -> Result<()> {
    let world = world_with("guard: review").await?;
    let accepted = world.deliver(r#"{"id":"1"}"#).await?;
    let task = take(&world).await?;
    let unsure = TaskAnswer::InDoubt {
        message: "signal 9 ended the command".to_owned(),
    };

    answer(&world, &task, unsure).await?;
    let stands = end(&world, accepted.run).await?;

    assert_eq!(stands.state, RunState::InDoubt);
    assert!(stands.fault.unwrap_or_default().contains("signal 9"));
    Ok(())
}

#[tokio::test]
async fn a_heartbeat_keeps_a_task_and_its_token_must_be_the_latest() -> Result<()> {
    let world = world_with("guard: key").await?;
    world.deliver(r#"{"id":"1"}"#).await?;
    let task = take(&world).await?;
    let own = hold(&world, &task);
    let renew = |token| world.engine.renew_task(TaskHold { token, ..own }, None);

    world.move_clock(Duration::from_secs(20)).await?;
    let renewed = renew(task.token).await?;
    world.move_clock(Duration::from_secs(20)).await?;
    let still = renew(task.token).await?;
    let stale = renew(task.token - 1).await;

    assert!(renewed.lease_until > task.lease_until && still.lease_until > renewed.lease_until);
    assert!(!still.cancel);
    assert!(matches!(stale, Err(TaskError::NotHeld { .. })), "{stale:?}");
    Ok(())
}

#[tokio::test]
async fn a_task_that_no_worker_takes_in_time_fails_its_run() -> Result<()> {
    let world = world_with("guard: review").await?;
    let accepted = world.deliver(r#"{"id":"1"}"#).await?;
    until(&world, accepted.run, task::TaskState::Open).await?;

    world.move_clock(Duration::from_secs(3_700)).await?;
    let end = end(&world, accepted.run).await?;
    let view = until(&world, accepted.run, task::TaskState::Withdrawn).await?;

    assert_eq!(end.state, RunState::Failed);
    assert!(end.fault.unwrap_or_default().contains("task-timed-out"));
    assert!(view.ended_at.is_some());
    Ok(())
}

#[tokio::test]
async fn a_cancelled_run_withdraws_open_tasks_and_notifies_workers_of_held_ones() -> Result<()> {
    let world = world_with("guard: review").await?;
    let free = world.deliver(r#"{"id":"free"}"#).await?;
    until(&world, free.run, task::TaskState::Open).await?;
    let id = world.namespace_id;

    world.engine.cancel(id, free.run, "over", "test").await?;
    let free_end = end(&world, free.run).await?;
    until(&world, free.run, task::TaskState::Withdrawn).await?;
    let held = world.deliver(r#"{"id":"held"}"#).await?;
    let task = take(&world).await?;
    world.engine.cancel(id, held.run, "over", "test").await?;
    let renew = async || Ok(world.engine.renew_task(hold(&world, &task), None).await?);
    let told = until_true("the worker to be told", renew, |renewed| renewed.cancel).await;
    answer(&world, &task, done(json!(1))).await?;
    let held_end = end(&world, held.run).await?;

    assert_eq!(free_end.state, RunState::Cancelled);
    assert!(told.is_ok(), "the worker learns of it: {told:?}");
    // It was the last step, and it was done: there was nothing left to cancel.
    assert_eq!(held_end.state, RunState::Succeeded, "{held_end:?}");
    Ok(())
}

#[tokio::test]
async fn a_claim_that_is_repeated_under_its_name_gets_the_same_tasks() -> Result<()> {
    let world = world_with("guard: key").await?;
    for id in ["1", "2"] {
        world.deliver(&format!(r#"{{"id":"{id}"}}"#)).await?;
    }
    let look = async || {
        let filter = tasks::TaskFilter::default();
        let all = tasks::list(world.engine.cell().every(), world.namespace_id, &filter, 9);
        Ok(all.await?.items.len())
    };
    until_true("two tasks", look, |count| *count == 2).await?;
    let named = |name: u128| TaskClaim {
        most: 1,
        name: Some(uuid::Uuid::from_u128(name)),
        ..claim(&world)
    };
    let engine = &world.engine;

    let first = engine.claim_tasks(&named(1), Duration::ZERO).await?;
    let again = engine.claim_tasks(&named(1), Duration::ZERO).await?;
    let other = engine.claim_tasks(&named(2), Duration::ZERO).await?;

    assert_eq!(
        (first[0].task, first[0].token),
        (again[0].task, again[0].token)
    );
    assert_ne!(first[0].task, other[0].task);
    Ok(())
}

#[tokio::test]
async fn two_workers_never_hold_the_same_task() -> Result<()> {
    let world = world_with("guard: key").await?;
    for id in 0..40 {
        world.deliver(&format!(r#"{{"id":"{id}"}}"#)).await?;
    }
    let claim = TaskClaim {
        most: 3,
        ..claim(&world)
    };

    let all = RefCell::new(Vec::new());
    let take = async || {
        let patience = Duration::from_millis(100);
        let claimed = world.engine.claim_tasks(&claim, patience).await?;
        let mut all = all.borrow_mut();
        all.extend(claimed.into_iter().map(|task| task.task));
        Ok(all.len())
    };
    let takers = (0..8).map(|_| until_true("every task to be claimed", take, |all| *all >= 40));
    try_join_all(takers).await?;

    let mut all = all.into_inner();
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!((count, all.len()), (40, 40));
    Ok(())
}

/// The task of a run, once it stands like this.
#[tokio::test]
async fn the_lease_of_a_worker_ends_with_the_task_s_time() -> Result<()> {
    let world = world_with("guard: key").await?;
    world.deliver(r#"{"id":"1"}"#).await?;
    let long = TaskClaim {
        lease: Some(Span::from_secs(86_400)),
        ..claim(&world)
    };

    let claimed = world.engine.claim_tasks(&long, patience()).await?;

    assert_eq!(Some(claimed[0].lease_until), claimed[0].until);
    Ok(())
}

#[tokio::test]
async fn a_token_that_was_never_given_out_is_no_late_response() -> Result<()> {
    let world = world_with("guard: review").await?;
    let accepted = world.deliver(r#"{"id":"1"}"#).await?;
    let task = take(&world).await?;
    lose(&world).await?;
    end(&world, accepted.run).await?;

    for token in [0, -1, task.token + 1, i64::MAX] {
        let invented = tasks::ClaimedTask {
            token,
            ..task.clone()
        };
        let refused = answer(&world, &invented, done(json!("made up"))).await;
        let kept = matches!(refused, Err(TaskError::NotHeld { kept: false, .. }));
        assert!(kept, "{token}: {refused:?}");
    }
    let stands = end(&world, accepted.run).await?;

    assert_eq!(stands.state, RunState::InDoubt, "nothing was believed");
    Ok(())
}
