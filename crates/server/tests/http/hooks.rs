//! Hooks: a delivery that comes again gets the first answer.

use anyhow::Result;
use hyper::Method;
use semel_api::Problem;
use semel_api::types::Started;
use semel_testkit::until_some;
use serde_json::Value;

use crate::world::World;

const ORDERS: &str = "trigger:\n  webhook: { auth: none, key: input.id, when: 'input.type != \"ping\"' }\n\
    steps:\n  - id: note\n    kv: { add: orders }\nresult: steps.note.result\n";

#[tokio::test]
async fn a_delivery_that_comes_again_gets_the_same_run() -> Result<()> {
    let world = World::start().await?;
    world.publish("orders", ORDERS).await?;
    let body = r#"{"id":"42","type":"paid"}"#;

    let first = world.bare.post("/hooks/main/orders", body).await?;
    let again = world.bare.post("/hooks/main/orders", body).await?;

    let (one, other): (Started, Started) = (first.json()?, again.json()?);
    assert_eq!((first.status.as_u16(), again.status.as_u16()), (202, 202));
    assert_eq!(
        (one.run, one.key, one.flow),
        (other.run, other.key, other.flow)
    );
    assert_eq!(first.header("idempotency-replayed"), None);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    Ok(())
}

#[tokio::test]
async fn repeats_are_recorded() -> Result<()> {
    let world = World::start().await?;
    world.publish("orders", ORDERS).await?;
    for _ in 0..3 {
        world
            .bare
            .post("/hooks/main/orders", r#"{"id":"42","type":"paid"}"#)
            .await?;
    }

    let duplicate = until_some("two repeats to be recorded", async || {
        let page = world.client.list_duplicates_of_key("42").await?;
        Ok(page.items.into_iter().find(|one| one.count == 2))
    })
    .await?;

    assert_eq!(duplicate.verdict, "repeat");
    assert_eq!(duplicate.flow.as_deref(), Some("orders"));
    Ok(())
}

#[tokio::test]
async fn a_delivery_that_fails_when_is_ignored() -> Result<()> {
    let world = World::start().await?;
    world.publish("orders", ORDERS).await?;

    let answer = world
        .bare
        .post("/hooks/main/orders", r#"{"id":"1","type":"ping"}"#)
        .await?;

    assert_eq!(answer.status, 200);
    assert_eq!(answer.json::<Value>()?["ignored"], true);
    Ok(())
}

#[tokio::test]
async fn a_known_key_with_another_payload_is_treated_as_the_trigger_says() -> Result<()> {
    let world = World::start().await?;
    world.publish("orders", ORDERS).await?;
    let kept = ORDERS.replace("key: input.id,", "key: input.id, mismatch: hold,");
    world.publish("kept", &kept).await?;
    for path in ["orders", "kept"] {
        let path = format!("/hooks/main/{path}");
        world.bare.post(&path, r#"{"id":"1","type":"a"}"#).await?;
    }

    let other = r#"{"id":"1","type":"b"}"#;
    let rejected = world.bare.post("/hooks/main/orders", other).await?;
    let own_key = [("idempotency-key", "k-1")];
    let told = world
        .bare
        .send(Method::POST, "/hooks/main/orders", &own_key, other.into())
        .await?;
    let quarantined = world.bare.post("/hooks/main/kept", other).await?;

    let said: Value = rejected.json()?;
    assert_eq!(rejected.status, 200, "a provider does not send it again");
    assert_eq!(
        (&said["accepted"], &said["code"]),
        (&Value::from(false), &Value::from("payload-mismatch"))
    );
    let recorded = world.client.list_duplicates_of_key("1").await?.items;
    let mismatch = recorded.iter().find(|one| one.verdict == "mismatch");
    assert!(
        mismatch.is_some(),
        "recorded before it is answered: {recorded:?}"
    );
    let problem: Problem = told.json()?;
    assert_eq!(
        (told.status.as_u16(), problem.code.as_str()),
        (422, "payload-mismatch"),
        "a program that sends a key of its own reads the answer"
    );
    assert!(problem.run.is_some());
    assert_eq!(quarantined.status, 202);
    assert!(quarantined.json::<Started>()?.held);
    Ok(())
}

#[tokio::test]
async fn a_delivery_without_a_key_starts_nothing() -> Result<()> {
    let world = World::start().await?;
    world.publish("orders", ORDERS).await?;

    let keyless = world
        .bare
        .post("/hooks/main/orders", r#"{"type":"a"}"#)
        .await?;
    let garbled = world.bare.post("/hooks/main/orders", "{").await?;
    let nowhere = world.bare.post("/hooks/main/nowhere", "{}").await?;

    let codes = [&keyless, &garbled, &nowhere].map(|answer| answer.json::<Problem>());
    let [keyless, garbled, nowhere] = codes;
    assert_eq!(
        (keyless?.code.as_str(), garbled?.status),
        ("key-failed", 400)
    );
    assert_eq!(nowhere?.code, "hook-not-found");
    Ok(())
}
