//! Commands: sent twice, carried out once.

use anyhow::Result;
use semel_api::types::{Cancel, DropKey, Promote, PushFlow, StartRun};
use semel_api::{ClientError, Code};
use semel_model::Span;
use serde_json::json;

use crate::world::{World, patience_span, refused};

const WAITING: &str = "trigger: { api: {} }\n\
    steps:\n  - id: answer\n    wait: { callback: true, within: 1h }\nresult: steps.answer.result\n";

const INSTANT: &str = "trigger: { api: {} }\nsteps: [{ id: one, function: '1' }]\n";

fn keyed(key: &str) -> StartRun {
    StartRun {
        key: Some(key.to_owned()),
        ..StartRun::default()
    }
}

fn because(reason: &str) -> Cancel {
    Cancel {
        reason: reason.to_owned(),
    }
}

#[tokio::test]
async fn a_command_that_is_repeated_gets_the_first_answer() -> Result<()> {
    let world = World::start().await?;
    let flow = world.publish("waiting", WAITING).await?;
    let run = world.client.start_run(&flow, &keyed("k"), None).await?;
    let run = run.body.run;
    world.until_waiting(run).await?;

    let first = world.client.cancel_run(run, &because("gone"), "c").await?;
    world.client.await_run(run, patience_span()).await?;
    let again = world.client.cancel_run(run, &because("gone"), "c").await?;
    let other = world.client.cancel_run(run, &because("else"), "c").await;
    let anew = world.client.cancel_run(run, &because("gone"), "d").await;

    assert!(!first.replayed && again.replayed);
    assert_eq!(first.body, again.body);
    assert_eq!(refused(other)?, Code::CommandMismatch);
    assert_eq!(refused(anew)?, Code::RunEnded);
    Ok(())
}

#[tokio::test]
async fn a_refusal_does_not_block_the_same_command_later() -> Result<()> {
    let world = World::start().await?;
    let flow = world.publish("waiting", WAITING).await?;
    let run = world.client.start_run(&flow, &keyed("k"), None).await?;
    let drop = DropKey {
        reason: "start over".to_owned(),
        new_intent: false,
    };

    let run = run.body.run;
    world.until_waiting(run).await?;
    let early = world.client.drop_key(&flow, "k", &drop, "d").await;
    world.client.cancel_run(run, &because("gone"), "c").await?;
    world.client.await_run(run, patience_span()).await?;
    let late = world.client.drop_key(&flow, "k", &drop, "d").await?;
    let again = world.client.start_run(&flow, &keyed("k"), None).await?;

    assert_eq!(refused(early)?, Code::RunNotEnded);
    assert_eq!(late.body.run, run);
    assert_ne!(again.body.run, run, "a dropped key makes a new run");
    Ok(())
}

#[tokio::test]
async fn a_command_in_progress_is_a_409_with_a_retry_time() -> Result<()> {
    let world = World::start().await?;
    let flow = world.publish("instant", INSTANT).await?;
    let promote = Promote {
        release: 1,
        override_reason: None,
    };
    world.client.promote_flow(&flow, &promote, "p").await?;
    // Another process began the same command and has not answered: as if it were in progress.
    let database = world.database.connect().await?;
    let undone = "UPDATE commands SET status = NULL, answer = NULL";
    database.batch_execute(undone).await?;

    let answer = world.client.promote_flow(&flow, &promote, "p").await;

    let Err(ClientError::Problem(problem)) = answer else {
        anyhow::bail!("not refused: {answer:?}")
    };
    assert_eq!(problem.code(), Some(Code::CommandUnderWay));
    assert_eq!(
        (problem.status, problem.retry_in),
        (409, Some(Span::from_secs(1)))
    );
    Ok(())
}

#[tokio::test]
async fn an_operator_completes_a_wait_once() -> Result<()> {
    let world = World::start().await?;
    let flow = world.publish("waiting", WAITING).await?;
    let run = world.client.start_run(&flow, &keyed("k"), None).await?;
    let run = run.body.run;
    let wait = world.until_waiting(run).await?;

    let complete = semel_api::types::CompleteWait {
        payload: json!({"ok": true}),
    };
    let first = world.client.complete_wait(wait.id, &complete, "w").await?;
    let again = world.client.complete_wait(wait.id, &complete, "w").await?;
    let end = world.client.await_run(run, patience_span()).await?;

    assert!(!first.replayed && again.replayed);
    assert_eq!(end.result, Some(json!({"ok": true})));
    Ok(())
}

#[tokio::test]
async fn a_flow_with_mistakes_is_refused_with_their_places() -> Result<()> {
    let world = World::start().await?;
    let flow = "orders".parse()?;
    let push = |source: &str| PushFlow {
        source: source.to_owned(),
    };

    let wrong =
        push("flow: orders\ntrigger: { api: {} }\nsteps: [{ id: one, function: inptu.id }]\n");
    let wrong = world.client.push_flow(&flow, &wrong).await;
    let other = push(&format!("flow: other\n{INSTANT}"));
    let other = world.client.push_flow(&flow, &other).await;
    let undrafted = world.client.publish_flow(&flow, "p").await;

    let Err(ClientError::Problem(problem)) = wrong else {
        anyhow::bail!("not refused: {wrong:?}")
    };
    assert_eq!(problem.code(), Some(Code::FlowInvalid));
    assert_eq!((problem.diagnostics[0].line, problem.status), (3, 422));
    assert_eq!(problem.diagnostics[0].file, "orders.flow.yaml");
    assert_eq!(refused(other)?, Code::FlowNameDiffers);
    assert_eq!(refused(undrafted)?, Code::FlowNotFound);
    Ok(())
}
