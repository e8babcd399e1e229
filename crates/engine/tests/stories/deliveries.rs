//! Events to subscribed webhooks: signed, under one id, retried until the receiver takes them.

use std::time::Duration;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use semel_engine::RetryError;
use semel_store::pauses::PauseKind;
use semel_store::subscriptions;
use semel_store::webhook_deliveries::{self, DeliveryView};
use semel_testkit::peer::{Behaviour, Effect};
use semel_testkit::{patience, until, until_some};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::world::World;

const EMIT: &str = "steps:\n  - id: tell\n    emit: { event: order.paid, data: '${{ input }}' }\n";

const SECRET: &str = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A world whose `story` emits, with a webhook at each path that is subscribed under its name.
async fn world_with(hooks: &[(&str, &str)]) -> Result<World> {
    let world = World::start().await?;
    world.publish(EMIT).await?;
    world
        .set_secret("signing", &format!("whsec_{SECRET}"))
        .await?;
    for (name, path) in hooks {
        subscribe(&world, name, path, "order.*").await?;
    }
    Ok(world)
}

/// Subscribes a webhook at a path to events, under its name.
async fn subscribe(world: &World, name: &str, path: &str, events: &str) -> Result<()> {
    let webhook = json!({"url": world.peer.url(path), "secret": "signing"});
    world
        .connect(name, json!({"to": {"webhook": webhook}}))
        .await?;
    let (engine, by) = (&world.engine, world.by());
    engine.keep_subscription(by, name, events, name).await?;
    Ok(())
}

