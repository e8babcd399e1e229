//! `on_repeat`: what a repeat of a failed run does, for every trigger.

use anyhow::{Context, Result, bail};
use semel_engine::{Accepted, Intake, Settlement, Start};
use semel_model::run::RunState;
use semel_model::{RunId, TriggerKind};
use semel_store::effects;
use semel_store::runs::{self, RunFilter, RunView};
use semel_testkit::peer::Behaviour;
use semel_testkit::{patience, until, until_some};
use serde_json::json;

use crate::world::World;

/// A flow whose one call is refused for good as long as the peer says so.
fn flow(trigger: &str) -> String {
    format!(
        "flow: story\ntrigger:\n  {trigger}\nsteps:\n  - id: first\n    http: {{ post: PEER/plain/first, text: hi }}\n\
         \x20 - id: call\n    http: {{ post: PEER/plain/call, text: hi }}\nresult: steps.call.status\n"
    )
}

async fn world_with(trigger: &str) -> Result<World> {
    let world = World::start().await?;
    let source = flow(trigger).replace("PEER", &world.peer.url(""));
    world.publish_source(&source).await?;
    let refusal = Behaviour::RefuseWith(403);
    world.peer.next("/plain/call", refusal).await?;
    Ok(world)
}

async fn end(world: &World, run: RunId, wanted: RunState) -> Result<()> {
    let look = async || {
        let snapshot = world.engine.await_end(run, patience()).await?;
        Ok(snapshot.context("a run")?.state)
    };
    let what = format!("the run to become {wanted}");
    until(&what, look, |state| *state == wanted).await?;
    Ok(())
}

/// The failed run continued where it had failed, from its ledger.
async fn resumed(world: &World, first: &Accepted, again: &Accepted) -> Result<()> {
    assert_eq!(first.run, again.run);
    assert!(!first.replayed && again.replayed);
    assert_eq!(
        again.state,
        RunState::Active,
        "the answer says that it is active"
    );
    assert_eq!(again.fault, None);
    end(world, first.run, RunState::Succeeded).await?;
    assert_eq!(world.peer.count("/plain/first").await?.effects, 1);
    assert_eq!(world.peer.count("/plain/call").await?.effects, 1);
    Ok(())
}

