//! What a worker does: claims tasks, answers them, and is lost.

use std::time::Duration;

use anyhow::{Context, Result};
use semel_engine::commands::answer_task::{TaskAnswer, TaskError};
use semel_model::{RunId, TokenId, task};
use semel_store::runs::RunSnapshot;
use semel_store::tasks::{self, ClaimedTask, TaskClaim, TaskHold};
use semel_testkit::{patience, until_some};
use serde_json::Value;
use uuid::Uuid;

use crate::world::World;

const WORK: &str = "steps:\n  - id: work\n    task: { queue: images, input: { id: '${{ input.id }}' }, \
    within: 1h, lease: 30s }\n    GUARD\nresult: steps.work.result\n";

pub(super) async fn world_with(guard: &str) -> Result<World> {
    let world = World::start().await?;
    world.publish(&WORK.replace("GUARD", guard)).await?;
    Ok(world)
}

/// The API token of a worker.
pub(super) fn worker(number: u128) -> TokenId {
    TokenId::from_uuid(Uuid::from_u128(number))
}

pub(super) fn claim(world: &World) -> TaskClaim {
    TaskClaim {
        namespace_id: world.namespace_id,
        caller: worker(1),
        queue: "images".to_owned(),
        most: 10,
        worker: Some("test".to_owned()),
        name: None,
        lease: None,
    }
}

/// Claims the one task that has to be there soon.
pub(crate) async fn take(world: &World) -> Result<ClaimedTask> {
    let patience = patience();
    let mut claimed = world.engine.claim_tasks(&claim(world), patience).await?;
    claimed.pop().context("a task")
}

pub(crate) async fn answer(
    world: &World,
    task: &ClaimedTask,
    said: TaskAnswer,
) -> Result<semel_engine::commands::answer_task::TaskAnswered, TaskError> {
    world.engine.answer_task(hold(world, task), said).await
}

/// What the worker of [`claim`] says about a claim.
pub(super) fn hold(world: &World, task: &ClaimedTask) -> TaskHold {
    TaskHold {
        namespace_id: world.namespace_id,
        task: task.task,
        token: task.token,
        caller: worker(1),
    }
}

pub(super) async fn end(world: &World, run: RunId) -> Result<RunSnapshot> {
    let end = world.engine.await_end(run, patience()).await?;
    end.context("there is such a run")
}

pub(crate) fn done(value: Value) -> TaskAnswer {
    TaskAnswer::Done(value)
}

pub(super) fn failed(retryable: bool) -> TaskAnswer {
    TaskAnswer::Failed {
        code: "broken-image".to_owned(),
        message: "cannot read it".to_owned(),
        retryable,
        retry_after: None,
    }
}

/// Lets the lease of a task run out, by the database's clock.
pub(super) async fn lose(world: &World) -> Result<()> {
    world.move_clock(Duration::from_secs(31)).await
}

pub(super) async fn until(
    world: &World,
    run: RunId,
    state: task::TaskState,
) -> Result<tasks::TaskView> {
    let filter = tasks::TaskFilter {
        run: Some(run),
        all: true,
        ..tasks::TaskFilter::default()
    };
    until_some(&format!("a task that is {state:?}"), async || {
        let found = tasks::list(world.engine.cell().every(), world.namespace_id, &filter, 1)
            .await?
            .items;
        Ok(found.into_iter().find(|task| task.state == state))
    })
    .await
}
