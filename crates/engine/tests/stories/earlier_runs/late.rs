//! A response that comes after a later run of the key has taken the doubt over.

use anyhow::{Context as _, Result};
use semel_engine::Settlement;
use semel_model::run::RunState;
use semel_model::{EffectId, RunId};
use semel_store::effects;
use semel_store::late_responses::{self, LateResponse};
use semel_testkit::peer::Behaviour;
use semel_testkit::{patience, until_some};
use serde_json::json;

use super::{CHARGE, drop_key, publish};
use crate::world::World;

/// The first doubt that there is: its effect, and the run that stands at it.
async fn doubt(world: &World) -> Result<(EffectId, RunId)> {
    let cell = world.engine.cell().every();
    until_some("a doubt", async || {
        let doubts = effects::list_doubts(cell, world.namespace_id, None, 10).await?;
        Ok(doubts.items.into_iter().next().map(|it| (it.id, it.run)))
    })
    .await
}

/// Leaves an effect in doubt, gives it up, and frees its key.
async fn give_up(world: &World) -> Result<(EffectId, RunId)> {
    let step = CHARGE.replace("    external_id: result.id\n", "");
    publish(world, "", &step).await?;
    let lost = Behaviour::CloseWithoutAnswer;
    world.peer.next("/plain/", lost).await?;
    world.deliver(r#"{"id":"1"}"#).await?;
    let (effect, run) = doubt(world).await?;
    let reason = "not worth it".to_owned();
    let settled = Settlement::Fail { reason };
    let (engine, id) = (&world.engine, world.namespace_id);
    engine.settle(id, effect, settled, "test").await?;
    engine.await_end(run, patience()).await?.context("a run")?;
    drop_key(world, "1", false).await?;
    Ok((effect, run))
}

/// The response comes to the worker of the first run.
async fn answer_late(world: &World, (effect, run): (EffectId, RunId)) -> Result<()> {
    let late = LateResponse {
        effect,
        attempt: 1,
        response: json!({ "status": 201, "headers": {} }),
    };
    late_responses::record_late_response(world.engine.cell().of(run), run, 1, &late).await?;
    Ok(())
}

#[tokio::test]
async fn a_late_response_settles_a_doubt_that_a_later_run_has_taken_over() -> Result<()> {
    let world = World::start().await?;
    let given_up = give_up(&world).await?;
    world.deliver(r#"{"id":"1"}"#).await?;
    let taken_over = doubt(&world).await?;
    world.until_at_rest(taken_over.1).await?;

    answer_late(&world, given_up).await?;
    let end = until_some("the later run to end", async || {
        let snapshot = world.engine.await_end(taken_over.1, patience()).await?;
        Ok(snapshot.filter(|it| it.state.is_ended()))
    })
    .await?;

    assert_eq!(taken_over.0, given_up.0, "the same effect");
    assert_ne!(taken_over.1, given_up.1, "of another run");
    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(world.peer.count("/plain/").await?.calls, 1);
    Ok(())
}

#[tokio::test]
async fn a_later_run_reads_what_came_late_to_the_run_before_it() -> Result<()> {
    let world = World::start().await?;
    let given_up = give_up(&world).await?;
    answer_late(&world, given_up).await?;

    let (later, end) = world.play(r#"{"id":"1"}"#).await?;

    assert_ne!(later.run, given_up.1);
    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(world.peer.count("/plain/").await?.calls, 1);
    Ok(())
}

/// Nothing wakes the item by itself: the run that sent the request is over, and the doubt is nobody's at that moment.
#[tokio::test]
async fn an_item_that_comes_to_a_doubt_after_its_late_response_settles_it() -> Result<()> {
    let world = World::start().await?;
    let items = "\x20 - id: each\n    foreach:\n      in: input.items\n      key: item\n      steps:\n        \
        - { id: look, http: { get: 'PEER/hold/list/1' } }\n        \
        - { id: pay, guard: review, http: { post: 'PEER/plain/pay', json: { item: '${{ item }}' } } }\n";
    publish(&world, "", items).await?;
    let lost = Behaviour::CloseWithoutAnswer;
    world.peer.next("/plain/", lost).await?;
    let order = r#"{"id":"1","items":["a"]}"#;
    let first = world.deliver(order).await?;
    world.peer.until_held(1, patience()).await?;
    world.peer.let_go().await?;
    let given_up = doubt(&world).await?;
    let reason = "not worth it".to_owned();
    let (engine, id) = (&world.engine, world.namespace_id);
    engine
        .settle(id, given_up.0, Settlement::Fail { reason }, "test")
        .await?;
    engine
        .await_end(first.run, patience())
        .await?
        .context("a run")?;
    drop_key(&world, "1", false).await?;

    let later = world.deliver(order).await?;
    // Its item has looked for late responses, and not come to the doubt.
    world.peer.until_held(1, patience()).await?;
    answer_late(&world, given_up).await?;
    world.peer.let_go().await?;
    let end = until_some("the later run to end", async || {
        let snapshot = engine.await_end(later.run, patience()).await?;
        Ok(snapshot.filter(|it| it.state.is_ended()))
    })
    .await?;

    assert_ne!(later.run, first.run);
    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(world.peer.count("/plain/").await?.calls, 1);
    Ok(())
}
