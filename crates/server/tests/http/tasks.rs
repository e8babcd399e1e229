//! Tasks over HTTP: a worker that claims one answers once, under the token of the claim.

use anyhow::{Context, Result};
use hyper::Method;
use semel_api::types::{
    ClaimTasks, ClaimedTask, CompleteTask, FailTask, RenewTask, RunStatus, StartRun, TaskFilter,
};
use semel_api::{Client, Code, Problem};
use semel_model::{RunId, Span, task};
use semel_testkit::patience;
use serde_json::json;

use crate::world::{World, patience_span, refused};

const WORKING: &str = "trigger: { api: {} }\nsteps:\n  - id: work\n    \
    task: { queue: images, input: '${{ input }}', within: 1h, lease: 30s }\n    guard: key\n\
    result: steps.work.result\n";

async fn open(world: &World) -> Result<RunId> {
    let flow = world.publish("working", WORKING).await?;
    let start = StartRun {
        key: Some("k".to_owned()),
        input: json!({ "id": 1 }),
        ..StartRun::default()
    };
    Ok(world.client.start_run(&flow, &start, None).await?.body.run)
}

fn claim(wait: u64) -> ClaimTasks {
    ClaimTasks {
        queue: "images".to_owned(),
        max: Some(5),
        wait: Some(Span::from_secs(wait)),
        worker: Some("test".to_owned()),
        lease: None,
    }
}

async fn take(client: &Client) -> Result<ClaimedTask> {
    let mut claimed = client
        .claim_tasks(&claim(patience().as_secs()), "claim-1")
        .await?;
    claimed.tasks.pop().context("a task")
}

#[tokio::test]
async fn a_task_is_claimed_renewed_and_completed_over_http() -> Result<()> {
    let world = World::start().await?;
    let run = open(&world).await?;

    let task = take(&world.client).await?;
    let same = take(&world.client).await?;
    let nothing = world.client.claim_tasks(&claim(0), "claim-2").await?;
    let renew = RenewTask {
        token: task.token,
        lease: None,
    };
    let renewed = world.client.renew_task(task.task, &renew).await?;
    let complete = CompleteTask {
        token: task.token,
        result: json!({ "width": 7 }),
    };
    let first = world.client.complete_task(task.task, &complete).await?;
    let again = world.client.complete_task(task.task, &complete).await?;
    let contrary = CompleteTask {
        result: json!(8),
        ..complete.clone()
    };
    let contrary = world.client.complete_task(task.task, &contrary).await;
    let patience = patience_span();
    let end = world.client.await_run(run, patience).await?;

    assert_eq!(
        (task.task, task.token),
        (same.task, same.token),
        "a repeated claim"
    );
    assert_eq!(task.key, task.task);
    assert_eq!(task.input, json!({ "id": 1 }));
    assert!(nothing.tasks.is_empty());
    assert!(renewed.lease_until >= task.lease_until && !renewed.cancel);
    assert!(!first.replayed && again.replayed);
    assert_eq!(refused(contrary)?, Code::TaskAnswered);
    assert_eq!(
        (end.state, end.result),
        (RunStatus::Succeeded, Some(json!({ "width": 7 })))
    );
    Ok(())
}

#[tokio::test]
async fn a_worker_says_why_it_failed_within_bounds() -> Result<()> {
    let world = World::start().await?;
    let run = open(&world).await?;
    let task = take(&world.client).await?;
    let fail = |code: &str| FailTask {
        token: task.token,
        code: Some(code.to_owned()),
        message: "x".repeat(10_000),
        retryable: false,
        retry_after: None,
        in_doubt: false,
    };

    let odd = world.client.fail_task(task.task, &fail("Not A Code")).await;
    world.client.fail_task(task.task, &fail("no-image")).await?;
    let patience = patience_span();
    let end = world.client.await_run(run, patience).await?;

    assert_eq!(refused(odd)?, Code::BodyInvalid);
    let fault = end.fault.context("a fault")?;
    assert_eq!(
        (end.state, fault["code"].as_str()),
        (RunStatus::Failed, Some("task-no-image"))
    );
    assert!(fault["message"].as_str().context("a message")?.len() <= 2_000);
    Ok(())
}

