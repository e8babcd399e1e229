//! Tasks: claims, leases and answers belong to the API token that claimed.

use anyhow::{Context, Result};
use semel_api::types::{
    ClaimTasks, ClaimedTask, CompleteTask, FailTask, RenewTask, RunStatus, StartRun,
};
use semel_api::{Client, Code};
use semel_model::task::TaskState;
use semel_model::{RunId, Span};
use serde_json::{Value, json};

use super::{refusal, worker};
use crate::world::{World, patience_span, refused};

/// A run that waits for a task of this queue.
pub(super) async fn open(world: &World, queue: &str, guard: &str) -> Result<RunId> {
    let steps = format!(
        "trigger: {{ api: {{}} }}\nsteps:\n  - id: work\n    task: {{ queue: {queue}, \
         input: '${{{{ input }}}}', within: 1h, lease: 30s }}\n    guard: {guard}\n\
         result: steps.work.result\n"
    );
    let flow = world.publish(&format!("works-{queue}"), &steps).await?;
    let start = StartRun {
        key: Some("k".to_owned()),
        input: json!({ "of": queue }),
        ..StartRun::default()
    };
    Ok(world.client.start_run(&flow, &start, None).await?.body.run)
}

pub(super) fn claim(queue: &str, wait: Span) -> ClaimTasks {
    ClaimTasks {
        queue: queue.to_owned(),
        max: Some(1),
        wait: Some(wait),
        worker: None,
        lease: None,
    }
}

/// Claims the one task that has to be there soon, and is lost after a second.
async fn take(client: &Client, key: &str) -> Result<ClaimedTask> {
    let asked = ClaimTasks {
        lease: Some(Span::from_secs(1)),
        ..claim("images", patience_span())
    };
    let mut claimed = client.claim_tasks(&asked, key).await?;
    claimed.tasks.pop().context("a task")
}

fn done(token: i64, result: Value) -> CompleteTask {
    CompleteTask { token, result }
}

fn fail(token: i64, in_doubt: bool) -> FailTask {
    FailTask {
        token,
        code: None,
        message: "not mine".to_owned(),
        retryable: true,
        retry_after: None,
        in_doubt,
    }
}

async fn late_responses(world: &World) -> Result<i64> {
    let database = world.database.connect().await?;
    let count = "SELECT count(*) FROM late_responses";
    Ok(database.query_one(count, &[]).await?.get(0))
}

#[tokio::test]
async fn a_worker_renews_and_answers_only_what_its_own_token_claimed() -> Result<()> {
    let world = World::start().await?;
    let (owner, other) = (worker(&world, "a").await?, worker(&world, "b").await?);
    let run = open(&world, "images", "review").await?;
    let asked = claim("images", patience_span());
    let mut claimed = owner.claim_tasks(&asked, "c").await?;
    let ClaimedTask { task, token, .. } = claimed.tasks.pop().context("a task")?;
    let renew = RenewTask { token, lease: None };

    let mut words = Vec::new();
    let stolen = other.renew_task(task, &renew).await;
    assert_eq!(refused(stolen)?, Code::TaskNotHeld);
    words.push(refusal(
        other.complete_task(task, &done(token, json!(0))).await,
    )?);
    words.push(refusal(other.fail_task(task, &fail(token, false)).await)?);
    words.push(refusal(other.fail_task(task, &fail(token, true)).await)?);
    let stands = world.client.get_task(task).await?;
    owner.renew_task(task, &renew).await?;
    owner
        .complete_task(task, &done(token, json!("secret")))
        .await?;
    words.push(refusal(
        other.complete_task(task, &done(token, json!(0))).await,
    )?);
    words.push(refusal(
        other
            .complete_task(task, &done(token, json!("secret")))
            .await,
    )?);
    let own = refusal(owner.complete_task(task, &done(token, json!(0))).await)?;
    let end = world.client.await_run(run, patience_span()).await?;

    for (code, detail) in words {
        assert_eq!(code, "task-not-held", "{detail}");
        assert!(
            !detail.contains("secret") && !detail.contains("late"),
            "{detail}"
        );
    }
    assert_eq!((stands.state, stands.answer), (TaskState::Held, None));
    assert!(
        own.0 == "task-answered" && own.1.contains("secret"),
        "{own:?}"
    );
    assert_eq!(
        (end.state, end.result),
        (RunStatus::Succeeded, Some(json!("secret")))
    );
    Ok(())
}

