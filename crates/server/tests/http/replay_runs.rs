//! Replays over the API: preview, apply, repeat, and plans of many.

use anyhow::Result;
use semel_api::Code;
use semel_api::types::{
    ChangePlan, PlanReplay, PreviewReplay, Promote, PushFlow, Replay, RunStatus, StartRun,
};
use semel_model::event::Event;
use semel_model::{FlowName, ReplayPlanId, RunId};
use semel_testkit::waiting;

use crate::world::{World, patience_span, refused};

fn flow(fails: bool) -> String {
    let work = match fails {
        true => "fail: { code: broken, message: a mistake }",
        false => "function: '1'",
    };
    format!(
        "trigger: {{ api: {{}} }}\nsteps:\n  - {{ id: count, kv: {{ add: counted }} }}\n  \
         - {{ id: work, {work} }}\n"
    )
}

/// Publishes and promotes the release that works.
async fn fix(world: &World, name: &FlowName) -> Result<()> {
    let source = format!("flow: {name}\n{}", flow(false));
    world.client.push_flow(name, &PushFlow { source }).await?;
    let release = world.client.publish_flow(name, "fix").await?.body.release;
    let promote = Promote {
        release,
        override_reason: None,
    };
    world.client.promote_flow(name, &promote, "fixed").await?;
    Ok(())
}

async fn failed(world: &World, flow: &FlowName, key: &str) -> Result<RunId> {
    let start = StartRun {
        key: Some(key.to_owned()),
        ..StartRun::default()
    };
    let run = world.client.start_run(flow, &start, None).await?.body.run;
    let end = world.client.await_run(run, patience_span()).await?;
    assert_eq!(end.state, RunStatus::Failed, "{end:?}");
    Ok(run)
}

#[tokio::test]
async fn a_replay_is_previewed_applied_once_and_shown() -> Result<()> {
    let world = World::start().await?;
    let name = world.publish("orders", &flow(true)).await?;
    let run = failed(&world, &name, "o-1").await?;
    fix(&world, &name).await?;
    let client = &world.client;

    let shown = client
        .preview_replay(run, &PreviewReplay::default())
        .await?;
    let asked = Replay {
        digest: shown.digest.clone(),
        reason: Some("fixed".to_owned()),
        ..Replay::default()
    };
    let stale = Replay {
        digest: "0".repeat(32),
        ..asked.clone()
    };
    let stale = client.replay_run(run, &stale, "s").await;
    let first = client.replay_run(run, &asked, "a").await?;
    let again = client.replay_run(run, &asked, "a").await?;
    let anew = client.replay_run(run, &asked, "b").await?;
    let next = first.body.run;
    let end = client.await_run(next, patience_span()).await?;

    assert_eq!(refused(stale)?, Code::ReplayChanged);
    assert!(!first.replayed && again.replayed);
    assert_eq!((again.body.run, anew.body.run), (next, next));
    assert_eq!(end.state, RunStatus::Succeeded, "{end:?}");
    assert_eq!(shown.steps.len(), 1, "{shown:?}");
    let acts = client.get_run(run).await?.acts;
    assert_eq!(acts.len(), 1, "one replay, one record: {acts:?}");
    let older = client.preview_replay(run, &PreviewReplay::default()).await;
    assert_eq!(refused(older)?, Code::NotReplayable);
    let detail = client.get_run(next).await?;
    let row = &detail.journal[0].events[1].event;
    assert!(matches!(
        serde_json::from_value(row.clone())?,
        Event::Follows(followed) if followed.last == run
    ));
    Ok(())
}

async fn until(world: &World, plan: ReplayPlanId, state: &str) -> Result<()> {
    let look = async || Ok(world.client.get_replay_plan(plan).await?.state);
    waiting::until(&format!("the plan to be {state}"), look, |seen| {
        seen == state
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_plan_is_applied_and_its_runs_are_listed_with_their_outcome() -> Result<()> {
    let world = World::start().await?;
    let name = world.publish("orders", &flow(true)).await?;
    for key in ["o-1", "o-2", "o-3"] {
        failed(&world, &name, key).await?;
    }
    fix(&world, &name).await?;
    let client = &world.client;
    let asked = PlanReplay {
        flow: name,
        state: None,
        since: None,
        until: None,
        error: None,
        per_second: None,
        reason: Some("fixed".to_owned()),
    };

    let none = PlanReplay {
        error: Some("no-such-code".to_owned()),
        ..asked.clone()
    };
    let none = client.plan_replay(&none, "n").await;
    let plan = client.plan_replay(&asked, "p").await?.body;
    until(&world, plan.plan, "planned").await?;
    let change = ChangePlan::default();
    let early = client
        .change_replay_plan(plan.plan, "pause", &change, "e")
        .await;
    client
        .change_replay_plan(plan.plan, "apply", &change, "a")
        .await?;
    until(&world, plan.plan, "done").await?;

    assert_eq!(refused(none)?, Code::PlanInvalid);
    assert_eq!(refused(early)?, Code::PlanUnfit);
    let done = client.get_replay_plan(plan.plan).await?;
    assert_eq!(
        (done.runs, done.replayed, done.refused),
        (3, 3, 0),
        "{done:?}"
    );
    let runs = client
        .list_planned_runs(plan.plan, &Default::default())
        .await?;
    assert!(runs.items.iter().all(|it| it.next.is_some()), "{runs:?}");
    assert_eq!(
        client
            .list_replay_plans(&Default::default())
            .await?
            .items
            .len(),
        1
    );
    Ok(())
}
