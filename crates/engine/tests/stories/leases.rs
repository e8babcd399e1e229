//! Leases: a session holds exactly the runs that its process carries, whatever responses are lost.

use std::time::Duration;

use anyhow::{Context, Result};
use semel_engine::{SettleError, Settlement};
use semel_model::run::RunState;
use semel_store::effects;
use semel_testkit::peer::Behaviour;
use semel_testkit::{Stopwatch, patience};

use crate::world::{World, soon};

/// The lease of every world, and two seconds.
const LIVENESS: Duration = Duration::from_secs(5);

/// How many runs were taken.
async fn taken(world: &World) -> Result<i64> {
    let client = world.engine.cell().reader().await?;
    let taken = "SELECT count(*) FROM queue WHERE epoch > 1";
    Ok(client.query_one(taken, &[]).await?.get(0))
}

#[tokio::test]
async fn a_lost_response_to_a_take_strands_no_run() -> Result<()> {
    let mut world = World::start().await?;
    world
        .publish("steps:\n  - { id: rest, wait: { for: 2s } }\n")
        .await?;
    let proxy = world.go_behind_a_proxy().await?;
    let mut runs = Vec::new();
    for number in 0..5 {
        let payload = format!(r#"{{"id":"{number}"}}"#);
        runs.push(world.deliver(&payload).await?.run);
    }

    // A take commits, and its response never arrives.
    proxy.lose_every_answer("take", true);
    soon(async || Ok((taken(&world).await? > 0).then_some(()))).await?;
    proxy.lose_every_answer("take", false);
    let healed = Stopwatch::start();
    let mut ends = Vec::new();
    for run in runs {
        let end = world.engine.await_end(run, patience()).await?;
        ends.push(end.context("a run")?.state);
    }

    assert_eq!(ends, [RunState::Succeeded; 5]);
    let took = healed.elapsed();
    assert!(took < LIVENESS, "it took {took:?}");
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
    let healed = Stopwatch::start();
    // Until the run is returned, a worker holds it.
    soon(async || {
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
    let took = healed.elapsed();
    let end = world.engine.await_end(accepted.run, patience()).await?;

    assert!(
        matches!(first, Err(SettleError::Unavailable(_))),
        "{first:?}"
    );
    assert!(took < LIVENESS, "it took {took:?}");
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

    // The commit is in progress when the request that would have started the run is dropped.
    proxy.hold_commits();
    let hung_up = tokio::time::timeout(Duration::from_millis(300), world.deliver(r#"{"id":"1"}"#));
    assert!(hung_up.await.is_err());
    proxy.resume();

    let again = world.deliver(r#"{"id":"1"}"#).await?;
    let end = world.engine.await_end(again.run, LIVENESS).await?;
    assert!(again.replayed, "the first delivery made the run");
    assert_eq!(end.context("a run")?.state, RunState::Succeeded);
    Ok(())
}
