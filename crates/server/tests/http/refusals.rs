//! Deliveries that were refused, as operators list them.

use anyhow::Result;
use semel_api::Client;
use semel_api::types::RefusedFilter;
use semel_model::Right;

use crate::world::{World, add_token_with};

const HOOK: &str = "/hooks/main/orders";

const REJECTING: &str = "trigger:\n  webhook: { auth: none, key: input.id, mismatch: reject }\n\
    steps:\n  - { id: note, kv: { add: orders } }\n";

#[tokio::test]
async fn refused_deliveries_are_listed_by_flow_code_and_time() -> Result<()> {
    let world = World::start().await?;
    world.publish("orders", REJECTING).await?;
    world.publish("others", REJECTING).await?;
    let large = format!(r#"{{"id":"2","text":"{}"}}"#, "x".repeat(1 << 20));
    for body in [
        r#"{"id":"1"}"#,
        r#"{"id":"1","n":2}"#,
        r#"{"no":"id"}"#,
        "{",
        large.as_str(),
    ] {
        world.bare.post(HOOK, body.to_owned()).await?;
    }
    world.bare.post("/hooks/main/others", "{}").await?;
    let list = async |filter: RefusedFilter| -> Result<Vec<String>> {
        let page = world.client.list_refused(&filter).await?;
        Ok(page.items.into_iter().map(|one| one.code).collect())
    };
    let of = |flow: &str| RefusedFilter {
        flow: Some(flow.to_owned()),
        ..RefusedFilter::default()
    };

    let all = list(of("orders")).await?;
    let mismatches = RefusedFilter {
        code: Some("payload-mismatch".to_owned()),
        ..RefusedFilter::default()
    };
    let hour = jiff::SignedDuration::from_hours(1);
    let later = RefusedFilter {
        since: Some(world.now().await? + hour),
        ..RefusedFilter::default()
    };
    let paged = RefusedFilter {
        limit: Some(2),
        ..of("orders")
    };
    let page = world.client.list_refused(&paged).await?;
    let rest = RefusedFilter {
        cursor: page.next.clone(),
        ..of("orders")
    };

    assert_eq!(
        all,
        [
            "body-too-large",
            "body-not-json",
            "key-failed",
            "payload-mismatch"
        ]
    );
    assert_eq!(list(of("others")).await?, ["key-failed"]);
    assert_eq!(list(mismatches).await?, ["payload-mismatch"]);
    assert_eq!(list(later).await?, Vec::<String>::new());
    assert_eq!(page.items.len(), 2);
    assert_eq!(list(rest).await?, ["key-failed", "payload-mismatch"]);
    let reader = add_token_with(world.engine.cell(), "reader", Right::Read.into()).await?;
    let reader = Client::new(world.client.base(), &reader)?;
    let seen = reader.list_refused(&of("orders")).await?.items;
    assert!(seen.iter().all(|one| one.message.is_none()), "{seen:?}");
    Ok(())
}

/// Nobody has verified who sends too much: it must not use up the rows of those who were verified.
#[tokio::test]
async fn a_storm_of_oversize_bodies_hides_no_other_refusal() -> Result<()> {
    let world = World::start().await?;
    world.publish("orders", REJECTING).await?;
    let large = format!(r#"{{"id":"2","text":"{}"}}"#, "x".repeat(1 << 20));
    for _ in 0..70 {
        let answer = world.bare.post(HOOK, large.clone()).await?;
        assert_eq!(answer.status, 413);
    }

    world.bare.post(HOOK, r#"{"no":"id"}"#).await?;
    let refused = world.client.list_refused(&RefusedFilter::default()).await?;

    let codes: Vec<&str> = refused.items.iter().map(|one| one.code.as_str()).collect();
    assert_eq!(codes, ["key-failed", "body-too-large"]);
    let metrics = world.metrics().await?.text();
    assert!(metrics.contains("refused_total 71"), "all are counted");
    Ok(())
}