#[tokio::test]
async fn only_the_worker_that_was_lost_turns_its_doubt_into_done() -> Result<()> {
    let world = World::start().await?;
    let (owner, other) = (worker(&world, "a").await?, worker(&world, "b").await?);
    let run = open(&world, "images", "review").await?;
    let ClaimedTask { task, token, .. } = take(&owner, "c").await?;
    let patience = patience_span();
    let lost = world.client.await_run(run, patience).await?;

    for guessed in 0..=3 {
        let forged = done(guessed, json!("forged"));
        let (code, detail) = refusal(other.complete_task(task, &forged).await)?;
        assert_eq!(code, "task-not-held", "{detail}");
        assert!(!detail.contains("recorded"), "{detail}");
    }
    let forged = late_responses(&world).await?;
    let stands = world.client.get_run(run).await?.run.state;
    let late = owner.complete_task(task, &done(token, json!("true"))).await;
    world.until_state(run, RunStatus::Succeeded).await?;
    let end = world.client.get_run(run).await?.run;

    assert_eq!(
        (lost.state, stands),
        (RunStatus::InDoubt, RunStatus::InDoubt)
    );
    assert_eq!(forged, 0, "nothing of it is evidence");
    assert_eq!(refused(late)?, Code::TaskNotHeld);
    assert_eq!(end.result, Some(json!("true")));
    Ok(())
}

#[tokio::test]
async fn a_task_that_was_claimed_twice_has_each_claim_s_own_worker() -> Result<()> {
    let world = World::start().await?;
    let (first, second) = (worker(&world, "a").await?, worker(&world, "b").await?);
    let run = open(&world, "images", "key").await?;
    let lost = take(&first, "c").await?;
    let asked = claim("images", patience_span());
    let mut claimed = second.claim_tasks(&asked, "d").await?;
    let next = claimed.tasks.pop().context("the task again")?;
    let task = lost.task;

    let stolen = first
        .complete_task(task, &done(next.token, json!("stolen")))
        .await;
    let forged = second
        .complete_task(task, &done(lost.token, json!("forged")))
        .await;
    let none = late_responses(&world).await?;
    let late = refusal(
        first
            .complete_task(task, &done(lost.token, json!("late")))
            .await,
    )?;
    let one = late_responses(&world).await?;
    second
        .complete_task(task, &done(next.token, json!("secret")))
        .await?;
    let after = refusal(
        first
            .complete_task(task, &done(lost.token, json!("late")))
            .await,
    )?;
    let same = first
        .complete_task(task, &done(lost.token, json!("secret")))
        .await?;
    let end = world.client.await_run(run, patience_span()).await?;

    assert_eq!((next.task, next.token), (task, lost.token + 1));
    assert_eq!(refused(stolen)?, Code::TaskNotHeld);
    assert_eq!(refused(forged)?, Code::TaskNotHeld);
    assert_eq!((none, one), (0, 1));
    assert!(late.1.contains("recorded as a late response"), "{late:?}");
    assert_eq!(after.0, "task-answered");
    assert!(
        !after.1.contains("secret"),
        "another worker's answer: {after:?}"
    );
    assert!(same.replayed);
    assert_eq!(end.result, Some(json!("secret")));
    Ok(())
}

#[tokio::test]
async fn a_repeated_claim_returns_only_what_its_own_token_claimed_of_that_queue() -> Result<()> {
    let world = World::start().await?;
    let (owner, other) = (worker(&world, "a").await?, worker(&world, "b").await?);
    open(&world, "images", "key").await?;
    open(&world, "mails", "key").await?;
    let (soon, now) = (patience_span(), Span::from_secs(0));

    let first = owner.claim_tasks(&claim("images", soon), "claim-1").await?;
    let stolen = other.claim_tasks(&claim("images", now), "claim-1").await?;
    let repeated = owner.claim_tasks(&claim("images", now), "claim-1").await?;
    let mails = owner.claim_tasks(&claim("mails", soon), "claim-1").await?;

    assert!(stolen.tasks.is_empty(), "a colleague's key: {stolen:?}");
    assert_eq!(first.tasks.len(), 1);
    assert_eq!(first.tasks[0].task, repeated.tasks[0].task);
    let inputs = |it: &semel_api::types::ClaimedTasks| it.tasks[0].input.clone();
    assert_eq!(inputs(&repeated), json!({ "of": "images" }));
    assert_eq!(inputs(&mails), json!({ "of": "mails" }));
    Ok(())
}
