//! Approvals: one decision, bound to what was shown, in time, by a person who may decide.

use std::time::Duration;

use anyhow::{Context, Result};
use semel_engine::commands::decide_approval::{Approver, DecideError, Decided, SubmittedDecision};
use semel_model::approval::{self, Digest};
use semel_model::run::RunState;
use semel_model::{RunId, WaitId};
use semel_store::approvals::{self, ApprovalView};
use semel_store::runs::{self, RunSnapshot};
use semel_testkit::{patience, until, until_some};
use serde_json::{Value, json};

use crate::world::World;

const ASK: &str = "steps:\n  - id: tell\n    kv: { set: 'link/${{ input.id }}', value: '${{ waits.sign.url }}' }\n\
    \x20 - id: sign\n    approval: { from: [ada, finance], show: { id: '${{ input.id }}' }, MORE }\n\
    \x20 - id: after\n    kv: { add: after }\nresult: steps.sign.result\n";

async fn world_with(more: &str) -> Result<World> {
    let world = World::start().await?;
    world.publish(&ASK.replace("MORE", more)).await?;
    Ok(world)
}

async fn asked(world: &World, id: &str) -> Result<(RunId, ApprovalView)> {
    let run = world.deliver(&format!(r#"{{"id":"{id}"}}"#)).await?.run;
    Ok((run, open_approval(world, run).await?))
}

/// What people are asked by a run.
pub(crate) async fn open_approval(world: &World, run: RunId) -> Result<ApprovalView> {
    until_some("people to be asked", async || {
        let (cell, namespace_id) = (world.engine.cell(), world.namespace_id);
        let open = approvals::list_of_run(cell.of(run), namespace_id, run, false, None, 9)
            .await?
            .items;
        Ok(open.into_iter().next())
    })
    .await
}

async fn fresh(world: &World, wait: WaitId) -> Result<ApprovalView> {
    let view = approvals::find(world.engine.cell().of(wait), world.namespace_id, wait).await?;
    view.context("an approval")
}

pub(crate) fn token(name: &str, groups: &[&str]) -> Approver {
    Approver::Token {
        name: name.to_owned(),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
    }
}

fn by_link() -> Approver {
    let name = "Grace".parse();
    Approver::Link {
        name: name.unwrap_or_else(|error| panic!("{error}")),
    }
}

pub(crate) async fn decide(
    world: &World,
    view: &ApprovalView,
    by: &Approver,
    approved: bool,
) -> Result<Decided, DecideError> {
    let verdict = SubmittedDecision {
        digest: view.digest.clone(),
        approved,
        comment: Some("looked at it".to_owned()),
    };
    world.engine.decide(view, by, verdict).await
}

async fn end(world: &World, run: RunId) -> Result<RunSnapshot> {
    let end = world.engine.await_end(run, patience()).await?;
    end.context("there is such a run")
}

async fn ahead(world: &World, secs: u64) -> Result<()> {
    world.move_clock(Duration::from_secs(secs)).await
}

fn result_of(end: &RunSnapshot) -> Result<Value> {
    Ok(serde_json::from_str(
        end.result.as_deref().unwrap_or("null"),
    )?)
}

#[tokio::test]
async fn the_first_decision_stands_and_every_request_gets_it() -> Result<()> {
    let world = world_with("within: 1h, login: false").await?;
    let (run, view) = asked(&world, "1").await?;

    let first = decide(&world, &view, &token("ada", &[]), true).await?;
    let again = decide(&world, &view, &token("bob", &["finance"]), true).await?;
    let contrary = decide(&world, &view, &by_link(), false).await;
    let end = end(&world, run).await?;

    assert!(!first.replayed && again.replayed);
    assert_eq!(first.decision, again.decision, "the same answer for both");
    match contrary {
        Err(DecideError::Contrary { decision }) => assert_eq!(decision, first.decision),
        other => anyhow::bail!("a contrary decision was taken: {other:?}"),
    }
    assert_eq!(end.state, RunState::Succeeded);
    let result = result_of(&end)?;
    assert_eq!(
        (&result["approved"], &result["by"], &result["comment"]),
        (&json!(true), &json!("token:ada"), &json!("looked at it"))
    );
    Ok(())
}

#[tokio::test]
async fn a_rejection_fails_the_run_before_later_steps() -> Result<()> {
    let world = world_with("within: 1h").await?;
    let (run, view) = asked(&world, "1").await?;

    decide(&world, &view, &token("ada", &[]), false).await?;
    let end = end(&world, run).await?;
    let after = world.kv("after").await?;

    assert_eq!(end.state, RunState::Failed);
    let fault = end.fault.unwrap_or_default();
    assert!(
        fault.contains("approval-rejected") && fault.contains("rejected by token:ada"),
        "{fault}"
    );
    assert_eq!(after, Value::Null, "nothing behind it ran");
    Ok(())
}

#[tokio::test]
async fn a_decision_about_something_else_is_refused() -> Result<()> {
    let world = world_with("within: 1h").await?;
    let (_, view) = asked(&world, "1").await?;
    let verdict = SubmittedDecision {
        digest: Digest::of(&json!({"id": "2"})),
        approved: true,
        comment: None,
    };

    let refused = world
        .engine
        .decide(&view, &token("ada", &[]), verdict)
        .await;
    let stands = fresh(&world, view.wait).await?;

    assert_eq!(view.digest, Digest::of(&json!({"id": "1"})));
    assert!(matches!(refused, Err(DecideError::Differs)), "{refused:?}");
    assert_eq!(stands.state, approval::ApprovalState::Open);
    Ok(())
}

#[tokio::test]
async fn only_those_who_are_asked_may_decide_and_others_from_half_of_the_time_on() -> Result<()> {
    let world = world_with("within: 10h, escalate: [cfo]").await?;
    listen(&world).await?;
    let (run, view) = asked(&world, "1").await?;

    let nobody = decide(&world, &view, &token("eve", &["sales"]), true).await;
    let early = decide(&world, &view, &token("cfo", &[]), true).await;
    ahead(&world, 5 * 3_600 + 60).await?;
    let later = fresh(&world, view.wait).await?;
    let told = until_told(&world, "escalated", 1).await?;
    decide(&world, &later, &token("cfo", &[]), true).await?;
    let end = end(&world, run).await?;

    assert!(matches!(nobody, Err(DecideError::Denied(_))), "{nobody:?}");
    assert!(matches!(early, Err(DecideError::Denied(_))), "{early:?}");
    assert_eq!(told[0]["from"], json!(["cfo"]));
    assert_eq!(result_of(&end)?["by"], "token:cfo");
    Ok(())
}

#[tokio::test]
async fn the_link_opens_one_approval_and_nothing_once_it_is_over() -> Result<()> {
    let world = world_with("within: 1h, login: false").await?;
    let (_, view) = asked(&world, "1").await?;
    let link = world.kv("link/1").await?;
    let link = link.as_str().context("a link")?.to_owned();
    let token = link.rsplit('/').next().context("a token")?;
    let engine = &world.engine;

    let found = engine.find_approval(token).await?.context("an approval")?;
    let as_callback = engine.call_back(token, b"{}").await;
    ahead(&world, 3_700).await?;
    let over = engine.find_approval(token).await?;
    let late = decide(&world, &view, &by_link(), true).await;

    assert!(link.contains("/approvals/"));
    assert_eq!((found.wait, found.digest), (view.wait, view.digest.clone()));
    assert!(as_callback.is_err(), "an approval is no callback");
    assert!(over.is_none());
    assert!(matches!(late, Err(DecideError::Unknown)), "{late:?}");
    Ok(())
}

#[tokio::test]
async fn an_approval_timeout_rejects_fails_or_continues_as_the_step_says() -> Result<()> {
    let cases = [
        ("", RunState::Failed, "approval-rejected"),
        (", on_timeout: fail", RunState::Failed, "approval-timed-out"),
        (", on_timeout: continue", RunState::Succeeded, ""),
    ];
    for (policy, state, code) in cases {
        let world = world_with(&format!("within: 1h{policy}")).await?;
        let (run, view) = asked(&world, "1").await?;

        ahead(&world, 3_700).await?;
        let end = end(&world, run).await?;
        let stands = fresh(&world, view.wait).await?;

        assert_eq!(end.state, state, "{policy}: {end:?}");
        assert!(
            end.fault.as_deref().unwrap_or_default().contains(code),
            "{policy}"
        );
        assert_eq!(stands.state, approval::ApprovalState::Elapsed);
        if state == RunState::Succeeded {
            assert_eq!(result_of(&end)?["approved"], Value::Null);
        }
    }
    Ok(())
}

#[tokio::test]
async fn people_are_reminded_once_for_each_time_and_the_run_hears_a_decision_meanwhile()
-> Result<()> {
    let world = world_with("within: 10h, remind: 1h, login: false").await?;
    listen(&world).await?;
    let (run, view) = asked(&world, "1").await?;
    let requested = until_told(&world, "requested", 1).await?;

    ahead(&world, 3_600 + 60).await?;
    until_told(&world, "reminded", 1).await?;
    // Three are missed together, and people are reminded once.
    ahead(&world, 3 * 3_600).await?;
    let reminded = until_told(&world, "reminded", 2).await?;
    let view = fresh(&world, view.wait).await?;
    decide(&world, &view, &by_link(), true).await?;
    let end = end(&world, run).await?;
    let decided = until_told(&world, "decided", 1).await?;
    let all = told(&world, "reminded").await?;

    assert_eq!(requested[0]["shown"], json!({"id": "1"}));
    assert_eq!(requested[0]["from"], json!(["ada", "finance"]));
    let link = requested[0]["link"].as_str().unwrap_or_default();
    assert!(link.contains("/approvals/"), "{link}");
    let mut numbers: Vec<u64> = reminded
        .iter()
        .filter_map(|it| it["number"].as_u64())
        .collect();
    numbers.sort_unstable();
    assert_eq!((numbers, all.len()), (vec![1, 2], 2));
    assert_eq!(decided[0]["approved"], true);
    assert_eq!(decided[0]["by"], "Grace (by link, unverified)");
    assert!(decided[0]["link"].is_null(), "what is over opens nothing");
    assert_eq!(end.state, RunState::Succeeded);
    Ok(())
}

#[tokio::test]
async fn the_end_of_a_run_withdraws_what_it_asked() -> Result<()> {
    let world = world_with("within: 1h, login: false").await?;
    let (run, view) = asked(&world, "1").await?;

    let id = world.namespace_id;
    world.engine.cancel(id, run, "over", "test").await?;
    let end = end(&world, run).await?;
    let late = decide(&world, &fresh(&world, view.wait).await?, &by_link(), true).await;

    assert_eq!(end.state, RunState::Cancelled);
    assert!(matches!(late, Err(DecideError::Unknown)), "{late:?}");
    Ok(())
}

#[tokio::test]
async fn a_link_alone_is_not_enough_unless_the_step_says_so() -> Result<()> {
    let world = world_with("within: 1h").await?;
    let (_, view) = asked(&world, "1").await?;

    let linked = decide(&world, &view, &by_link(), true).await;
    let by_token = decide(&world, &view, &token("x", &["finance"]), true).await;

    assert!(matches!(linked, Err(DecideError::NeedsLogin)), "{linked:?}");
    assert!(by_token.is_ok());
    Ok(())
}

/// Flows that take the events of approvals, one for each event.
async fn listen(world: &World) -> Result<()> {
    for name in ["requested", "reminded", "escalated", "decided"] {
        let source = format!(
            "flow: {name}\ntrigger:\n  event: {{ name: semel.approval.{name} }}\nsteps:\n  \
             - id: hear\n    function: input\nresult: input\n"
        );
        world.publish_source(&source).await?;
    }
    Ok(())
}

/// The event, as the flow that takes it got it.
async fn told(world: &World, name: &str) -> Result<Vec<Value>> {
    let filter = runs::RunFilter {
        flow: Some(name.to_owned()),
        ..runs::RunFilter::default()
    };
    let heard = runs::list(world.engine.cell().every(), world.namespace_id, &filter, 99).await?;
    let results = heard.items.iter().filter_map(|run| run.result.as_deref());
    Ok(results
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?)
}

async fn until_told(world: &World, name: &str, count: usize) -> Result<Vec<Value>> {
    let what = format!("{count} events named {name}");
    until(
        &what,
        async || told(world, name).await,
        |heard| heard.len() >= count,
    )
    .await
}
