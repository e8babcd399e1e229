//! `GET /v1/keys/{flow}/audit`: what real traffic says about a key.

use std::time::Duration;

use anyhow::Result;
use semel_model::Span;
use semel_store::clock;
use semel_testkit::{until, until_some};

use crate::world::World;

const BY_CUSTOMER: &str = "
trigger:
  webhook: { auth: none, key: input.customer }
steps:
  - id: note
    kv: { set: 'seen/${{ input.customer }}', value: 1 }
";

const BY_HEADER: &str = "
trigger:
  webhook: { auth: none, key: 'headers[\"x-try\"]' }
steps:
  - id: note
    kv: { set: 'seen/${{ input.id }}', value: 1 }
";

#[tokio::test]
async fn a_key_that_merges_different_work_is_seen_in_the_fields_that_differ() -> Result<()> {
    let world = World::start().await?;
    world.publish("by-customer", BY_CUSTOMER).await?;
    for order in ["1", "2", "2", "3"] {
        let body = format!(r#"{{"customer":"c9","order":{{"id":"{order}","to":"x"}}}}"#);
        world.bare.post("/hooks/main/by-customer", body).await?;
    }

    let audit = until_some("four deliveries to be audited", async || {
        let flow = "by-customer".parse()?;
        let audit = world.client.audit_keys(&flow, Span::from_secs(60)).await?;
        Ok((audit.deliveries == 4).then_some(audit))
    })
    .await?;

    assert_eq!((audit.keys, audit.differing.payloads), (1, 2));
    assert_eq!(audit.differing.deliveries, 3);
    let fields: Vec<&str> = audit.differing.fields.iter().map(|it| &*it.path).collect();
    assert_eq!(fields, ["order.id"]);
    assert_eq!(audit.differing.fields[0].example, "c9");
    assert_eq!((audit.shared.payloads, audit.late.count), (0, 0));
    Ok(())
}

#[tokio::test]
async fn a_key_that_changes_with_each_delivery_is_seen_in_payloads_that_it_does_not_hold()
-> Result<()> {
    let world = World::start().await?;
    world.publish("by-header", BY_HEADER).await?;
    for (attempt, id) in [("a", "1"), ("b", "1"), ("c", "1"), ("d", "2")] {
        let body = format!(r#"{{"id":"{id}"}}"#);
        let headers = [("x-try", attempt), ("content-type", "application/json")];
        let path = "/hooks/main/by-header";
        let method = axum::http::Method::POST;
        world.bare.send(method, path, &headers, body.into()).await?;
    }

    let flow = "by-header".parse()?;
    let audit = world.client.audit_keys(&flow, Span::from_secs(60)).await?;

    assert_eq!((audit.deliveries, audit.keys), (4, 4));
    assert_eq!((audit.shared.payloads, audit.shared.runs), (1, 3));
    assert_eq!(audit.shared.examples[0].keys, 3);
    assert_eq!(audit.shared.examples[0].examples, ["a", "b", "c"]);
    Ok(())
}

#[tokio::test]
async fn a_repeat_long_after_the_window_is_seen() -> Result<()> {
    let world = World::start().await?;
    world.publish("by-customer", BY_CUSTOMER).await?;
    let body = r#"{"customer":"c1"}"#;
    world.bare.post("/hooks/main/by-customer", body).await?;
    // The server tells the time of a repeat by its own clock, which is a few milliseconds off.
    let first = world.engine.now();
    clock::move_ahead(world.engine.cell(), Duration::from_secs(2)).await?;
    let later = async || Ok(world.engine.now().duration_since(first).as_secs());
    until("the server's clock to be ahead", later, |secs| *secs >= 1).await?;
    world.bare.post("/hooks/main/by-customer", body).await?;

    // With no window at all every repeat is late.
    let audit = until_some("the late repeat to be audited", async || {
        let flow = "by-customer".parse()?;
        let audit = world.client.audit_keys(&flow, Span::from_secs(0)).await?;
        Ok((audit.late.count == 1).then_some(audit))
    })
    .await?;

    assert_eq!(audit.late.examples[0].key, "c1");
    assert_eq!(audit.late.examples[0].count, 1);
    Ok(())
}
