//! Effects: performed once, recorded in order.

use anyhow::Result;
use semel_model::run::RunState;
use semel_testkit::peer::Behaviour;
use serde_json::json;

use crate::world::World;

#[tokio::test]
async fn an_order_delivered_twice_is_charged_once() -> Result<()> {
    let world = World::start().await?;
    world
        .publish(
            "steps:\n  - id: charge\n    http: { post: 'PEER/plain/charges', json: { order: '${{ input.id }}' } }\n\
             result: steps.charge.status\n",
        )
        .await?;

    let (first, end) = world.play(r#"{"id":"order-42"}"#).await?;
    let (again, _) = world.play(r#"{"id":"order-42"}"#).await?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(first.run, again.run, "both deliveries name the same run");
    assert!(!first.replayed && again.replayed);
    assert_eq!(
        world.peer.count("/plain/").await?.effects,
        1,
        "the bank is asked once"
    );
    Ok(())
}

#[tokio::test]
async fn three_entries_are_written_and_counted() -> Result<()> {
    let world = World::start().await?;
    world
        .publish(
            "steps:\n  - id: a\n    kv: { set: 'a/${{ input.id }}', value: '${{ input.n }}' }\n\
             \x20 - id: b\n    kv: { add: total }\n  - id: c\n    kv: { get: 'a/${{ input.id }}' }\n\
             \x20 - id: d\n    function: steps.c.result + steps.b.result\nresult: steps.d.result\n",
        )
        .await?;

    let first = world.result(r#"{"id":"x","n":40}"#).await?;
    let second = world.result(r#"{"id":"y","n":40}"#).await?;

    assert_eq!((first, second), (json!(41), json!(42)));
    Ok(())
}

#[tokio::test]
async fn a_refused_attempt_is_made_again() -> Result<()> {
    let world = World::start().await?;
    world
        .publish(
            "steps:\n  - id: call\n    http: { post: 'PEER/fail-first/2/plain/x', text: hi }\n",
        )
        .await?;

    let (_, end) = world.play(r#"{"id":"1"}"#).await?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(world.peer.count("/").await?.effects, 1);
    Ok(())
}

#[tokio::test]
async fn a_refusal_that_stays_fails_the_run() -> Result<()> {
    let world = World::start().await?;
    world
        .publish("steps:\n  - id: call\n    http: { post: 'PEER/plain/x', text: hi }\n")
        .await?;
    world
        .peer
        .next("/plain/", Behaviour::RefuseWith(404))
        .await?;

    let (_, end) = world.play(r#"{"id":"1"}"#).await?;

    assert_eq!(end.state, RunState::Failed);
    assert!(end.fault.unwrap_or_default().contains("http-404"));
    Ok(())
}

#[tokio::test]
async fn exhausted_retries_need_review() -> Result<()> {
    let world = World::start().await?;
    world
        .publish("steps:\n  - id: call\n    http: { post: 'PEER/plain/x', text: hi }\n")
        .await?;
    world
        .peer
        .next_times("/plain/", 9, Behaviour::RefuseWith(429))
        .await?;

    let (_, end) = world.play(r#"{"id":"1"}"#).await?;

    assert_eq!(end.state, RunState::NeedsReview);
    assert_eq!(world.peer.count("/plain/").await?.effects, 0);
    Ok(())
}

#[tokio::test]
async fn a_skipped_step_leaves_no_trace() -> Result<()> {
    let world = World::start().await?;
    world
        .publish(
            "steps:\n  - id: call\n    if: input.n > 3\n    http: { post: 'PEER/plain/x', text: hi }\n\
             result: '\"done\"'\n",
        )
        .await?;

    let result = world.result(r#"{"id":"1","n":3}"#).await?;

    assert_eq!(result, json!("done"));
    assert_eq!(world.peer.count("/plain/").await?.calls, 0);
    Ok(())
}
