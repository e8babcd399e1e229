//! Replays of many runs, by a plan.

use anyhow::Result;
use semel_engine::{JobMaker, PlanWish};
use semel_model::TokenId;
use semel_model::run::RunState;
use semel_store::replay_plans::{self, PlanChange};
use semel_testkit::{until, until_some};

use crate::replays::{post, publish, refuse};
use crate::world::World;

#[tokio::test]
async fn a_plan_previews_its_runs_and_two_servers_replay_each_once() -> Result<()> {
    let world = World::start().await?;
    let other = world.start_another().await?;
    let flow = |bug: &str| [post("a", "n: 1"), post("b", bug)];
    publish(&world, &flow("amount: 0")).await?;
    for number in 0..12 {
        refuse(&world, "/plain/b").await?;
        world.play(&format!(r#"{{"id":"o-{number}"}}"#)).await?;
    }
    publish(&world, &flow("amount: 7")).await?;
    let wish = PlanWish {
        flow: "story".parse()?,
        state: RunState::Failed,
        since: None,
        until: None,
        code: None,
        per_second: 10,
        reason: Some("fixed".to_owned()),
    };

    let by = JobMaker::unchecked("test");
    let plan = world.engine.plan_replay(world.namespace_id, &wish, by);
    let plan = plan.await?;
    let home = || world.engine.cell().home();
    let reaches = async |state: &str| {
        until_some(&format!("a plan that is {state}"), async || {
            let view = replay_plans::find(home(), world.namespace_id, plan).await?;
            Ok(view.filter(|view| view.state == state))
        })
        .await
    };
    reaches("planned").await?;
    let summaries = replay_plans::list_summaries(home(), plan).await?;
    let apply = (PlanChange::Apply { per_second: None }, None);
    for engine in [&world.engine, &other] {
        engine
            .change_plan(world.namespace_id, plan, apply, by)
            .await?;
    }
    let done = reaches("done").await?;

    assert_eq!(summaries.len(), 1, "{summaries:?}");
    assert_eq!(
        summaries[0].summary.as_deref(),
        Some("1 skipped, 1 performed")
    );
    assert_eq!((done.run_count, done.replayed_count), (12, 12), "{done:?}");
    let calls = async || Ok(world.peer.count("/plain/b").await?.calls);
    until("every run to call", calls, |calls| *calls == 24).await?;
    assert_eq!(world.peer.count("/plain/a").await?.calls, 12);
    other.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn a_plan_stops_and_says_why_where_its_token_does_not_exist_any_more() -> Result<()> {
    let world = World::start().await?;
    publish(&world, &[post("a", "n: 1")]).await?;
    refuse(&world, "/plain/a").await?;
    world.play(r#"{"id":"o-1"}"#).await?;
    let wish = PlanWish {
        flow: "story".parse()?,
        state: RunState::Failed,
        since: None,
        until: None,
        code: None,
        per_second: 10,
        reason: None,
    };
    let by = JobMaker {
        actor: "token:ci",
        token: Some(TokenId::from_uuid(uuid::Uuid::now_v7())),
    };

    let plan = world.engine.plan_replay(world.namespace_id, &wish, by);
    let plan = plan.await?;
    let home = || world.engine.cell().home();
    let stopped = until_some("the plan to stop", async || {
        let view = replay_plans::find(home(), world.namespace_id, plan).await?;
        Ok(view.filter(|view| view.state == "stopped"))
    })
    .await?;

    let why = stopped.stopped_because.unwrap_or_default();
    assert_eq!(why, "token:ci does not exist any more");
    assert_eq!(stopped.previewed_count, 0);
    Ok(())
}