/// Emits an event to a webhook of its own, and waits until it is delivered. Whatever was due before is taken by then,
/// because deliveries of all subscriptions are taken together.
async fn until_another_is_delivered(world: &World) -> Result<()> {
    subscribe(world, "later", "/plain/later", "parcel.*").await?;
    let source = "flow: parcels\ntrigger:\n  webhook: { auth: none, key: input.id }\nsteps:\n  \
                  - id: tell\n    emit: { event: parcel.sent, data: '${{ input }}' }\n";
    world.publish_source(source).await?;
    world.deliver_to("parcels", r#"{"id":"1"}"#).await?;
    delivery(world, "later", "delivered").await?;
    Ok(())
}

async fn delivery(world: &World, name: &str, state: &str) -> Result<DeliveryView> {
    until_some(
        &format!("a delivery to {name} that is {state}"),
        async || {
            let (cell, id) = (world.engine.cell(), world.namespace_id);
            let mut found =
                webhook_deliveries::list(cell.every(), id, name, Some(state), None, 10).await?;
            Ok(found.pop())
        },
    )
    .await
}

async fn received(world: &World, path: &str) -> Result<Vec<Effect>> {
    let effects = world.peer.effects().await?;
    Ok(effects
        .into_iter()
        .filter(|effect| effect.path == path)
        .collect())
}

/// What the rules of Standard Webhooks say that the signature must be.
fn expected(effect: &Effect) -> Result<String> {
    let (id, at) = (
        &effect.signed["webhook-id"],
        &effect.signed["webhook-timestamp"],
    );
    let key = STANDARD.decode(SECRET)?;
    let mut code = Hmac::<Sha256>::new_from_slice(&key).ok().context("a key")?;
    code.update(format!("{id}.{at}.{}", effect.body).as_bytes());
    Ok(format!(
        "v1,{}",
        STANDARD.encode(code.finalize().into_bytes())
    ))
}

#[tokio::test]
async fn a_subscribed_webhook_receives_an_event_once_and_signed() -> Result<()> {
    let world = world_with(&[("erp", "/plain/erp")]).await?;

    world.result(r#"{"id":"1","total":7}"#).await?;
    let delivered = delivery(&world, "erp", "delivered").await?;
    until_another_is_delivered(&world).await?;

    let seen = received(&world, "/plain/erp").await?;
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert_eq!(
        seen[0].signed["content-type"],
        "application/cloudevents+json"
    );
    assert_eq!(seen[0].signed["webhook-id"], delivered.event.to_string());
    assert_eq!(seen[0].signed["webhook-signature"], expected(&seen[0])?);
    let body: Value = serde_json::from_str(&seen[0].body)?;
    assert_eq!(body["specversion"], "1.0");
    assert_eq!(body["type"], "order.paid");
    assert_eq!(body["id"], delivered.event.to_string());
    assert_eq!(body["data"], json!({"id": "1", "total": 7}));
    let made = world.engine.metrics().deliveries_made.get();
    assert_eq!(made, 2, "this one, and the other");
    Ok(())
}

#[tokio::test]
async fn a_failed_delivery_is_retried_with_the_same_id_and_bytes() -> Result<()> {
    let world = world_with(&[("erp", "/plain/erp")]).await?;
    world
        .peer
        .next("/plain/erp", Behaviour::AnswerStatus(500))
        .await?;

    world.result(r#"{"id":"1"}"#).await?;
    let delivered = delivery(&world, "erp", "delivered").await?;

    let seen = received(&world, "/plain/erp").await?;
    assert_eq!((seen.len(), delivered.attempt), (2, 2), "{seen:?}");
    assert_eq!(seen[0].body, seen[1].body);
    assert_eq!(seen[0].signed["webhook-id"], seen[1].signed["webhook-id"]);
    assert_eq!(seen[1].signed["webhook-signature"], expected(&seen[1])?);
    Ok(())
}

#[tokio::test]
async fn a_receiver_that_is_gone_is_failed_until_a_person_says_so() -> Result<()> {
    let world = world_with(&[("erp", "/plain/erp")]).await?;
    world
        .peer
        .next("/plain/erp", Behaviour::AnswerStatus(410))
        .await?;

    world.result(r#"{"id":"1"}"#).await?;
    let failed = delivery(&world, "erp", "failed").await?;
    let retried = world
        .engine
        .retry_delivery(world.by(), "erp", failed.event)
        .await;
    let delivered = delivery(&world, "erp", "delivered").await?;
    let again = world
        .engine
        .retry_delivery(world.by(), "erp", failed.event)
        .await;

    assert!(retried.is_ok(), "{retried:?}");
    assert!(failed.note.context("a note")?.contains("410"));
    assert_eq!(delivered.event, failed.event);
    assert!(matches!(again, Err(RetryError::NotFailed { .. })));
    let seen = received(&world, "/plain/erp").await?;
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].body, seen[1].body);
    assert_eq!(world.engine.metrics().deliveries_failed.get(), 1);
    Ok(())
}

#[tokio::test]
async fn a_slow_webhook_delays_no_other() -> Result<()> {
    let world = world_with(&[("slow", "/hold/plain/slow"), ("quick", "/plain/quick")]).await?;

    for id in 0..40 {
        world.deliver(&format!(r#"{{"id":"{id}"}}"#)).await?;
    }
    let look = async || Ok(world.peer.count("/plain/quick").await?.effects);
    let count = until("the deliveries to the quick one", look, |count| {
        *count >= 40
    })
    .await?;

    assert_eq!(count, 40);
    let held = world.peer.until_held(1, patience()).await?;
    assert!(
        held.len() <= 4,
        "{} attempts for one subscription",
        held.len()
    );
    assert_eq!(world.peer.count("/hold/").await?.effects, 0);
    Ok(())
}

#[tokio::test]
async fn a_removed_subscription_receives_nothing_more() -> Result<()> {
    let world = world_with(&[("erp", "/plain/erp")]).await?;
    let (cell, id) = (world.engine.cell(), world.namespace_id);
    world
        .peer
        .next_times("/plain/erp", 99, Behaviour::AnswerStatus(503))
        .await?;
    world.result(r#"{"id":"1"}"#).await?;
    until_some("an attempt that failed", async || {
        let due = webhook_deliveries::list(cell.every(), id, "erp", Some("due"), None, 1).await?;
        Ok(due.into_iter().find(|one| one.note.is_some()))
    })
    .await?;

    let failed = world.engine.delete_subscription(world.by(), "erp").await?;
    let before = received(&world, "/plain/erp").await?.len();
    world.result(r#"{"id":"2"}"#).await?;
    world.move_clock(Duration::from_secs(60)).await?;
    until_another_is_delivered(&world).await?;

    assert_eq!(failed, 1);
    assert_eq!(received(&world, "/plain/erp").await?.len(), before);
    let left = subscriptions::list(cell.home(), id).await?;
    assert!(left.iter().all(|one| one.name != "erp"), "{left:?}");
    Ok(())
}

#[tokio::test]
async fn delivered_events_are_deleted_after_a_month() -> Result<()> {
    let world = world_with(&[("erp", "/plain/erp")]).await?;
    let cell = world.engine.cell();
    world.result(r#"{"id":"1"}"#).await?;
    delivery(&world, "erp", "delivered").await?;

    let early = webhook_deliveries::forget(cell.every()).await?;
    world.move_clock(Duration::from_secs(31 * 86_400)).await?;
    let late = webhook_deliveries::forget(cell.every()).await?;

    assert_eq!((early, late), (0, 1));
    Ok(())
}

#[tokio::test]
async fn deliveries_over_a_paused_connection_wait_for_its_end() -> Result<()> {
    let world = world_with(&[("erp", "/plain/erp")]).await?;
    let hook = (PauseKind::Connection, "erp");
    let paused = world.engine.pause(world.by(), hook, "their system moves");
    assert!(paused.await?);

    world.result(r#"{"id":"1"}"#).await?;
    let due = delivery(&world, "erp", "due").await?;
    // Longer than attempts are made at a delivery.
    world.move_clock(Duration::from_secs(4 * 86_400)).await?;
    until_another_is_delivered(&world).await?;
    let meanwhile = received(&world, "/plain/erp").await?.len();
    world
        .peer
        .next("/plain/erp", Behaviour::RefuseWith(503))
        .await?;
    let resumed = world.engine.resume_paused(world.by(), hook, None, None);
    assert!(resumed.await?);
    let look = async || {
        let (cell, id) = (world.engine.cell(), world.namespace_id);
        let mut all = webhook_deliveries::list(cell.every(), id, "erp", None, None, 10).await?;
        all.pop().context("a delivery")
    };
    until("the refusal to be recorded", look, |one| {
        one.note.is_some() || one.state == "delivered"
    })
    .await?;
    world.move_clock(Duration::from_secs(60)).await?;
    delivery(&world, "erp", "delivered").await?;

    assert_eq!((due.attempt, meanwhile), (0, 0), "nothing leaves meanwhile");
    assert_eq!(received(&world, "/plain/erp").await?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn an_event_under_way_is_erased_once_it_is_delivered_or_given_up() -> Result<()> {
    let hooks = [
        ("erp", "/plain/erp"),
        ("crm", "/plain/crm"),
        ("old", "/plain/old"),
    ];
    let world = world_with(&hooks).await?;
    for (name, _) in hooks {
        let hook = (PauseKind::Connection, name);
        assert!(world.engine.pause(world.by(), hook, "they move").await?);
    }
    let (run, _) = world.play(r#"{"id":"1","name":"planted"}"#).await?;
    for (name, _) in hooks {
        delivery(&world, name, "due").await?;
    }

    let id = world.namespace_id;
    let erased = world
        .engine
        .erase_run(id, run.run, "request 118", "test")
        .await?;
    world
        .peer
        .next("/plain/crm", Behaviour::AnswerStatus(410))
        .await?;
    let removed = world.engine.delete_subscription(world.by(), "old").await?;
    for name in ["erp", "crm"] {
        let hook = (PauseKind::Connection, name);
        let resumed = world.engine.resume_paused(world.by(), hook, None, None);
        assert!(resumed.await?);
    }
    delivery(&world, "erp", "delivered").await?;
    let failed = delivery(&world, "crm", "failed").await?;
    let retried = world
        .engine
        .retry_delivery(world.by(), "crm", failed.event)
        .await;

    assert_eq!((erased.events_under_way, removed), (3, 1));
    let told = received(&world, "/plain/erp").await?;
    assert_eq!(told.len(), 1);
    assert!(told[0].body.contains("planted"), "it goes out as it was");
    let client = world.database().connect().await?;
    let left = "SELECT count(*) FROM webhook_deliveries WHERE body::text LIKE '%planted%'";
    let left: i64 = client.query_one(left, &[]).await?.get(0);
    assert_eq!(left, 0);
    assert!(matches!(retried, Err(RetryError::Erased)));
    Ok(())
}
