//! Rejections: they stand, unless people are asked again or the flow continues with them.

use std::time::Duration;

use anyhow::{Context, Result};
use semel_engine::commands::decide_approval::{Approver, SubmittedDecision};
use semel_engine::{ResumeError, Wish};
use semel_model::RunId;
use semel_model::run::RunState;
use semel_store::approvals::{self, ApprovalView};
use semel_store::runs::{self, RunSnapshot};
use semel_testkit::{patience, until_some};
use serde_json::{Value, json};

use crate::world::World;

const ASK: &str = "steps:\n  - id: sign\n\
    \x20   approval: { from: [ada], show: { id: '${{ input.id }}' }, within: 1h MORE }\n\
    \x20 - id: after\n    if: steps.sign.result.approved == true\n    kv: { add: after }\n\
    result: steps.sign.result.approved\n";

async fn world_with(more: &str) -> Result<World> {
    let world = World::start().await?;
    world.publish(&ASK.replace("MORE", more)).await?;
    Ok(world)
}

async fn open(world: &World, run: RunId) -> Result<ApprovalView> {
    until_some("people to be asked", async || {
        let cell = world.engine.cell();
        let open = approvals::list_of_run(cell.of(run), world.namespace_id, run, false, None, 9)
            .await?
            .items;
        Ok(open.into_iter().next())
    })
    .await
}

async fn decide(world: &World, view: &ApprovalView, approved: bool) -> Result<()> {
    let verdict = SubmittedDecision {
        digest: view.digest.clone(),
        approved,
        comment: None,
    };
    let by = Approver::Token {
        name: "ada".to_owned(),
        groups: Vec::new(),
    };
    world.engine.decide(view, &by, verdict).await?;
    Ok(())
}

async fn end(world: &World, run: RunId) -> Result<RunSnapshot> {
    let end = world.engine.await_end(run, patience()).await?;
    end.context("there is such a run")
}

async fn rejected(world: &World) -> Result<(RunId, ApprovalView)> {
    let run = world.deliver(r#"{"id":"1"}"#).await?.run;
    let view = open(world, run).await?;
    decide(world, &view, false).await?;
    anyhow::ensure!(end(world, run).await?.state == RunState::Failed);
    Ok((run, view))
}

#[tokio::test]
async fn a_rejection_stands_when_the_run_is_resumed() -> Result<()> {
    let world = world_with("").await?;
    let (run, _) = rejected(&world).await?;

    let resumed = world
        .engine
        .resume(world.namespace_id, run, "again", "token:ada")
        .await;
    let after = runs::find(world.engine.cell().of(run), world.namespace_id, run).await?;

    match resumed {
        Err(ResumeError::Unfit { hint, .. }) => assert!(hint.contains("--ask-again"), "{hint}"),
        other => anyhow::bail!("it was resumed: {other:?}"),
    }
    assert_eq!(after.context("the run")?.state, RunState::Failed);
    Ok(())
}

#[tokio::test]
async fn a_repeated_delivery_does_not_ask_again() -> Result<()> {
    let world = World::start().await?;
    let source = format!(
        "flow: story\ntrigger:\n  webhook: {{ auth: none, key: input.id, on_repeat: resume }}\n{}",
        ASK.replace("MORE", "")
    );
    world.publish_source(&source).await?;
    let (run, _) = rejected(&world).await?;

    let repeat = world.deliver(r#"{"id":"1"}"#).await?;

    assert_eq!((repeat.run, repeat.state), (run, RunState::Failed));
    Ok(())
}

#[tokio::test]
async fn people_are_asked_again_where_the_operator_says_so() -> Result<()> {
    let world = world_with("").await?;
    let (run, first) = rejected(&world).await?;

    let wish = Wish {
        reason: "the amount was corrected",
        ask_again: true,
    };
    world
        .engine
        .resume(world.namespace_id, run, wish, "token:ada")
        .await?;
    let second = open(&world, run).await?;
    let late = decide(&world, &first, true).await;
    decide(&world, &second, true).await?;
    let end = end(&world, run).await?;

    assert_eq!((first.round, second.round), (0, 1));
    assert!(late.is_err(), "a click on the first round decides nothing");
    assert!(
        second.decision.is_none(),
        "the rejection does not count again"
    );
    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    let after = world.kv("after").await?;
    assert_eq!(after, json!(1));
    Ok(())
}

#[tokio::test]
async fn a_rejection_in_a_called_run_stands_unless_people_are_asked_again() -> Result<()> {
    let world = World::start().await?;
    let asked = ASK.replace("MORE", "");
    let asked = format!("flow: asked\ntrigger:\n  api: {{}}\n{asked}");
    world.publish_source(&asked).await?;
    let call = "steps:\n  - { id: other, call: { flow: asked, input: { id: '${{ input.id }}' } } }\n\
                result: steps.other.result\n";
    world.publish(call).await?;
    let caller = world.deliver(r#"{"id":"1"}"#).await?.run;
    let called = until_some("a called run", async || {
        let filter = runs::RunFilter {
            flow: Some("asked".to_owned()),
            ..runs::RunFilter::default()
        };
        let runs = runs::list(world.engine.cell().every(), world.namespace_id, &filter, 9).await?;
        Ok(runs.items.first().map(|run| run.id))
    })
    .await?;
    decide(&world, &open(&world, called).await?, false).await?;
    let first = end(&world, caller).await?;
    let resume = async |ask_again| {
        let reason = "the amount was corrected";
        let wish = Wish { reason, ask_again };
        let resumed = world.engine.resume(world.namespace_id, caller, wish, "ada");
        resumed.await
    };

    resume(false).await?;
    let second = end(&world, caller).await?;
    resume(true).await?;
    let asked_again = open(&world, called).await?;
    decide(&world, &asked_again, true).await?;
    let third = end(&world, caller).await?;

    assert_eq!(
        (first.state, second.state),
        (RunState::Failed, RunState::Failed)
    );
    assert_eq!(asked_again.round, 1, "people were asked again once");
    assert_eq!(third.state, RunState::Succeeded, "{third:?}");
    assert_eq!(third.result.as_deref(), Some("true"));
    Ok(())
}

#[tokio::test]
async fn a_flow_can_continue_after_a_rejection() -> Result<()> {
    let world = world_with(", on_reject: continue").await?;
    let run = world.deliver(r#"{"id":"1"}"#).await?.run;
    let silent = world.deliver(r#"{"id":"2"}"#).await?.run;
    open(&world, silent).await?;

    decide(&world, &open(&world, run).await?, false).await?;
    let end_of_no = end(&world, run).await?;
    world.move_clock(Duration::from_secs(3_700)).await?;
    let end_of_silence = end(&world, silent).await?;
    let after = world.kv("after").await?;

    for end in [&end_of_no, &end_of_silence] {
        assert_eq!(end.state, RunState::Succeeded, "{end:?}");
        assert_eq!(end.result.as_deref(), Some("false"));
    }
    assert_eq!(after, Value::Null, "nothing was done without a yes");
    Ok(())
}
