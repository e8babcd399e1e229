//! Waits: timers, callbacks, early ones and late ones.

use std::time::Duration;

use anyhow::{Context, Result};
use semel_engine::CallbackError;
use semel_model::RunId;
use semel_model::run::RunState;
use semel_store::runs;
use semel_store::waits::{self, WaitView};
use semel_testkit::{patience, until};
use serde_json::{Value, json};

use crate::world::World;

const CALLBACK: &str = "steps:\n  - id: tell\n    kv: { set: 'url/${{ input.id }}', value: '${{ waits.answer.url }}' }\n\
    \x20 - id: pause\n    wait: { for: PAUSE }\n  - id: answer\n    wait: { callback: true, within: 1h }\n\
    result: steps.answer.result\n";

async fn token(world: &World, id: &str) -> Result<String> {
    let entry = format!("url/{id}");
    let what = format!("the address in {entry}");
    let url = until(&what, async || world.kv(&entry).await, Value::is_string).await?;
    let token = url.as_str().and_then(|url| url.rsplit('/').next());
    Ok(token.context("a token")?.to_owned())
}

/// The open waits, once there are any.
async fn until_open(world: &World) -> Result<Vec<WaitView>> {
    let look = async || {
        let (cell, namespace_id) = (world.engine.cell(), world.namespace_id);
        let open = waits::list(cell.every(), namespace_id, false, None, 9);
        Ok(open.await?.items)
    };
    until("an open wait", look, |open| !open.is_empty()).await
}

/// Ends the pause of every run that rests for an hour before its wait.
async fn end_pauses(world: &World) -> Result<()> {
    world.move_clock(Duration::from_secs(3_601)).await
}

async fn until_waiting(world: &World, run: RunId) -> Result<()> {
    let look = async || {
        let view = runs::find(world.engine.cell().of(run), world.namespace_id, run).await?;
        Ok(view.map(|view| view.state_word()))
    };
    until("the run to sleep", look, |word| *word == Some("waiting")).await?;
    Ok(())
}

