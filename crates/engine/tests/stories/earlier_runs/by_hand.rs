//! One done effect, undone or performed again by an operator.

use anyhow::{Context, Result, bail};
use semel_engine::OperatorStepError;
use semel_model::event::StepVerb;
use semel_model::run::RunState;
use semel_testkit::patience;
use semel_testkit::peer::Behaviour;

use super::{CHARGE, SHIP, drop_key, keys, publish};
use crate::world::World;

const REFUND: &str = "\x20   undo: { http: { put: 'PEER/put/refunds/${{ steps.charge.external_id }}', json: {} } }\n";

async fn by_hand(world: &World, effect: semel_model::EffectId, verb: StepVerb) -> Result<RunState> {
    let by = world.by();
    let engine = &world.engine;
    let run = engine
        .perform_for_operator(by, effect, verb, "the customer asked")
        .await?;
    let end = engine.await_end(run, patience()).await?;
    Ok(end.context("a run")?.state)
}

/// Why the effect does not allow what was asked.
fn unfit(done: Result<RunState>) -> Result<String> {
    match done.map_err(|error| error.downcast::<OperatorStepError>()) {
        Err(Ok(OperatorStepError::Unfit(message))) => Ok(message),
        other => bail!("{other:?}"),
    }
}

#[tokio::test]
async fn an_operator_undoes_and_redoes_one_effect() -> Result<()> {
    let world = World::start().await?;
    publish(
        &world,
        "",
        &format!("{CHARGE}{REFUND}{SHIP}result: steps.charge.external_id\n"),
    )
    .await?;
    let (first, end) = world.play(r#"{"id":"o-1","to":"x"}"#).await?;
    let key = |generation| semel_model::EffectId::derive(first.run, "charge", "", generation);

    let undone = by_hand(&world, key(0), StepVerb::Undo).await?;
    let twice = by_hand(&world, key(0), StepVerb::Undo).await;
    let redone = by_hand(&world, key(0), StepVerb::Redo).await?;
    let again = by_hand(&world, key(0), StepVerb::Redo).await;

    assert_eq!((undone, redone), (RunState::Succeeded, RunState::Succeeded));
    assert_eq!(unfit(twice)?, "it is undone already");
    assert_eq!(
        unfit(again)?,
        format!("what is done at its step is {}", key(1))
    );
    let sent = keys(&world, "/plain/charges").await?;
    assert_eq!(sent, [key(0).to_string(), key(1).to_string()]);
    assert_eq!(world.peer.count("/put/refunds").await?.calls, 1);
    assert_eq!(world.peer.count("/plain/parcels").await?.calls, 1);
    let after = semel_store::runs::find_snapshot(world.engine.cell().of(first.run), first.run);
    let after = after.await?.context("the run")?;
    assert_eq!(after.result, end.result, "the run ended as it had ended");
    // The next run of the key reuses the second charge.
    drop_key(&world, "o-1", false).await?;
    world.play(r#"{"id":"o-1","to":"x"}"#).await?;
    assert_eq!(world.peer.count("/plain/charges").await?.calls, 2);
    Ok(())
}

#[tokio::test]
async fn an_effect_that_is_redone_and_refused_leaves_the_run_as_it_was() -> Result<()> {
    let world = World::start().await?;
    publish(&world, "", &format!("{CHARGE}{REFUND}result: '7'\n")).await?;
    let (first, _) = world.play(r#"{"id":"o-1"}"#).await?;
    let effect = semel_model::EffectId::derive(first.run, "charge", "", 0);
    world
        .peer
        .next("/plain/charges", Behaviour::RefuseWith(403))
        .await?;

    let end = by_hand(&world, effect, StepVerb::Redo).await?;
    let next = semel_model::EffectId::derive(first.run, "charge", "", 1);
    let refused = by_hand(&world, next, StepVerb::Redo).await;
    let again = by_hand(&world, effect, StepVerb::Redo).await?;

    assert_eq!((end, again), (RunState::Succeeded, RunState::Succeeded));
    // The first one is what is done.
    assert_eq!(
        unfit(refused)?,
        format!("what is done at its step is {effect}")
    );
    let last = semel_model::EffectId::derive(first.run, "charge", "", 2);
    let sent = keys(&world, "/plain/charges").await?;
    assert_eq!(sent, [effect.to_string(), last.to_string()]);
    Ok(())
}

#[tokio::test]
async fn what_was_done_stays_done_when_its_redo_is_refused() -> Result<()> {
    let world = World::start().await?;
    publish(&world, "", &format!("{CHARGE}{REFUND}result: '7'\n")).await?;
    let (first, _) = world.play(r#"{"id":"o-1"}"#).await?;
    let effect = semel_model::EffectId::derive(first.run, "charge", "", 0);
    let refuse = Behaviour::RefuseWith(403);
    world.peer.next("/plain/charges", refuse).await?;
    by_hand(&world, effect, StepVerb::Redo).await?;

    drop_key(&world, "o-1", false).await?;
    let (_, end) = world.play(r#"{"id":"o-1"}"#).await?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(keys(&world, "/plain/charges").await?, [effect.to_string()]);
    Ok(())
}

#[tokio::test]
async fn what_would_not_be_performed_again_is_refused() -> Result<()> {
    let world = World::start().await?;
    let named = CHARGE.replace("guard: review", "key: input.id\n    guard: review");
    publish(&world, "", &named).await?;
    let (first, _) = world.play(r#"{"id":"o-1"}"#).await?;
    let effect = semel_model::EffectId::derive(first.run, "charge", "", 0);

    let under_a_key = by_hand(&world, effect, StepVerb::Redo).await;
    drop_key(&world, "o-1", false).await?;
    let (later, _) = world.play(r#"{"id":"o-1"}"#).await?;
    let of_an_earlier_run = by_hand(&world, effect, StepVerb::Redo).await;

    let refused = |answer: Result<RunState>| answer.expect_err("it is refused").to_string();
    assert!(refused(under_a_key).contains("once per business key"));
    assert!(refused(of_an_earlier_run).contains(&later.run.to_string()));
    assert_eq!(world.peer.count("/plain/charges").await?.calls, 1);
    Ok(())
}
