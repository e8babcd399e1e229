//! Runs that need an operator: their events, and how they are resumed.

use anyhow::{Context, Result};
use semel_engine::Settlement;
use semel_model::event::{DoubtPlan, Event};
use semel_model::run::RunState;
use semel_model::{Doubt, EffectId, RunId, Span, effect};
use semel_store::late_responses::{self, LateResponse};
use semel_store::{effects, runs};
use semel_testkit::peer::Behaviour;
use semel_testkit::{patience, until as until_true, until_some};
use serde_json::{Value, json};

use crate::world::World;

const CALL: &str =
    "steps:\n  - id: call\n    http: { post: PEER/plain/x, text: hi }\nresult: steps.call.status\n";

/// A flow that notes every run whose event says that it needs an operator.
const WATCH: &str = "flow: watch\ntrigger:\n  event: { name: semel.run.stopped }\nsteps:\n  - id: note\n    \
    kv: { set: 'stopped/${{ input.key }}', value: '${{ input }}' }\n";

async fn told(world: &World, key: &str) -> Result<Value> {
    let entry = format!("stopped/{key}");
    let what = format!("the event of {key}");
    until_true(
        &what,
        async || world.kv(&entry).await,
        |told| !told.is_null(),
    )
    .await
}

async fn until(world: &World, run: RunId, state: RunState) -> Result<()> {
    let look = async || {
        let view = runs::find(world.engine.cell().of(run), world.namespace_id, run).await?;
        Ok(view.context("a run")?.state)
    };
    let what = format!("{run} to become {state}");
    until_true(&what, look, |seen| *seen == state).await?;
    Ok(())
}

/// Takes a waiting run as if this many workers had taken it without progress.
async fn take_after(world: &World, run: RunId, takes: i16) -> Result<()> {
    let text = "UPDATE queue SET stalled_takes = $2, due_at = moment() WHERE run_id = $1 AND holder IS NULL";
    let client = world.database().connect().await?;
    let change = async || Ok(client.execute(text, &[run.as_uuid(), &takes]).await?);
    until_true("the run to be free", change, |rows| *rows == 1).await?;
    Ok(())
}

const WAITING: &str =
    "steps:\n  - { id: go, wait: { callback: true, within: 30d } }\nresult: '\"through\"'\n";

/// The wait of a run, once the run has come to it.
async fn wait_of(world: &World, run: RunId) -> Result<semel_model::WaitId> {
    let wait = until_some("the run to wait", async || {
        let (cell, namespace_id) = (world.engine.cell(), world.namespace_id);
        let open = semel_store::waits::list_of_run(cell.of(run), namespace_id, run, false, None, 1)
            .await?
            .items;
        Ok(open.into_iter().next())
    })
    .await?;
    Ok(wait.id)
}

