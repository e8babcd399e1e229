//! Callbacks: one call resumes, every other gets the same response or an error.

use anyhow::{Context, Result};
use semel_api::types::{Called, RunStatus, StartRun};
use semel_model::RunId;
use serde_json::json;

use crate::world::{World, patience_span};

const ASKING: &str = "trigger: { api: {} }\nsteps:\n\
    \x20 - id: tell\n    kv: { set: address, value: '${{ waits.answer.url }}' }\n\
    \x20 - id: answer\n    wait: { callback: true, within: 1h }\nresult: steps.answer.result\n";

/// Starts a run that waits, and gives the path of its callback.
async fn ask(world: &World) -> Result<(RunId, String)> {
    let flow = world.publish("asking", ASKING).await?;
    let start = StartRun {
        key: Some("k".to_owned()),
        ..StartRun::default()
    };
    let run = world.client.start_run(&flow, &start, None).await?.body.run;
    world.until_waiting(run).await?;
    let url = world.kv("address").await?;
    let token = url.as_str().and_then(|url| url.rsplit('/').next());
    Ok((run, format!("/callbacks/{}", token.context("an address")?)))
}

#[tokio::test]
async fn a_callback_resumes_its_run_and_a_repeat_gets_the_same_response() -> Result<()> {
    let world = World::start().await?;
    let (run, path) = ask(&world).await?;

    let first = world.bare.post(&path, r#"{"paid":true}"#).await?;
    let again = world.bare.post(&path, r#"{"paid":false}"#).await?;
    let end = world.client.await_run(run, patience_span()).await?;

    assert_eq!(
        (first.status.as_u16(), first.body.clone()),
        (200, again.body)
    );
    assert_eq!(first.json::<Called>()?.run, run);
    assert_eq!(first.headers.get("idempotency-replayed"), None);
    assert_eq!(again.headers["idempotency-replayed"], "true");
    assert_eq!(
        (end.state, end.result),
        (RunStatus::Succeeded, Some(json!({"paid": true})))
    );
    Ok(())
}

#[tokio::test]
async fn reading_the_address_changes_nothing() -> Result<()> {
    let world = World::start().await?;
    let (run, path) = ask(&world).await?;

    let page = world.bare.get(&path).await?;
    let stands = world.client.get_run(run).await?;

    assert_eq!(page.status, 200);
    assert!(page.text().contains("POST"));
    assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
    assert_eq!(page.header("cache-control"), Some("no-store"));
    assert_eq!(stands.run.state, RunStatus::Waiting);
    Ok(())
}

#[tokio::test]
async fn an_unknown_address_reveals_nothing() -> Result<()> {
    let world = World::start().await?;
    let (run, path) = ask(&world).await?;
    let cancel = semel_api::types::Cancel {
        reason: "over".to_owned(),
    };
    world.client.cancel_run(run, &cancel, "c").await?;
    world.client.await_run(run, patience_span()).await?;

    let ended = world.bare.post(&path, "{}").await?;
    let guessed = world.bare.post("/callbacks/AAAA", "{}").await?;

    assert_eq!((ended.status.as_u16(), guessed.status.as_u16()), (404, 404));
    assert_eq!(ended.body, guessed.body);
    assert_eq!(guessed.header("referrer-policy"), Some("no-referrer"));
    Ok(())
}

#[tokio::test]
async fn guessing_addresses_is_rate_limited() -> Result<()> {
    let world = World::start().await?;
    let (_, path) = ask(&world).await?;

    let mut statuses = Vec::new();
    for number in 0..15 {
        let guess = world
            .bare
            .post(&format!("/callbacks/guess{number}"), "{}")
            .await?;
        statuses.push(guess.status.as_u16());
    }
    let genuine = world.bare.post(&path, "{}").await?;

    assert_eq!(statuses[..10], [404; 10]);
    assert_eq!(statuses[14], 429);
    assert_eq!(genuine.status.as_u16(), 200, "what was made here is let in");
    Ok(())
}