#[tokio::test]
async fn a_repeated_delivery_resumes_a_failed_run_where_the_trigger_says_so() -> Result<()> {
    let world = world_with("webhook: { auth: none, key: input.id, on_repeat: resume }").await?;

    let (first, failed) = world.play(r#"{"id":"1"}"#).await?;
    let again = world.deliver(r#"{"id":"1"}"#).await?;

    assert_eq!(failed.state, RunState::Failed);
    resumed(&world, &first, &again).await
}

#[tokio::test]
async fn a_repeated_delivery_gets_the_stored_failure_where_it_does_not() -> Result<()> {
    let world = world_with("webhook: { auth: none, key: input.id }").await?;

    let (first, failed) = world.play(r#"{"id":"1"}"#).await?;
    let again = world.deliver(r#"{"id":"1"}"#).await?;

    assert_eq!(failed.state, RunState::Failed);
    assert_eq!((again.run, again.state), (first.run, RunState::Failed));
    let fault = again.fault.context("the fault of the first")?;
    assert!(fault.contains("http-403"), "{fault}");
    assert_eq!(world.peer.count("/plain/call").await?.calls, 1);
    Ok(())
}

async fn start(world: &World, trigger: TriggerKind) -> Result<Accepted> {
    start_with(world, trigger, r#"{"id":"1"}"#).await
}

async fn start_with(world: &World, trigger: TriggerKind, input: &str) -> Result<Accepted> {
    let start = Start {
        namespace_id: world.namespace_id,
        namespace: "default".parse()?,
        flow: "story".parse()?,
        trigger,
        input: input.as_bytes().to_vec(),
        key: None,
        by: None,
    };
    match world.engine.start_run(start).await? {
        Intake::Accepted(accepted) => Ok(accepted),
        other @ (Intake::Ignored | Intake::Held(_) | Intake::Stale(_)) => {
            bail!("not accepted: {other:?}")
        }
    }
}

#[tokio::test]
async fn a_repeated_start_resumes_a_failed_run_where_the_trigger_says_so() -> Result<()> {
    for (trigger, kind) in [("api", TriggerKind::Api), ("manual", TriggerKind::Manual)] {
        let declared = format!("{trigger}: {{ key: input.id, on_repeat: resume }}");
        let world = world_with(&declared).await?;

        let first = start(&world, kind).await?;
        end(&world, first.run, RunState::Failed).await?;
        let again = start(&world, kind).await?;

        resumed(&world, &first, &again)
            .await
            .with_context(|| trigger.to_owned())?;
    }
    Ok(())
}

/// The only run of the story, once there is one in a state.
async fn only(world: &World, state: RunState) -> Result<RunView> {
    let filter = RunFilter {
        flow: Some("story".to_owned()),
        ..RunFilter::default()
    };
    let what = format!("the only run of the story to be {state}");
    until_some(&what, async || {
        let listed =
            runs::list(world.engine.cell().every(), world.namespace_id, &filter, 9).await?;
        let mut runs = listed.items;
        anyhow::ensure!(runs.len() < 2, "more than one run: {runs:?}");
        Ok(runs.pop().filter(|run| run.state == state))
    })
    .await
}

#[tokio::test]
async fn a_repeated_event_resumes_a_failed_run_where_the_trigger_says_so() -> Result<()> {
    let declared = "event: { name: order.paid, key: input.id, on_repeat: resume }";
    let world = world_with(declared).await?;
    let source = "flow: shop\ntrigger:\n  api: {}\nsteps:\n  - id: tell\n    emit: { event: order.paid, data: { id: '7' } }\n";
    world.publish_source(source).await?;

    crate::control::start(&world, "shop", "one").await?;
    let failed = only(&world, RunState::Failed).await?;
    crate::control::start(&world, "shop", "two").await?;
    let done = only(&world, RunState::Succeeded).await?;

    assert_eq!(failed.id, done.id);
    assert_eq!(
        done.result.as_deref(),
        Some(json!(201).to_string().as_str())
    );
    assert_eq!(world.peer.count("/plain/first").await?.effects, 1);
    Ok(())
}

/// Ends as its input says: with a result, with a fault, in doubt, or not before a callback.
const ANY_END: &str = "flow: story
trigger:
  webhook: { auth: none, key: input.id }
  api: { key: input.id }
  manual: { key: input.id }
steps:
  - { id: wait, if: input.end == 'waits' || input.end == 'cancelled', wait: { callback: true, within: 30d } }
  - { id: fail, if: input.end == 'failed', fail: { code: closed, message: not today } }
  - { id: call, if: input.end == 'in_doubt', http: { post: PEER/plain/x, text: hi } }
result: '42'
";

#[tokio::test]
async fn a_repeat_gets_its_run_s_state_from_every_trigger() -> Result<()> {
    let world = World::start().await?;
    let source = ANY_END.replace("PEER", &world.peer.url(""));
    world.publish_source(&source).await?;
    let lost = Behaviour::CloseWithoutAnswer;
    world.peer.next("/plain/", lost).await?;
    let ends = [
        ("waits", RunState::Active),
        ("succeeded", RunState::Succeeded),
        ("failed", RunState::Failed),
        ("in_doubt", RunState::InDoubt),
        ("cancelled", RunState::Cancelled),
    ];

    for (name, state) in ends {
        let payload = format!(r#"{{"id":"{name}","end":"{name}"}}"#);
        let first = world.deliver(&payload).await?;
        if state == RunState::Cancelled {
            let namespace_id = world.namespace_id;
            let cancelled = world.engine.cancel(namespace_id, first.run, "over", "test");
            cancelled.await?;
        }
        if state != RunState::Active {
            end(&world, first.run, state).await?;
        }
        let again = [
            world.deliver(&payload).await?,
            start_with(&world, TriggerKind::Api, &payload).await?,
            start_with(&world, TriggerKind::Manual, &payload).await?,
        ];

        for repeat in &again {
            assert!(repeat.replayed, "{name}: {repeat:?}");
            assert_eq!((repeat.run, repeat.state), (first.run, state), "{name}");
            let told = (repeat.result.is_some(), repeat.fault.is_some());
            let ended_well = state == RunState::Succeeded;
            assert_eq!(told.0, ended_well, "{name}: {repeat:?}");
            assert_eq!(
                told.1,
                !ended_well && state != RunState::Active,
                "{name}: {repeat:?}"
            );
        }
    }
    assert_eq!(world.peer.count("/plain/").await?.calls, 1);
    Ok(())
}

#[tokio::test]
async fn a_doubt_that_an_operator_failed_is_not_sent_again_by_a_repeat() -> Result<()> {
    let world = World::start().await?;
    let trigger = "webhook: { auth: none, key: input.id, on_repeat: resume }";
    let source = flow(trigger).replace("PEER", &world.peer.url(""));
    world.publish_source(&source).await?;
    let lost = Behaviour::CloseWithoutAnswer;
    world.peer.next("/plain/call", lost).await?;
    let (accepted, doubted) = world.play(r#"{"id":"1"}"#).await?;
    let (cell, id) = (world.engine.cell(), world.namespace_id);
    let doubts = effects::list_doubts(cell.every(), id, None, 10)
        .await?
        .items;

    let reason = "unknown".to_owned();
    let settled = Settlement::Fail { reason };
    world
        .engine
        .settle(id, doubts[0].id, settled, "test")
        .await?;
    end(&world, accepted.run, RunState::Failed).await?;
    let repeat = world.deliver(r#"{"id":"1"}"#).await?;

    assert_eq!(doubted.state, RunState::InDoubt);
    assert_eq!(repeat.state, RunState::Failed, "the failure stands");
    assert_eq!(world.peer.count("/plain/call").await?.effects, 1);
    Ok(())
}

#[tokio::test]
async fn an_item_that_an_operator_failed_is_not_sent_again_by_a_repeat() -> Result<()> {
    let world = World::start().await?;
    let source = "flow: story\ntrigger:\n  webhook: { auth: none, key: input.id, on_repeat: resume }\n\
        steps:\n  - id: each\n    foreach:\n      in: \"['a']\"\n      key: item\n      steps:\n        \
        - id: call\n          http: { post: PEER/plain/call, text: hi }\n          \
        guard: repeat\n          because: it counts visits\n          retry: { attempts: 1 }\n";
    let source = source.replace("PEER", &world.peer.url(""));
    world.publish_source(&source).await?;
    let lost = Behaviour::CloseWithoutAnswer;
    world.peer.next("/plain/call", lost).await?;
    let accepted = world.deliver(r#"{"id":"1"}"#).await?;
    let (cell, id) = (world.engine.cell(), world.namespace_id);
    let doubt = until_some("a doubt", async || {
        Ok(effects::list_doubts(cell.every(), id, None, 10)
            .await?
            .items
            .pop())
    })
    .await?;

    let reason = "unknown".to_owned();
    let settled = Settlement::Fail { reason };
    world.engine.settle(id, doubt.id, settled, "test").await?;
    end(&world, accepted.run, RunState::Failed).await?;
    world.deliver(r#"{"id":"1"}"#).await?;
    end(&world, accepted.run, RunState::Failed).await?;
    let repeated = world.peer.count("/plain/call").await?.calls;
    world
        .engine
        .resume(id, accepted.run, "do it", "test")
        .await?;
    end(&world, accepted.run, RunState::Succeeded).await?;

    assert_eq!(repeated, 1, "only an operator takes it up again");
    assert_eq!(world.peer.count("/plain/call").await?.calls, 2);
    Ok(())
}
