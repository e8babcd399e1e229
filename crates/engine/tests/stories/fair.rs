//! Fairness: a namespace with few runs beside one that fills every server.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures_util::future::try_join_all;
use semel_engine::{Budget, Engine, Intake, Options, WebhookRequest};
use semel_model::RunId;
use semel_model::run::RunState;
use semel_store::{Cell, CellOptions, namespaces};
use semel_testkit::patience;
use serde_json::json;

use crate::world::{World, soon};

const QUICK: &str = "flow: quick\ntrigger:\n  webhook: { auth: none, key: input.id }\n\
    steps:\n  - { id: rest, wait: { for: 10ms } }\n  - { id: one, function: '1' }\n";

/// Publishes the flow of the quiet namespace.
async fn publish_quick(world: &World) -> Result<()> {
    let engine = &world.engine;
    let quiet = namespaces::ensure(engine.cell().home(), &"quiet".parse()?).await?;
    let flow = engine.push_flow(quiet, QUICK).await?;
    let published = engine.publish_flow(quiet, &flow, "test").await?;
    engine
        .promote_flow(quiet, &flow, published.number, "test")
        .await?;
    // The server has learned by now that there is more than one namespace.
    tokio::time::sleep(Duration::from_millis(700)).await;
    Ok(())
}

/// Delivers to the flow of the quiet namespace.
async fn deliver_quick(world: &World, id: usize) -> Result<RunId> {
    let arrival = WebhookRequest {
        namespace: "quiet".to_owned(),
        path: "quick".to_owned(),
        target: "/hooks/quiet/quick".to_owned(),
        body: format!(r#"{{"id":"{id}"}}"#).into_bytes(),
        headers: Vec::new(),
        query: Vec::new(),
    };
    let engine = &world.engine;
    match engine.deliver(engine.authenticate(arrival).await?).await? {
        Intake::Accepted(accepted) => Ok(accepted.run),
        other @ (Intake::Ignored | Intake::Held(_) | Intake::Stale(_)) => bail!("{other:?}"),
    }
}

#[tokio::test]
async fn a_namespace_that_fills_the_server_leaves_room_for_another() -> Result<()> {
    let world = World::start_with_room(16).await?;
    let steps = "steps:\n  - { id: act, http: { post: 'PEER/slow/1000/plain/act', json: {} } }\n";
    world.publish(steps).await?;
    let engine = &world.engine;
    publish_quick(&world).await?;
    let payloads: Vec<String> = (0..80).map(|id| format!(r#"{{"id":"{id}"}}"#)).collect();
    let busy = try_join_all(payloads.iter().map(|payload| world.deliver(payload))).await?;

    let mut slowest = Duration::ZERO;
    for id in 0..5 {
        let begun = Instant::now();
        let run = deliver_quick(&world, id).await?;
        let end = engine.await_end(run, patience()).await?.context("a run")?;
        assert_eq!(end.state, RunState::Succeeded);
        slowest = slowest.max(begun.elapsed());
    }

    // Five rounds of sixteen take a second each; all the quick ones ended in the first.
    assert!(slowest < Duration::from_millis(700), "it took {slowest:?}");
    for accepted in busy {
        let end = engine.await_end(accepted.run, patience()).await?;
        assert_eq!(end.context("a run")?.state, RunState::Succeeded);
    }
    Ok(())
}

#[tokio::test]
async fn large_runs_that_wait_for_memory_hold_up_no_other_namespace() -> Result<()> {
    let mut world = World::start().await?;
    world.engine.shutdown().await;
    let options = Options {
        memory: Budget::of_bytes(1 << 20),
        ..world.engine.options().clone()
    };
    let cell = Cell::connect(&world.database().url(), CellOptions::default()).await?;
    world.engine = Engine::start(cell, options).await?;
    let steps =
        "steps:\n  - { id: act, http: { post: 'PEER/hang/plain/act', json: {}, timeout: 10m } }\n";
    world.publish(steps).await?;
    publish_quick(&world).await?;
    // Each needs more than all the memory.
    let many = "0,".repeat(16_000);
    let large = |id: usize| format!(r#"{{"id":"{id}","many":[{many}0]}}"#);
    let mut busy = vec![world.deliver(&large(0)).await?];
    world.peer.until_held(1, patience()).await?;
    let payloads: Vec<String> = (1..=10).map(large).collect();
    busy.extend(try_join_all(payloads.iter().map(|payload| world.deliver(payload))).await?);

    let begun = Instant::now();
    let run = deliver_quick(&world, 0).await?;
    let end = world.engine.await_end(run, patience()).await?;
    assert_eq!(end.context("a run")?.state, RunState::Succeeded);
    let took = begun.elapsed();

    // A large run waits for five seconds.
    assert!(took < Duration::from_secs(3), "it took {took:?}");
    // Two continue without memory, and four wait. Others go back, those of a take in one write, and their takes do not count.
    let held = world.peer.until_held(3, patience()).await?;
    let database = world.database().connect().await?;
    let text =
        "SELECT max(stalled_takes), max(epoch), count(*), count(DISTINCT xmin::text) FROM queue
                 WHERE holder IS NULL AND due_at > moment()";
    let (counted, takes) = soon(async || {
        let waiting = database.query_one(text, &[]).await?;
        let (count, writes): (i64, i64) = (waiting.get(2), waiting.get(3));
        Ok((writes < count).then(|| (waiting.get::<_, i16>(0), waiting.get::<_, i64>(1))))
    })
    .await?;
    let still = world.peer.until_held(3, patience()).await?;
    assert_eq!((held.len(), still.len()), (3, 3));
    assert!(counted <= 1 && takes > 2, "{counted} of {takes}");
    let metrics = world.engine.metrics();
    assert!(metrics.runs_put_back.get() >= 8);
    assert_eq!(metrics.runs_without_memory.get(), 2);
    for accepted in busy {
        let end = soon(async || {
            world.peer.let_go().await?;
            let end = world
                .engine
                .await_end(accepted.run, Duration::from_millis(100));
            Ok(end.await?.filter(|run| run.state != RunState::Active))
        });
        assert_eq!(end.await?.state, RunState::Succeeded);
    }
    Ok(())
}

#[tokio::test]
async fn two_servers_share_the_limit_of_a_connection() -> Result<()> {
    let world = World::start().await?;
    let bank = json!({
        "to": { "http": { "base_url": world.peer.url("") } },
        "limits": { "concurrency": 4 },
    });
    world.connect("bank", bank).await?;
    let steps =
        "steps:\n  - id: act\n    http: { connection: bank, post: /hold/plain/act, json: {} }\n";
    world.publish(steps).await?;
    let second = world.start_another().await?;
    // Each has seen the other by now.
    tokio::time::sleep(Duration::from_secs(1)).await;

    for id in 0..12 {
        let engine = if id % 2 == 0 { &world.engine } else { &second };
        let payload = format!(r#"{{"id":"{id}"}}"#);
        world.deliver_at(engine, "story", &payload).await?;
    }
    let held = world.peer.until_held(4, patience()).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let still = world.peer.until_held(4, patience()).await?;
    assert_eq!((held.len(), still.len()), (4, 4), "two of each server");

    // The one that is left has all of it again.
    second.shutdown_within(Duration::from_secs(1)).await;
    world.peer.let_go().await?;
    let alone = world.peer.until_held(4, patience()).await?;
    assert_eq!(alone.len(), 4);
    while world.peer.let_go().await? > 0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}