#[tokio::test]
async fn a_flow_can_take_the_events_of_stopped_runs() -> Result<()> {
    let world = World::start().await?;
    world.publish_source(WATCH).await?;
    world.publish(CALL).await?;

    let lost = Behaviour::CloseWithoutAnswer;
    world.peer.next("/plain/", lost).await?;
    let (doubted, _) = world.play(r#"{"id":"doubt"}"#).await?;
    let busy = Behaviour::RefuseWith(429);
    world.peer.next_times("/plain/", 3, busy).await?;
    let (gave_up, _) = world.play(r#"{"id":"give-up"}"#).await?;
    world.publish(WAITING).await?;
    let stuck = world.deliver(r#"{"id":"stuck"}"#).await?;
    wait_of(&world, stuck.run).await?;
    take_after(&world, stuck.run, 5).await?;

    let expected = [
        (doubted.run, "doubt", "in_doubt"),
        (gave_up.run, "give-up", "needs_review"),
        (stuck.run, "stuck", "quarantined"),
    ];
    for (run, key, state) in expected {
        let told = told(&world, key).await?;
        assert_eq!(told["run"], json!(run.to_string()), "{told}");
        assert_eq!(told["flow"], json!("story"), "{told}");
        assert_eq!(told["state"], json!(state), "{told}");
        assert!(told["code"].is_string(), "{told}");
    }
    Ok(())
}

#[tokio::test]
async fn a_run_taken_five_times_without_progress_is_quarantined_until_resumed() -> Result<()> {
    let world = World::start().await?;
    world.publish(WAITING).await?;
    let fine = world.deliver(r#"{"id":"fine"}"#).await?.run;
    let stuck = world.deliver(r#"{"id":"stuck"}"#).await?.run;
    let waits = [wait_of(&world, fine).await?, wait_of(&world, stuck).await?];

    take_after(&world, fine, 4).await?;
    take_after(&world, stuck, 5).await?;
    until(&world, stuck, RunState::Quarantined).await?;
    let fault = runs::find(world.engine.cell().of(stuck), world.namespace_id, stuck).await?;
    let fault = fault.and_then(|run| run.fault).unwrap_or_default();
    let resumed = world
        .engine
        .resume(world.namespace_id, stuck, "looked at it", "test");
    resumed.await?;
    for wait in waits {
        let completed = world
            .engine
            .complete_wait(world.namespace_id, wait, json!(1), "test");
        completed.await?;
    }

    assert!(fault.contains("no-progress"), "{fault}");
    for run in [fine, stuck] {
        until(&world, run, RunState::Succeeded).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_run_that_needs_review_is_resumed_and_succeeds_under_the_same_key() -> Result<()> {
    let world = World::start().await?;
    world.publish(&CALL.replace("plain", "keyed")).await?;
    let busy = Behaviour::RefuseWith(429);
    world.peer.next_times("/keyed/", 3, busy).await?;
    let (accepted, stopped) = world.play(r#"{"id":"1"}"#).await?;

    let resumed = world
        .engine
        .resume(world.namespace_id, accepted.run, "it is back", "test");
    resumed.await?;
    until(&world, accepted.run, RunState::Succeeded).await?;

    assert_eq!(stopped.state, RunState::NeedsReview);
    let effects = world.peer.effects().await?;
    assert_eq!(effects.len(), 1);
    let key = effects[0].key.clone().context("a key")?;
    assert_eq!(
        world.peer.count_of_key(&key).await?.calls,
        4,
        "one key on every try"
    );
    Ok(())
}

#[tokio::test]
async fn a_doubt_that_an_operator_failed_is_a_doubt_again_when_its_run_is_resumed() -> Result<()> {
    let world = World::start().await?;
    world.publish(CALL).await?;
    let gone = Behaviour::CloseBeforeEffect;
    world.peer.next("/plain/", gone).await?;
    let (accepted, _) = world.play(r#"{"id":"1"}"#).await?;
    let doubts = effects::list_doubts(world.engine.cell().every(), world.namespace_id, None, 10)
        .await?
        .items;

    let reason = "not worth it".to_owned();
    let settled = Settlement::Fail { reason };
    world
        .engine
        .settle(world.namespace_id, doubts[0].id, settled, "test")
        .await?;
    let failed = world.engine.await_end(accepted.run, patience()).await?;
    let before = world.peer.count("/plain/").await?.calls;
    world
        .engine
        .resume(world.namespace_id, accepted.run, "do it", "test")
        .await?;
    until(&world, accepted.run, RunState::InDoubt).await?;
    let resent = world.peer.count("/plain/").await?.calls;
    let again = effects::list_doubts(world.engine.cell().every(), world.namespace_id, None, 10)
        .await?
        .items;
    let settled = Settlement::Happened {
        external_id: None,
        result: Some(serde_json::json!({})),
        reason: "it is in the books".to_owned(),
    };
    let doubt = again.first().context("the doubt is listed again")?.id;
    world
        .engine
        .settle(world.namespace_id, doubt, settled, "test")
        .await?;
    until(&world, accepted.run, RunState::Succeeded).await?;

    assert_eq!(failed.context("a run")?.state, RunState::Failed);
    assert_eq!((before, resent), (1, 1), "nothing is sent again");
    assert_eq!(doubt, doubts[0].id);
    Ok(())
}

#[tokio::test]
async fn a_doubt_after_a_resumed_failure_is_in_the_ledger_and_can_be_settled() -> Result<()> {
    let world = World::start().await?;
    world.publish(CALL).await?;
    let refused = Behaviour::RefuseWith(422);
    world.peer.next("/plain/", refused).await?;
    let (accepted, failed) = world.play(r#"{"id":"1"}"#).await?;
    let id = world.namespace_id;

    let lost = Behaviour::CloseWithoutAnswer;
    world.peer.next("/plain/", lost).await?;
    world
        .engine
        .resume(id, accepted.run, "again", "test")
        .await?;
    until(&world, accepted.run, RunState::InDoubt).await?;
    let doubts = effects::list_doubts(world.engine.cell().every(), id, None, 10)
        .await?
        .items;
    let settled = Settlement::Happened {
        external_id: None,
        result: Some(serde_json::json!({})),
        reason: "it is there".to_owned(),
    };
    let doubt = doubts.first().context("the doubt is listed")?;
    world.engine.settle(id, doubt.id, settled, "test").await?;
    until(&world, accepted.run, RunState::Succeeded).await?;

    assert_eq!(failed.state, RunState::Failed);
    assert_eq!(world.peer.count("/plain/").await?.effects, 1);
    Ok(())
}

/// A run that failed because an operator failed its one effect, whose response was lost.
async fn give_up(world: &World) -> Result<(RunId, EffectId)> {
    world.publish(CALL).await?;
    let lost = Behaviour::CloseWithoutAnswer;
    world.peer.next("/plain/", lost).await?;
    let (accepted, _) = world.play(r#"{"id":"1"}"#).await?;
    let id = world.namespace_id;
    let doubts = effects::list_doubts(world.engine.cell().every(), id, None, 10)
        .await?
        .items;
    let effect = doubts.first().context("a doubt")?.id;
    let reason = "not worth it".to_owned();
    let settled = Settlement::Fail { reason };
    world.engine.settle(id, effect, settled, "test").await?;
    until(world, accepted.run, RunState::Failed).await?;
    Ok((accepted.run, effect))
}

#[tokio::test]
async fn a_late_response_to_a_failed_doubt_shows_that_it_is_done() -> Result<()> {
    let world = World::start().await?;
    let (run, effect) = give_up(&world).await?;
    let (cell, id) = (world.engine.cell(), world.namespace_id);

    let late = LateResponse {
        effect,
        attempt: 1,
        response: json!({ "status": 201, "headers": {} }),
    };
    late_responses::record_late_response(cell.of(run), run, 1, &late).await?;
    world.engine.resume(id, run, "do it", "test").await?;
    until(&world, run, RunState::Succeeded).await?;

    let found = effects::find(cell.of(effect), id, effect).await?;
    assert_eq!(found.context("an effect")?.state, effect::EffectState::Done);
    assert_eq!(world.peer.count("/plain/").await?.calls, 1);
    Ok(())
}

#[tokio::test]
async fn a_doubt_that_an_older_build_s_repeat_reopened_is_a_doubt() -> Result<()> {
    let world = World::start().await?;
    let (run, effect) = give_up(&world).await?;
    let (cell, id) = (world.engine.cell(), world.namespace_id);

    // As an earlier build wrote it, in which a repeat also resumed what an operator had failed.
    let events = [
        Event::Resumed {
            reason: "its delivery came again".to_owned(),
            by: None,
            asks_again: false,
        },
        Event::Doubted {
            step: "call".to_owned(),
            doubt: Doubt::new("no-answer", "nothing came back"),
            plan: DoubtPlan::Review,
        },
    ];
    let ledger = "UPDATE effects SET state = 'in_doubt' WHERE id = $1";
    let client = cell.reader().await?;
    client.execute(ledger, &[effect.as_uuid()]).await?;
    runs::reopen(cell.of(run), run, &events, None, Span::from_secs(60)).await?;
    until(&world, run, RunState::InDoubt).await?;
    let settled = Settlement::Happened {
        external_id: None,
        result: Some(json!({ "status": 201 })),
        reason: "it is in the books".to_owned(),
    };
    world.engine.settle(id, effect, settled, "test").await?;
    until(&world, run, RunState::Succeeded).await?;

    assert_eq!(world.peer.count("/plain/").await?.calls, 1);
    Ok(())
}
