//! Undoing an effect that other runs reused.

use std::time::Duration;

use anyhow::Result;
use semel_engine::{SettleError, Settlement};
use semel_model::event::StepVerb;
use semel_model::run::RunState;
use semel_model::{EffectId, NamedEffectState, RunId};
use semel_store::{runs, waits};
use semel_testkit::peer::Behaviour;
use semel_testkit::{until, until_some};
use serde_json::json;

use super::settling::{happened, key_sent, settle};
use super::{FIRST, SECOND, becomes, end, journal_of, play, publish};
use crate::world::World;

/// A flow that makes the effect, waits, and fails.
async fn publish_failing(world: &World, flow: &str, more: &str) -> Result<()> {
    let undo = "    undo: { http: { post: 'PEER/plain/refunds' } }\n";
    let fail = "\x20 - { id: go, wait: { callback: true, within: 30d } }\n\x20 - id: over\n    \
                fail: { code: over, message: 'no more' }\non_failure: undo\n";
    publish(world, flow, "namespace", &format!("{more}{undo}{fail}")).await
}

/// Lets a run go on that waits for its callback.
async fn let_go(world: &World, run: RunId) -> Result<()> {
    let (cell, id) = (world.engine.cell().of(run), world.namespace_id);
    let wait = until_some("a wait", async || {
        let open = waits::list_of_run(cell, id, run, false, None, 1).await?;
        Ok(open.items.into_iter().next())
    })
    .await?;
    world
        .engine
        .complete_wait(id, wait.id, json!(1), "test")
        .await?;
    Ok(())
}

pub(super) async fn comes_to(world: &World, run: RunId, state: RunState) -> Result<()> {
    let look = async || {
        let found = runs::find(world.engine.cell().of(run), world.namespace_id, run).await?;
        Ok(found.map(|view| view.state))
    };
    until(&format!("{run} to be {state}"), look, |seen| {
        *seen == Some(state)
    })
    .await?;
    Ok(())
}

/// The maker of an effect that another run reused, after the maker failed.
async fn shared(world: &World, more: &str) -> Result<(RunId, RunId)> {
    publish_failing(world, "making", more).await?;
    publish(world, "using", "namespace", "").await?;
    let maker = world.deliver_to("making", FIRST).await?.run;
    becomes(world, "charge:o-1", Some(NamedEffectState::Done)).await?;
    let (user, used) = play(world, "using", SECOND).await?;
    anyhow::ensure!(used.state == RunState::Succeeded, "{used:?}");
    let_go(world, maker).await?;
    Ok((maker, user))
}

#[tokio::test]
async fn an_effect_that_others_reused_is_not_undone_before_an_operator_has_decided() -> Result<()> {
    let world = World::start().await?;
    let (maker, user) = shared(&world, "").await?;

    comes_to(&world, maker, RunState::NeedsReview).await?;
    let journal = journal_of(&world, maker).await?;
    let id = world.namespace_id;
    world.engine.resume(id, maker, "leave it", "test").await?;
    let end = end(&world, maker).await?;

    assert!(journal.contains(&user.to_string()), "{journal}");
    assert!(journal.contains("key-reused"), "{journal}");
    assert_eq!(end.state, RunState::Failed, "{end:?}");
    assert_eq!(world.peer.count("/plain/refunds").await?.calls, 0);
    becomes(&world, "charge:o-1", Some(NamedEffectState::Done)).await
}

#[tokio::test]
async fn an_effect_that_others_reused_is_undone_where_its_step_says_always() -> Result<()> {
    let world = World::start().await?;
    let (maker, _) = shared(&world, "    undo_shared: always\n").await?;

    let end = end(&world, maker).await?;

    assert_eq!(end.state, RunState::Failed, "{end:?}");
    assert_eq!(world.peer.count("/plain/refunds").await?.calls, 1);
    becomes(&world, "charge:o-1", None).await
}

/// A run whose effect an operator had undone: the answer was lost, and an operator gave the doubt up.
async fn undone_in_doubt(world: &World) -> Result<RunId> {
    let undo = "    undo: { http: { post: 'PEER/plain/refunds' } }\n";
    publish(world, "story", "namespace", undo).await?;
    let (run, made) = play(world, "story", FIRST).await?;
    anyhow::ensure!(made.state == RunState::Succeeded, "{made:?}");
    becomes(world, "charge:o-1", Some(NamedEffectState::Done)).await?;
    let lost = Behaviour::CloseWithoutAnswer;
    world.peer.next("/plain/refunds", lost).await?;
    let effect = |step| EffectId::derive(run, step, "", 0);
    let (engine, by) = (&world.engine, world.by());
    engine
        .perform_for_operator(by, effect("charge"), StepVerb::Undo, "a mistake")
        .await?;
    comes_to(world, run, RunState::InDoubt).await?;
    let fail = Settlement::Fail {
        reason: "nobody knows".to_owned(),
    };
    settle(world, effect("charge.undo"), fail).await?;
    comes_to(world, run, RunState::Succeeded).await?;
    becomes(world, "charge:o-1", Some(NamedEffectState::InDoubt)).await?;
    Ok(run)
}

/// To say that it stands is to say that its undo did not happen.
#[tokio::test]
async fn an_effect_is_not_said_to_stand_while_its_undo_may_still_arrive() -> Result<()> {
    let world = World::start().await?;
    undone_in_doubt(&world).await?;
    let stands = || happened(Some(json!({ "id": "ch_1" })));

    let early = settle(&world, key_sent()?, stands()).await;
    world.move_clock(Duration::from_secs(600)).await?;
    let say = async || -> Result<Option<()>> {
        match settle(&world, key_sent()?, stands()).await {
            Ok(()) => Ok(Some(())),
            Err(SettleError::TooSoon { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    };
    until_some("a settlement that is in time", say).await?;

    assert!(
        matches!(early, Err(SettleError::TooSoon { .. })),
        "{early:?}"
    );
    becomes(&world, "charge:o-1", Some(NamedEffectState::Done)).await
}
