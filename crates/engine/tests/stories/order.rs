//! Order: a delivery that is older than the newest of its object is recorded, and never applied.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use semel_engine::{Intake, IntakeError, StaleDelivery};
use semel_model::RunId;
use semel_model::run::RunState;
use semel_store::runs::RunSnapshot;
use semel_store::{object_versions, retention};
use semel_testkit::patience;
use serde_json::{Value, json};

use crate::overlap::{until, until_gates_are_empty};
use crate::world::World;

const FLOW: &str = "flow: story\ntrigger:\n  webhook:\n    auth: none\n    key: input.id\n\
    \x20   order: { object: input.object, version: input.version }\nkeep: 1h\nsteps:\n\
    \x20 - id: act\n    http: { post: 'PEER/hold/plain/act', json: { version: '${{ input.version }}' } }\n";

async fn start() -> Result<World> {
    let world = World::start().await?;
    let source = FLOW.replace("PEER", &world.peer.url(""));
    world.publish_source(&source).await?;
    Ok(world)
}

fn payload(object: &str, version: impl Into<Value>) -> String {
    let version = version.into();
    json!({ "id": format!("{object}/{version}"), "object": object, "version": version }).to_string()
}

async fn stale(world: &World, payload: &str) -> Result<StaleDelivery> {
    match world.try_deliver(payload).await? {
        Intake::Stale(stale) => Ok(*stale),
        other @ (Intake::Accepted(_) | Intake::Ignored | Intake::Held(_)) => {
            bail!("not stale: {other:?}")
        }
    }
}

async fn end(world: &World, run: RunId) -> Result<RunSnapshot> {
    let snapshot = world.engine.await_end(run, patience()).await?;
    snapshot.context("a run")
}

async fn let_one_go(world: &World) -> Result<()> {
    world.peer.until_held(1, patience()).await?;
    world.peer.let_go().await?;
    Ok(())
}

async fn applied(world: &World) -> Result<Vec<Value>> {
    let effects = world.peer.effects().await?;
    let read = |body: &str| -> Result<Value> {
        let body: Value = serde_json::from_str(body)?;
        Ok(body["version"].clone())
    };
    effects.iter().map(|effect| read(&effect.body)).collect()
}

#[tokio::test]
async fn a_delivery_that_is_older_than_what_was_accepted_is_recorded_only() -> Result<()> {
    let world = start().await?;

    let newest = world.deliver(&payload("a", 7)).await?;
    let_one_go(&world).await?;
    end(&world, newest.run).await?;
    let late = stale(&world, &payload("a", 6)).await?;
    stale(&world, &payload("a", 6)).await?;
    let other = world.deliver(&payload("b", 1)).await?;
    let again = world.deliver(&payload("a", 7)).await?;
    let_one_go(&world).await?;
    end(&world, other.run).await?;

    assert_eq!((late.version.as_str(), late.newest.as_str()), ("6", "7"));
    assert_eq!((late.object.as_str(), late.run), ("a", newest.run));
    assert_eq!((again.run, again.replayed), (newest.run, true));
    assert_eq!(applied(&world).await?, [json!(7), json!(1)]);
    let cell = world.engine.cell();
    let (every, id) = (cell.every(), world.namespace_id);
    let kept = object_versions::list_stale(every, id, (None, None), None, 10, true);
    let (kept, _) = kept.await?;
    assert_eq!(kept.len(), 1);
    assert_eq!(
        (kept[0].count, kept[0].key.as_slice()),
        (2, b"a/6".as_slice())
    );
    until_gates_are_empty(&world).await
}

#[tokio::test]
async fn a_repeat_of_an_older_version_that_was_accepted_gets_its_run() -> Result<()> {
    let world = start().await?;

    let first = world.deliver(&payload("a", 1)).await?;
    let_one_go(&world).await?;
    end(&world, first.run).await?;
    let second = world.deliver(&payload("a", 2)).await?;
    let_one_go(&world).await?;
    end(&world, second.run).await?;
    let again = world.deliver(&payload("a", 1)).await?;

    assert_eq!((again.run, again.replayed), (first.run, true));
    assert_eq!(again.state, RunState::Succeeded);
    assert_eq!(applied(&world).await?, [json!(1), json!(2)]);
    Ok(())
}

#[tokio::test]
async fn a_run_admitted_after_a_newer_version_was_accepted_does_nothing() -> Result<()> {
    let world = start().await?;

    let first = world.deliver(&payload("a", 1)).await?;
    world.peer.until_held(1, patience()).await?;
    let second = world.deliver(&payload("a", 2)).await?;
    until(&world, second.run, "gate_waiting").await?;
    let third = world.deliver(&payload("a", 3)).await?;
    until(&world, third.run, "gate_waiting").await?;
    let_one_go(&world).await?;
    end(&world, first.run).await?;
    let superseded = end(&world, second.run).await?;
    let_one_go(&world).await?;
    let newest = end(&world, third.run).await?;

    let fault: Value = serde_json::from_str(superseded.fault.as_deref().context("a fault")?)?;
    assert_eq!(superseded.state, RunState::Superseded);
    assert_eq!(fault["code"], "superseded");
    assert_eq!(newest.state, RunState::Succeeded);
    assert_eq!(applied(&world).await?, [json!(1), json!(3)]);
    until_gates_are_empty(&world).await
}

#[tokio::test]
async fn times_are_compared_as_instants_and_kinds_are_not_mixed() -> Result<()> {
    let world = start().await?;

    let newest = world.deliver(&payload("a", "2026-11-15T12:00:00Z")).await?;
    let_one_go(&world).await?;
    end(&world, newest.run).await?;
    let late = stale(&world, &payload("a", "2026-11-15T12:30:00+02:00")).await?;
    let mixed = world.try_deliver(&payload("a", 5)).await;
    let absent = world.try_deliver(r#"{"id":"x","object":"a"}"#).await;

    assert_eq!(late.newest, "2026-11-15T12:00:00Z");
    let Err(IntakeError::KeyFailed(reason)) = mixed else {
        bail!("not refused: {mixed:?}");
    };
    assert!(reason.contains("cannot be compared"), "{reason}");
    assert!(
        matches!(absent, Err(IntakeError::KeyFailed(_))),
        "{absent:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_version_expires_with_its_key() -> Result<()> {
    let world = start().await?;
    let first = world.deliver(&payload("a", 2)).await?;
    let_one_go(&world).await?;
    end(&world, first.run).await?;
    stale(&world, &payload("a", 1)).await?;

    world.move_clock(Duration::from_secs(3_900)).await?;
    retention::sweep(world.engine.cell().every()).await?;
    let later = world.deliver(&payload("a", 1)).await?;
    let_one_go(&world).await?;

    assert_eq!(end(&world, later.run).await?.state, RunState::Succeeded);
    let cell = world.engine.cell();
    let (every, id) = (cell.every(), world.namespace_id);
    let kept = object_versions::list_stale(every, id, (None, None), None, 10, true);
    let (kept, _) = kept.await?;
    assert!(kept.is_empty(), "{kept:?}");
    Ok(())
}
