//! Subscriptions and the map of external identities, over the API.

use anyhow::Result;
use semel_api::Code;
use semel_api::types::{
    Change, DeliveryFilter, DeliveryState, EffectFilter, PutConnection, PutSubscription, SetSecret,
    StartRun,
};
use semel_model::{FlowName, Label, SecretText};
use semel_testkit::peer::Behaviour;
use semel_testkit::{Peer, until_some};
use serde_json::json;

use crate::world::{World, refused};

fn put(event: &str, connection: &str) -> PutSubscription {
    PutSubscription {
        event: event.to_owned(),
        connection: connection.to_owned(),
        replace: false,
    }
}

fn start(key: &str) -> StartRun {
    StartRun {
        input: json!({}),
        key: Some(key.to_owned()),
        trigger: None,
    }
}

fn of_key(flow: &FlowName, key: &str) -> EffectFilter {
    EffectFilter {
        flow: Some(flow.clone()),
        key: Some(key.to_owned()),
        ..EffectFilter::default()
    }
}

async fn connect(world: &World, name: &str, to: serde_json::Value) -> Result<()> {
    let put = PutConnection {
        connection: serde_json::from_value(json!({ "to": to }))?,
        replace: false,
    };
    world
        .client
        .put_connection(&name.parse()?, &put, None)
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_subscription_is_created_shown_replaced_and_deleted() -> Result<()> {
    let world = World::start().await?;
    let (client, name): (_, Label) = (&world.client, "erp".parse()?);
    let webhook = json!({"webhook": {"url": "https://a.example/hook", "secret": "s"}});
    connect(&world, "hook", webhook).await?;
    let other = PutSubscription {
        replace: true,
        ..put("order.*", "hook")
    };

    let first = client
        .put_subscription(&name, &put("order.paid", "hook"), None)
        .await?;
    let again = client
        .put_subscription(&name, &put("order.paid", "hook"), None)
        .await?;
    let differs = client
        .put_subscription(&name, &put("order.*", "hook"), None)
        .await;
    let replaced = client.put_subscription(&name, &other, None).await?;
    let shown = client.get_subscription(&name).await?;
    let hidden = world.stranger().await?.get_subscription(&name).await;
    let in_use = client.delete_connection(&"hook".parse()?, None).await;
    let deleted = client.delete_subscription(&name, Some("d")).await?;
    let anew = client.delete_subscription(&name, None).await;

    assert_eq!(first.body.change, Change::Created);
    assert_eq!(again.body.change, Change::Unchanged);
    assert_eq!(refused(differs)?, Code::SubscriptionDiffers);
    assert_eq!(replaced.body.change, Change::Replaced);
    assert_eq!((shown.event.as_str(), shown.due), ("order.*", 0));
    assert_eq!(refused(hidden)?, Code::SubscriptionNotFound);
    assert_eq!(refused(in_use)?, Code::ConnectionInUse);
    assert_eq!(deleted.body.failed, 0);
    assert_eq!(refused(anew)?, Code::SubscriptionNotFound);
    assert!(client.list_subscriptions().await?.items.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_subscription_needs_a_valid_event_and_an_existing_webhook() -> Result<()> {
    let world = World::start().await?;
    let name: Label = "erp".parse()?;
    connect(
        &world,
        "books",
        json!({"http": {"base_url": "https://a.example"}}),
    )
    .await?;
    let webhook = json!({"webhook": {"url": "https://a.example/hook", "secret": "s"}});
    connect(&world, "hook", webhook).await?;

    let cases = [
        put("order.paid", "nowhere"),
        put("order.paid", "books"),
        put("Order Paid", "hook"),
        put("*", "hook"),
    ];
    for case in cases {
        let answer = world.client.put_subscription(&name, &case, None).await;

        assert_eq!(refused(answer)?, Code::SubscriptionInvalid, "{case:?}");
    }
    assert!(world.client.list_subscriptions().await?.items.is_empty());
    Ok(())
}

#[tokio::test]
async fn deliveries_are_listed_and_one_that_was_failed_is_tried_again() -> Result<()> {
    let (world, peer) = (World::start().await?, Peer::start().await?);
    let (client, name): (_, Label) = (&world.client, "erp".parse()?);
    let webhook = json!({"webhook": {"url": peer.url("/plain/erp"), "secret": "s"}});
    connect(&world, "hook", webhook).await?;
    let set = SetSecret {
        value: SecretText::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned()),
        overlap: None,
        hosts: None,
    };
    client.set_secret(&"s".parse()?, &set, None).await?;
    client
        .put_subscription(&name, &put("order.*", "hook"), None)
        .await?;
    let rest = "trigger: { api: {} }\nsteps:\n  - id: tell\n    emit: { event: order.paid }\n";
    let flow = world.publish("orders", rest).await?;
    peer.next("/plain/erp", Behaviour::RefuseWith(410)).await?;
    client.start_run(&flow, &start("o-1"), None).await?;

    let first = async |state: DeliveryState| {
        until_some(&format!("a delivery that is {state:?}"), async || {
            let filter = DeliveryFilter {
                state: Some(state),
                ..DeliveryFilter::default()
            };
            Ok(client.list_deliveries(&name, &filter).await?.items.pop())
        })
        .await
    };
    let failed = first(DeliveryState::Failed).await?;
    let stranger = world.stranger().await?;
    let foreign = stranger.retry_delivery(&name, failed.id, None).await;
    let retried = client.retry_delivery(&name, failed.id, Some("r")).await?;
    let delivered = first(DeliveryState::Delivered).await?;
    let replayed = client.retry_delivery(&name, failed.id, Some("r")).await?;
    let anew = client.retry_delivery(&name, failed.id, None).await;

    assert_eq!(refused(foreign)?, Code::SubscriptionNotFound);
    assert_eq!((retried.body.id, delivered.id), (failed.id, failed.id));
    assert_eq!((failed.event.as_str(), failed.attempt), ("order.paid", 1));
    assert!(!retried.replayed && replayed.replayed);
    assert_eq!(refused(anew)?, Code::DeliveryNotFailed);
    assert_eq!(peer.count("/plain/erp").await?.effects, 1);
    Ok(())
}

#[tokio::test]
async fn a_source_key_is_found_by_external_id_and_back() -> Result<()> {
    let (world, peer) = (World::start().await?, Peer::start().await?);
    let client = &world.client;
    let rest = format!(
        "trigger: {{ api: {{}} }}\nsteps:\n  - id: charge\n    http: {{ post: '{}' }}\n    \
         external_id: result.id\n",
        peer.url("/plain/charges")
    );
    let flow = world.publish("charge", &rest).await?;
    for key in ["o-1", "o-2"] {
        client.start_run(&flow, &start(key), None).await?;
        let by_key = of_key(&flow, key);
        until_some("the charge to have its external id", async || {
            let found = client.list_effects(&by_key).await?.items;
            Ok(found
                .into_iter()
                .find(|effect| effect.external_id.is_some()))
        })
        .await?;
    }

    let by_id = EffectFilter {
        external_id: Some("ext_1".to_owned()),
        ..EffectFilter::default()
    };
    let found = client.list_effects(&by_id).await?.items;
    let back = client.list_effects(&of_key(&flow, "o-2")).await?.items;
    let foreign = world.stranger().await?.list_effects(&by_id).await?;
    let half = EffectFilter {
        flow: Some(flow.clone()),
        ..EffectFilter::default()
    };
    let of_flow = client.list_effects(&half).await?.items;
    let none = client.list_effects(&of_key(&flow, "o-3")).await;

    let source = found[0]
        .source
        .as_ref()
        .map(|one| (one.flow.as_str(), one.key.as_str()));
    assert_eq!((found.len(), source), (1, Some(("charge", "o-2"))));
    assert_eq!(back, found);
    assert!(foreign.items.is_empty());
    assert!(of_flow.contains(&found[0]), "a flow is enough: {of_flow:?}");
    assert_eq!(refused(none)?, Code::KeyNotFound);
    Ok(())
}