#[tokio::test]
async fn a_callback_resumes_once_and_a_repeat_gets_the_same_response() -> Result<()> {
    let world = World::start().await?;
    world.publish(&CALLBACK.replace("PAUSE", "1ms")).await?;
    let accepted = world.deliver(r#"{"id":"1"}"#).await?;
    let token = token(&world, "1").await?;

    let first = world.engine.call_back(&token, br#"{"ok":true}"#).await?;
    let again = world.engine.call_back(&token, br#"{"ok":false}"#).await?;
    let end = world
        .engine
        .await_end(accepted.run, patience())
        .await?
        .context("there is such a run")?;

    assert!(!first.replayed && again.replayed);
    assert_eq!(end.state, RunState::Succeeded);
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&end.result.unwrap_or_default())?,
        json!({"ok": true})
    );
    Ok(())
}

#[tokio::test]
async fn a_callback_before_its_wait_is_kept() -> Result<()> {
    let world = World::start().await?;
    world.publish(&CALLBACK.replace("PAUSE", "1h")).await?;
    let accepted = world.deliver(r#"{"id":"1"}"#).await?;
    let token = token(&world, "1").await?;

    world.engine.call_back(&token, br#""early""#).await?;
    until_waiting(&world, accepted.run).await?;
    end_pauses(&world).await?;
    let end = world
        .engine
        .await_end(accepted.run, patience())
        .await?
        .context("there is such a run")?;

    assert_eq!(end.result.as_deref(), Some(r#""early""#), "{end:?}");
    Ok(())
}

#[tokio::test]
async fn a_callback_before_its_branch_is_kept_and_one_after_its_run_is_not() -> Result<()> {
    let world = World::start().await?;
    world
        .publish(
            "steps:\n  - id: tell\n    kv: { set: 'url/${{ input.id }}', value: '${{ waits.answer.url }}' }\n\
             \x20 - id: pause\n    wait: { for: 1h }\n  - id: both\n    parallel:\n      branches:\n\
             \x20       - steps: [{ id: other, kv: { add: others } }]\n\
             \x20       - steps:\n            - id: inner\n              parallel:\n                branches:\n\
             \x20                 - steps: [{ id: answer, wait: { callback: true, within: 1h } }]\n\
             result: steps.answer.result\n",
        )
        .await?;
    let accepted = world.deliver(r#"{"id":"1"}"#).await?;
    let token = token(&world, "1").await?;

    let early = world.engine.call_back(&token, br#""early""#).await?;
    let again = world.engine.call_back(&token, br#""again""#).await?;
    until_waiting(&world, accepted.run).await?;
    end_pauses(&world).await?;
    let end = world
        .engine
        .await_end(accepted.run, patience())
        .await?
        .context("there is such a run")?;
    let repeated = world.engine.call_back(&token, br#""late""#).await?;
    let ended = world.deliver(r#"{"id":"2"}"#).await?;
    let unused = self::token(&world, "2").await?;
    let namespace_id = world.namespace_id;
    world
        .engine
        .cancel(namespace_id, ended.run, "no longer wanted", "test")
        .await?;
    world.engine.await_end(ended.run, patience()).await?;
    let late = world.engine.call_back(&unused, b"1").await;

    assert!(!early.replayed && again.replayed && repeated.replayed);
    assert_eq!(end.result.as_deref(), Some(r#""early""#), "{end:?}");
    assert!(matches!(late, Err(CallbackError::Unknown)), "{late:?}");
    Ok(())
}

#[tokio::test]
async fn a_wait_that_times_out_fails_its_run_and_refuses_late_callbacks() -> Result<()> {
    let world = World::start().await?;
    world.publish(&CALLBACK.replace("PAUSE", "1ms")).await?;
    let accepted = world.deliver(r#"{"id":"1"}"#).await?;
    let token = token(&world, "1").await?;
    let waiting = until_open(&world).await?;

    world.move_clock(Duration::from_secs(3700)).await?;
    let end = world
        .engine
        .await_end(accepted.run, patience())
        .await?
        .context("there is such a run")?;
    let late = world.engine.call_back(&token, b"{}").await;

    assert_eq!(waiting.len(), 1);
    assert_eq!(end.state, RunState::Failed, "{end:?}");
    assert!(matches!(late, Err(CallbackError::Unknown)), "{late:?}");
    Ok(())
}

#[tokio::test]
async fn a_wait_that_timed_out_opens_again_when_its_run_is_resumed() -> Result<()> {
    let world = World::start().await?;
    world.publish(&CALLBACK.replace("PAUSE", "1ms")).await?;
    let accepted = world.deliver(r#"{"id":"1"}"#).await?;
    let token = token(&world, "1").await?;
    let patience = patience();
    let end = async || {
        let end = world.engine.await_end(accepted.run, patience).await?;
        anyhow::Ok(end.context("there is such a run")?.state)
    };
    let resume = async || {
        let engine = &world.engine;
        engine
            .resume(world.namespace_id, accepted.run, "again", "test")
            .await
    };

    // It times out twice, and each time fails its run and nothing else.
    for _ in 0..2 {
        until_open(&world).await?;
        world.move_clock(Duration::from_secs(3_700)).await?;
        assert_eq!(end().await?, RunState::Failed);
        resume().await?;
    }
    until_open(&world).await?;
    let called = world.engine.call_back(&token, br#"{"ok":true}"#).await?;

    assert!(!called.replayed);
    assert_eq!(end().await?, RunState::Succeeded);
    Ok(())
}

#[tokio::test]
async fn a_guessed_address_is_unknown() -> Result<()> {
    let world = World::start().await?;

    let guessed = world.engine.call_back("AAAA", b"{}").await;

    assert!(matches!(guessed, Err(CallbackError::Unknown)));
    Ok(())
}
