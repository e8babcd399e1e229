//! Destinations: what a connection decides, what is missing, and what is too large for the journal.

use anyhow::{Context, Result};
use semel_engine::{Accepted, ConnectionError};
use semel_model::event::Event;
use semel_model::guard::Guard;
use semel_model::run::RunState;
use semel_model::{Resource, Span};
use semel_store::audit::AuditEntry;
use semel_store::{connections, journal, runs};
use semel_testkit::peer::Behaviour;
use serde_json::json;

use crate::world::World;

const CALL: &str = "steps:\n  - id: call\n    \
    http: { connection: bank, post: /keyed/pay, json: { id: '${{ input.id }}' } }\n\
    result: steps.call.status\n";

async fn events(world: &World, accepted: &Accepted) -> Result<Vec<Event>> {
    let cell = world.engine.cell();
    let run = runs::find(cell.of(accepted.run), world.namespace_id, accepted.run).await?;
    let run = run.context("the run")?;
    let mut events = Vec::new();
    for line in journal::read(cell.of(run.id), run.partition_date, run.id).await? {
        events.extend(line.read()?);
    }
    Ok(events)
}

#[tokio::test]
async fn the_guard_of_a_connection_is_recorded_in_the_journal() -> Result<()> {
    let world = World::start().await?;
    let to = json!({"http": {"base_url": world.peer.url("")}});
    let connection = json!({"to": to, "idempotency_keys": {"window": "24h"}});
    world.connect("bank", connection).await?;
    world.publish(CALL).await?;
    let lost = Behaviour::CloseWithoutAnswer;
    world.peer.next("/keyed/pay", lost).await?;

    let (accepted, end) = world.play(r#"{"id":"1"}"#).await?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(world.peer.count("/keyed/").await?.effects, 1);
    assert_eq!(world.peer.count("/keyed/").await?.calls, 2);
    let mut told = events(&world, &accepted).await?.into_iter();
    let decided = told.find_map(|event| {
        if let Event::Intended { guard, window, .. } = event {
            return Some((guard, window));
        }
        None
    });
    let day = Span::from_secs(86_400);
    assert_eq!(decided, Some((Some(Guard::Key), Some(day))));
    Ok(())
}

#[tokio::test]
async fn a_connection_that_honours_no_keys_is_not_asked_twice() -> Result<()> {
    let world = World::start().await?;
    let to = json!({"http": {"base_url": world.peer.url("")}});
    world.connect("bank", json!({"to": to})).await?;
    world.publish(CALL).await?;
    let lost = Behaviour::CloseWithoutAnswer;
    world.peer.next("/keyed/pay", lost).await?;

    let (_, end) = world.play(r#"{"id":"1"}"#).await?;

    assert_eq!(end.state, RunState::InDoubt, "{end:?}");
    assert_eq!(world.peer.count("/keyed/").await?.calls, 1);
    Ok(())
}

#[tokio::test]
async fn a_step_over_a_connection_that_is_gone_sends_nothing() -> Result<()> {
    let world = World::start().await?;
    let to = json!({"http": {"base_url": world.peer.url("")}});
    world.connect("bank", json!({"to": to})).await?;
    world.publish(CALL).await?;
    // Directly in the database: the engine removes no connection that a live flow uses.
    let act = AuditEntry::new(world.namespace_id, "test", "connection.delete", "bank");
    connections::delete(world.engine.cell().home(), world.namespace_id, "bank", &act).await?;
    // The engine reads connections anew before it tests one.
    let tested = world
        .engine
        .test_connection(world.namespace_id, "bank")
        .await;
    let unknown = matches!(tested, Err(ConnectionError::Unknown));
    assert!(unknown, "the engine still knows it: {tested:?}");

    let (_, end) = world.play(r#"{"id":"1"}"#).await?;

    assert_eq!(end.state, RunState::Failed, "{end:?}");
    let fault = end.fault.context("a fault")?;
    assert!(fault.contains("connection-missing"), "{fault}");
    assert_eq!(world.peer.totals().await?.calls, 0);
    Ok(())
}

#[tokio::test]
async fn a_missing_secret_is_named_and_nothing_is_sent() -> Result<()> {
    let world = World::start().await?;
    let auth = json!({"bearer": {"secret": "bank_token"}});
    let to = json!({"http": {"base_url": world.peer.url(""), "auth": auth}});
    world.connect("bank", json!({"to": to})).await?;
    world.publish(CALL).await?;

    let (_, end) = world.play(r#"{"id":"1"}"#).await?;
    let before = world.peer.totals().await?.calls;
    world.set_secret("bank_token", "tok_1234567890").await?;
    let after = world.result(r#"{"id":"2"}"#).await?;

    assert_eq!(end.state, RunState::NeedsReview, "{end:?}");
    let fault = end.fault.context("a fault")?;
    assert!(fault.contains("semel secret set bank_token"), "{fault}");
    assert_eq!((before, after), (0, json!(201)));
    Ok(())
}

#[tokio::test]
async fn a_large_result_becomes_a_resource() -> Result<()> {
    let world = World::start_with_outputs().await?;
    world
        .publish(
            "steps:\n  - id: write\n    http: { put: 'PEER/put/big', json: { text: '${{ input.text }}' } }\n\
             \x20 - id: read\n    http: { get: 'PEER/put/big' }\nresult: steps.read.result\n",
        )
        .await?;
    let text = "x".repeat(100_000);

    let result = world
        .result(&json!({"id": "1", "text": text}).to_string())
        .await?;

    let kept: Resource = serde_json::from_value(result)?;
    assert!(kept.bytes > 100_000, "{kept:?}");
    assert_eq!(kept.media_type, "application/json");
    Ok(())
}
