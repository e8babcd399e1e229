//! Runs that wait for a business key which another run has.

use std::time::Duration;

use anyhow::{Context, Result};
use semel_engine::Settlement;
use semel_model::named_effect::{EffectName, EffectScope};
use semel_model::run::RunState;
use semel_model::{EffectId, Fingerprint, NamedEffectState, RunId, Span};
use semel_store::named_effects::{
    self, EffectAction, HolderView, NamedBegin, NamedBegun, NamedHolder,
};
use semel_store::pauses::PauseKind;
use semel_store::{effects, queue};
use semel_testkit::peer::Behaviour;
use semel_testkit::{patience, until};

use super::{FIRST, SECOND, becomes, end, id_of, journal_of, named, play, publish};
use crate::world::World;

/// Waits until a run says that it waits for a name.
pub(super) async fn waits(world: &World, run: RunId) -> Result<String> {
    let what = format!("{run} to wait for a name");
    until(
        &what,
        async || journal_of(world, run).await,
        |journal| journal.contains(r#""what":"waiting""#),
    )
    .await
}

#[tokio::test]
async fn a_run_waits_behind_the_holder_and_is_woken() -> Result<()> {
    let world = World::start().await?;
    publish(&world, "story", "namespace", "").await?;
    let hold = Behaviour::HoldBeforeAnswer;
    world.peer.next("/plain/", hold).await?;

    let first = world.deliver_to("story", FIRST).await?.run;
    world.peer.until_held(1, patience()).await?;
    let second = world.deliver_to("story", SECOND).await?.run;
    let journal = waits(&world, second).await?;
    // Whoever was told too early that the key is done would have heard it by then.
    world.pass_the_queue().await?;
    becomes(&world, "charge:o-1", Some(NamedEffectState::Pending)).await?;
    world.peer.let_go().await?;
    let (one, two) = (end(&world, first).await?, end(&world, second).await?);

    assert!(journal.contains(&first.to_string()), "{journal}");
    assert_eq!(one.state, RunState::Succeeded, "{one:?}");
    assert_eq!(two.state, RunState::Succeeded, "{two:?}");
    assert_eq!(world.peer.count("/plain/").await?.calls, 1);
    Ok(())
}

#[tokio::test]
async fn one_settlement_of_a_doubt_releases_both() -> Result<()> {
    let world = World::start().await?;
    publish(
        &world,
        "story",
        "namespace",
        "result: steps.charge.external_id\n",
    )
    .await?;
    let lost = Behaviour::CloseWithoutAnswer;
    world.peer.next("/plain/", lost).await?;

    let (first, doubt) = play(&world, "story", FIRST).await?;
    becomes(&world, "charge:o-1", Some(NamedEffectState::InDoubt)).await?;
    let second = world.deliver_to("story", SECOND).await?.run;
    waits(&world, second).await?;
    settle_as_happened(&world).await?;
    let (one, two) = (end(&world, first).await?, end(&world, second).await?);

    assert_eq!(doubt.state, RunState::InDoubt);
    assert_eq!(one.state, RunState::Succeeded, "{one:?}");
    assert_eq!(two.state, RunState::Succeeded, "{two:?}");
    assert_eq!(two.result.as_deref(), Some("\"ch_1\""));
    assert_eq!(world.peer.count("/plain/").await?.calls, 1);
    Ok(())
}

#[tokio::test]
async fn a_run_that_is_cancelled_while_it_waits_leaves_the_key_to_others() -> Result<()> {
    let world = World::start().await?;
    publish(&world, "story", "namespace", "").await?;
    let lost = Behaviour::CloseWithoutAnswer;
    world.peer.next("/plain/", lost).await?;
    play(&world, "story", FIRST).await?;
    let second = world.deliver_to("story", SECOND).await?.run;
    waits(&world, second).await?;

    let cell = world.engine.cell();
    queue::ask_cancel(cell.of(second), world.namespace_id, second).await?;
    let cancelled = end(&world, second).await?;

    assert_eq!(cancelled.state, RunState::Cancelled, "{cancelled:?}");
    let view = named(&world, "shared", "charge:o-1").await?;
    let view = view.context("a named effect")?;
    assert_eq!(
        view.state,
        NamedEffectState::InDoubt,
        "the first run's doubt stays"
    );
    assert!(!matches!(view.holder, HolderView::Run { run, .. } if run == second));
    Ok(())
}

#[tokio::test]
async fn a_wait_behind_a_key_ends_with_the_time_of_its_retries() -> Result<()> {
    let world = World::start().await?;
    publish(&world, "story", "namespace", "").await?;
    let lost = Behaviour::CloseWithoutAnswer;
    world.peer.next("/plain/", lost).await?;
    let (first, _) = play(&world, "story", FIRST).await?;
    let second = world.deliver_to("story", SECOND).await?.run;
    waits(&world, second).await?;

    world.move_clock(Duration::from_secs(7200)).await?;
    let look = async || end(&world, second).await;
    let stopped = until("the run to need review", look, |end| {
        end.state == RunState::NeedsReview
    })
    .await?;

    let fault = stopped.fault.unwrap_or_default();
    assert!(fault.contains("key-held"), "{fault}");
    assert!(fault.contains(&first.to_string()), "{fault}");
    let key = EffectId::named(id_of("shared", "charge:o-1")?, 0);
    let line = format!("semel doubt settle {key} ");
    assert!(fault.contains(&line), "the line to type: {fault}");
    Ok(())
}

#[tokio::test]
async fn a_wait_behind_a_key_stands_still_while_its_flow_is_paused() -> Result<()> {
    let world = World::start().await?;
    publish(&world, "story", "namespace", "").await?;
    let lost = Behaviour::CloseWithoutAnswer;
    world.peer.next("/plain/", lost).await?;
    play(&world, "story", FIRST).await?;
    becomes(&world, "charge:o-1", Some(NamedEffectState::InDoubt)).await?;
    let second = world.deliver_to("story", SECOND).await?.run;
    waits(&world, second).await?;
    let flow = (PauseKind::Flow, "story");

    world.engine.pause(world.by(), flow, "a long night").await?;
    world.move_clock(Duration::from_secs(7200)).await?;
    let client = world.database().connect().await?;
    let held = "SELECT count(*) FROM paused_runs WHERE run_id = $1";
    let look =
        async || -> Result<i64> { Ok(client.query_one(held, &[second.as_uuid()]).await?.get(0)) };
    until("the run to sleep for the pause", look, |held| *held == 1).await?;
    let resumed = world.engine.resume_paused(world.by(), flow, None, None);
    resumed.await?;
    let look = async || journal_of(&world, second).await;
    let deferred = |journal: &String| journal.contains(r#""event":"deferred""#);
    until("the wait to be deferred", look, deferred).await?;
    settle_as_happened(&world).await?;
    let end = end(&world, second).await?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(world.peer.count("/plain/").await?.calls, 1);
    Ok(())
}

/// An operator saw the effect of the only doubt at the destination.
async fn settle_as_happened(world: &World) -> Result<()> {
    let cell = world.engine.cell().every();
    let doubts = effects::list_doubts(cell, world.namespace_id, None, 10).await?;
    let doubt = doubts.items.first().context("a doubt")?.id;
    let settlement = Settlement::Happened {
        external_id: Some("ch_1".to_owned()),
        result: Some(serde_json::json!({ "id": "ch_1" })),
        reason: "seen".to_owned(),
    };
    let settled = world
        .engine
        .settle(world.namespace_id, doubt, settlement, "test");
    settled.await?;
    Ok(())
}

/// What a worker does that was paused before it began the named effect of a run.
pub(super) async fn begin_late(world: &World, run: RunId) -> Result<()> {
    let id = id_of("shared", "charge:o-1")?;
    let late = NamedBegin {
        id,
        namespace_id: world.namespace_id,
        name: EffectName::new(EffectScope::Shared, *b"charge:o-1")?,
        action: EffectAction {
            kind: "http".to_owned(),
            destination: String::new(),
            method: "POST".to_owned(),
        },
        fingerprint: Fingerprint::of(&serde_json::json!(1)),
        holder: NamedHolder::Run {
            run,
            step: "charge".to_owned(),
            item: String::new(),
            generation: 0,
        },
        keep: Span::from_secs(60),
        accepts_other: false,
        seq: Some(2),
        renews: false,
        endless: false,
    };
    let begun = named_effects::begin(world.engine.cell().of(id), &late).await?;
    anyhow::ensure!(matches!(begun, NamedBegun::First(_)), "{begun:?}");
    Ok(())
}

#[tokio::test]
async fn a_hold_that_a_late_worker_began_for_an_ended_run_is_freed() -> Result<()> {
    let world = World::start().await?;
    publish(&world, "story", "namespace", "").await?;
    let (ended, _) = play(&world, "story", r#"{"id":"0","order":"o-0","cents":5}"#).await?;
    begin_late(&world, ended).await?;
    let run = world.deliver_to("story", FIRST).await?.run;
    waits(&world, run).await?;

    world.move_clock(Duration::from_secs(90)).await?;
    let end = end(&world, run).await?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(world.peer.count("/plain/").await?.calls, 2);
    Ok(())
}

#[tokio::test]
async fn a_hold_that_a_late_worker_began_for_a_run_in_doubt_is_in_doubt_again() -> Result<()> {
    let world = World::start().await?;
    publish(&world, "story", "namespace", "").await?;
    let lost = Behaviour::CloseWithoutAnswer;
    world.peer.next("/plain/", lost).await?;
    let ended = super::settling::given_up(&world).await?;
    begin_late(&world, ended).await?;
    becomes(&world, "charge:o-1", Some(NamedEffectState::Pending)).await?;
    let run = world.deliver_to("story", SECOND).await?.run;
    waits(&world, run).await?;

    world.move_clock(Duration::from_secs(90)).await?;
    becomes(&world, "charge:o-1", Some(NamedEffectState::InDoubt)).await?;

    let state = world.engine.await_end(run, Duration::ZERO).await?;
    let state = state.context("a run")?.state;
    assert_eq!(state, RunState::Active, "it waits for the doubt");
    assert_eq!(world.peer.count("/plain/").await?.calls, 1);
    Ok(())
}
