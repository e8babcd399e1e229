//! Leases: a session holds exactly the runs that its process carries, whatever responses are lost.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use semel_engine::{SettleError, Settlement};
use semel_model::run::RunState;
use semel_store::effects;
use semel_testkit::peer::Behaviour;
use semel_testkit::{patience, until, until_some};

use crate::world::World;

/// Waits until a query counts so many. Not over the engine's own connections, whose answers may be lost.
async fn until_count(world: &World, query: &str, least: i64) -> Result<()> {
    let client = world.database().connect().await?;
    let look = async || -> Result<i64> { Ok(client.query_one(query, &[]).await?.get(0)) };
    until(query, look, |count| *count >= least).await?;
    Ok(())
}

#[tokio::test]
async fn a_lost_response_to_a_take_strands_no_run() -> Result<()> {
    let mut world = World::start().await?;
    world
        .publish("steps:\n  - { id: rest, wait: { for: 1h } }\n")
        .await?;
    let proxy = world.go_behind_a_proxy().await?;
    let mut runs = Vec::new();
    for number in 0..5 {
        let payload = format!(r#"{{"id":"{number}"}}"#);
        runs.push(world.deliver(&payload).await?.run);
    }

    let asleep = "SELECT count(*) FROM queue WHERE holder IS NULL AND stage = 'waiting'";
    until_count(&world, asleep, 5).await?;

    // A take commits, and its response never arrives.
    proxy.lose_every_answer("take", true);
    world.move_clock(Duration::from_secs(3_601)).await?;
    let taken = "SELECT count(*) FROM queue WHERE epoch > 1";
    until_count(&world, taken, 1).await?;
    proxy.lose_every_answer("take", false);
    let mut ends = Vec::new();
    for run in runs {
        let end = world.engine.await_end(run, patience()).await?;
        ends.push(end.context("a run")?.state);
    }

    assert_eq!(ends, [RunState::Succeeded; 5]);
    assert!(proxy.lost_answers("take") >= 1);
    Ok(())
}

#[tokio::test]
async fn an_operator_can_retry_after_an_unanswered_take() -> Result<()> {
    let mut world = World::start().await?;
    world
        .publish(
            "steps:\n  - id: call\n    http: { post: 'PEER/plain/x', json: { id: '${{ input.id }}' } }\n",
        )
        .await?;
    let behaviour = Behaviour::CloseWithoutAnswer;
    world.peer.next("/plain/", behaviour).await?;
    let (accepted, end) = world.play(r#"{"id":"1"}"#).await?;
    assert_eq!(end.state, RunState::InDoubt);
    let proxy = world.go_behind_a_proxy().await?;
    let cell = world.engine.cell();
    let namespace = world.namespace_id;
    let effect = effects::list_doubts(cell.every(), namespace, None, 10)
        .await?
        .items[0]
        .id;
    let happened = || Settlement::Happened {
        external_id: None,
        result: None,
        reason: "looked it up".to_owned(),
    };

    proxy.lose_answer("take one", 0);
    let first = world
        .engine
        .settle(namespace, effect, happened(), "test")
        .await;
    // Until the run is returned, a worker holds it.
    until_some("the run to be returned", async || {
        let again = world
            .engine
            .settle(namespace, effect, happened(), "test")
            .await;
        match again {
            Ok(()) => Ok(Some(())),
            Err(SettleError::Busy) => Ok(None),
            Err(error) => Err(error.into()),
        }
    })
    .await?;
    let end = world.engine.await_end(accepted.run, patience()).await?;

    assert!(
        matches!(first, Err(SettleError::Unavailable(_))),
        "{first:?}"
    );
    assert_eq!(end.context("a run")?.state, RunState::Succeeded);
    Ok(())
}

#[tokio::test]
async fn a_sender_that_hangs_up_strands_no_run() -> Result<()> {
    let mut world = World::start().await?;
    world
        .publish("steps:\n  - { id: word, function: '\"done\"' }\n")
        .await?;
    let proxy = world.go_behind_a_proxy().await?;

    // The answer to the commit is on its way when the request that started the run is dropped.
    proxy.hold_commits();
    tokio::select! {
        accepted = world.deliver(r#"{"id":"1"}"#) => bail!("it was answered: {accepted:?}"),
        committed = until_count(&world, "SELECT count(*) FROM runs", 1) => committed?,
    }
    proxy.resume();

    let again = world.deliver(r#"{"id":"1"}"#).await?;
    let end = world.engine.await_end(again.run, patience()).await?;
    assert!(again.replayed, "the first delivery made the run");
    assert_eq!(end.context("a run")?.state, RunState::Succeeded);
    Ok(())
}