#[tokio::test]
async fn tasks_of_another_namespace_are_not_found() -> Result<()> {
    let world = World::start().await?;
    open(&world).await?;
    let stranger = world.stranger().await?;

    let nothing = stranger.claim_tasks(&claim(0), "c").await?;
    let task = take(&world.client).await?;
    let shown = stranger.get_task(task.task).await;
    let complete = CompleteTask {
        token: task.token,
        result: json!(1),
    };
    let completed = stranger.complete_task(task.task, &complete).await;
    let renew = RenewTask {
        token: task.token,
        lease: None,
    };
    let renewed = stranger.renew_task(task.task, &renew).await;
    let listed = world.client.list_tasks(&TaskFilter::default()).await?;

    assert!(nothing.tasks.is_empty());
    assert_eq!(refused(shown)?, Code::TaskNotFound);
    assert_eq!(refused(completed)?, Code::TaskNotFound);
    assert_eq!(refused(renewed)?, Code::TaskNotFound);
    assert_eq!(listed.items[0].state, task::TaskState::Held);
    assert_eq!(listed.items[0].worker.as_deref(), Some("test"));
    Ok(())
}

#[tokio::test]
async fn an_answer_that_cannot_be_stored_is_settled_at_once_with_the_reason() -> Result<()> {
    let world = World::start().await?;
    let run = open(&world).await?;
    let task = take(&world.client).await?;
    let bearer = format!("Bearer {}", world.token);
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
    ];
    let path = format!("/v1/tasks/{}/complete", task.task);
    let body = format!(r#"{{"token":{},"result":9007199254740993}}"#, task.token);

    let mut answers = Vec::new();
    for _ in 0..2 {
        let said = world
            .bare
            .send(Method::POST, &path, &headers, body.clone().into())
            .await?;
        answers.push((said.status.as_u16(), said.json::<Problem>()?.code));
    }
    let patience = patience_span();
    let end = world.client.await_run(run, patience).await?;
    let nobody = world.client.claim_tasks(&claim(0), "claim-2").await?;

    let refusal = (400, "body-not-json".to_owned());
    assert_eq!(answers, [refusal.clone(), refusal]);
    assert_eq!(
        end.state,
        RunStatus::InDoubt,
        "the worker says that it is done"
    );
    let fault = end.fault.context("the reason")?;
    assert_eq!(fault["code"], json!("answer-refused"));
    assert!(fault["message"].to_string().contains("2^53"), "{fault}");
    assert!(nobody.tasks.is_empty(), "no worker does it again");
    Ok(())
}

#[tokio::test]
async fn a_worker_corrects_an_invalid_body_and_an_unstorable_result() -> Result<()> {
    let world = World::start().await?;
    let run = open(&world).await?;
    let task = take(&world.client).await?;
    let bearer = format!("Bearer {}", world.token);
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
    ];
    let path = format!("/v1/tasks/{}/complete", task.task);
    let say = async |body: &str| {
        let body = body.replace("TOKEN", &task.token.to_string());
        let said = world
            .bare
            .send(Method::POST, &path, &headers, body.into())
            .await?;
        anyhow::Ok((said.status.as_u16(), said.json::<Problem>()?.code))
    };

    let mistaken = say(r#"{"token":TOKEN,"reslt":9007199254740993}"#).await?;
    let unknown = say(r#"{"token":TOKEN,"result":1,"more":2}"#).await?;
    let held = world.client.get_task(task.task).await?.state;
    let unstorable = say(r#"{"token":TOKEN,"result":9007199254740993}"#).await?;
    let mended = CompleteTask {
        token: task.token,
        result: json!("9007199254740993"),
    };
    let mended = world.client.complete_task(task.task, &mended).await;
    world.until_state(run, RunStatus::Succeeded).await?;
    let end = world.client.get_run(run).await?.run;

    assert_eq!(mistaken, (400, "body-not-json".to_owned()));
    assert_eq!(unknown, (400, "body-invalid".to_owned()));
    assert_eq!(held, task::TaskState::Held, "nothing was recorded");
    assert_eq!(unstorable, (400, "body-not-json".to_owned()));
    assert_eq!(
        refused(mended)?,
        Code::TaskNotHeld,
        "recorded as a late response"
    );
    assert_eq!(end.result, Some(json!("9007199254740993")));
    Ok(())
}
