//! Fairness: a namespace with few runs beside one that fills every server.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures_util::future::try_join_all;
use semel_engine::{Budget, Engine, Intake, Options, WebhookRequest};
use semel_model::RunId;
use semel_model::run::RunState;
use semel_store::{Cell, CellOptions, namespaces};
use semel_testkit::peer::Held;
use semel_testkit::{patience, until, until_some};
use serde_json::json;

use crate::world::World;

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
    // The server has learned by then that there is more than one namespace.
    world.until_looked(1).await
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
    let bank = json!({
        "to": { "http": { "base_url": world.peer.url("") } },
        "limits": { "concurrency": 64 },
    });
    world.connect("bank", bank).await?;
    let steps = "steps:\n  - id: act\n    \
        http: { connection: bank, post: /hold/plain/act, json: {}, timeout: 10m }\n";
    world.publish(steps).await?;
    let engine = &world.engine;
    publish_quick(&world).await?;
    let payloads: Vec<String> = (0..40).map(|id| format!(r#"{{"id":"{id}"}}"#)).collect();
    let busy = try_join_all(payloads.iter().map(|payload| world.deliver(payload))).await?;
    // An eighth of the room is kept for others.
    let before = world.peer.until_held(14, patience()).await?;

    for id in 0..5 {
        let run = deliver_quick(&world, id).await?;
        let end = engine.await_end(run, patience()).await?.context("a run")?;
        assert_eq!(end.state, RunState::Succeeded);
    }

    let after = world.peer.until_held(14, patience()).await?;
    let ids = |held: &[Held]| held.iter().map(|one| one.id).collect::<Vec<u64>>();
    assert_eq!(before.len(), 14, "{before:?}");
    assert_eq!(ids(&before), ids(&after), "none of them ended meanwhile");
    for accepted in busy {
        assert_eq!(let_go(&world, accepted.run).await?, RunState::Succeeded);
    }
    Ok(())
}

const READ: &str = "flow: story\ntrigger:\n  webhook: { auth: none, key: input.id }\n\
    retry: { attempts: 1, delay: 100ms }\n\
    steps:\n  - { id: look, http: { connection: bank, get: /look, timeout: 10m } }\n";

#[tokio::test]
async fn what_operators_resume_leaves_room_for_other_namespaces() -> Result<()> {
    let world = World::start_with_room(16).await?;
    let bank = |path: &str| {
        json!({
            "to": { "http": { "base_url": world.peer.url(path) } },
            "limits": { "concurrency": 64 },
        })
    };
    world.connect("bank", bank("/status/503/plain")).await?;
    world.publish_source(READ).await?;
    let engine = &world.engine;
    publish_quick(&world).await?;
    let payloads: Vec<String> = (0..16).map(|id| format!(r#"{{"id":"{id}"}}"#)).collect();
    let stopped = try_join_all(payloads.iter().map(|payload| world.deliver(payload))).await?;
    for accepted in &stopped {
        let end = engine.await_end(accepted.run, patience()).await?;
        assert_eq!(end.context("a run")?.state, RunState::NeedsReview);
    }

    world.connect("bank", bank("/hold/plain")).await?;
    for accepted in &stopped {
        let again = engine.resume(world.namespace_id, accepted.run, "it is back", "test");
        again.await?;
    }
    // An eighth of the room is kept for others, also from operators.
    world.peer.until_held(14, patience()).await?;
    let run = deliver_quick(&world, 0).await?;
    let end = engine.await_end(run, patience()).await?.context("a run")?;

    assert_eq!(end.state, RunState::Succeeded);
    let held = world.peer.until_held(14, patience()).await?;
    assert_eq!(held.len(), 14, "the others wait in the queue");
    for accepted in stopped {
        assert_eq!(let_go(&world, accepted.run).await?, RunState::Succeeded);
    }
    Ok(())
}

/// Lets everything go that is held, until a run has ended or stopped.
async fn let_go(world: &World, run: RunId) -> Result<RunState> {
    let look = async || {
        world.peer.let_go().await?;
        let end = world.engine.await_end(run, Duration::from_millis(100));
        Ok(end.await?.context("a run")?.state)
    };
    let what = format!("the end of {run}");
    until(&what, look, |state| *state != RunState::Active).await
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

    let run = deliver_quick(&world, 0).await?;
    let end = world.engine.await_end(run, patience()).await?;
    // A large run waits for five seconds before it continues without memory.
    let waited = world.engine.metrics().runs_without_memory.get();

    assert_eq!(end.context("a run")?.state, RunState::Succeeded);
    assert_eq!(waited, 0, "it waited for no large run");
    // Two continue without memory, and four wait. Others go back, those of a take in one write, and their takes do not count.
    let held = world.peer.until_held(3, patience()).await?;
    let database = world.database().connect().await?;
    let text =
        "SELECT max(stalled_takes), max(epoch), count(*), count(DISTINCT xmin::text) FROM queue
                 WHERE holder IS NULL AND due_at > moment()";
    let (counted, takes) = until_some("runs that went back in one write", async || {
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
        assert_eq!(let_go(&world, accepted.run).await?, RunState::Succeeded);
    }
    Ok(())
}

#[tokio::test]
async fn a_run_that_outgrows_the_memory_goes_back_and_continues_when_there_is_some() -> Result<()> {
    let mut world = World::start().await?;
    world.engine.shutdown().await;
    let budget = Budget::of_bytes(1 << 20);
    let options = Options {
        memory: budget.clone(),
        ..world.engine.options().clone()
    };
    let cell = Cell::connect(&world.database().url(), CellOptions::default()).await?;
    world.engine = Engine::start(cell, options).await?;
    let steps = "steps:\n  \
        - { id: act, http: { post: 'PEER/hang/plain/act', json: {}, timeout: 10m } }\n  \
        - { id: wide, function: input.rows }\n  - { id: wider, function: input.rows }\n";
    world.publish(steps).await?;
    let rows = "0,".repeat(2_000);
    let run = world
        .deliver(&format!(r#"{{"id":"1","rows":[{rows}0]}}"#))
        .await?
        .run;
    world.peer.until_held(1, patience()).await?;
    // Others have all but a little of the memory by the time the run grows.
    let others = budget.try_take(800 << 10).context("most of the memory")?;
    world.peer.let_go().await?;

    let engine = &world.engine;
    let look = async || Ok(engine.metrics().runs_put_back.get());
    until("the run to go back", look, |count| *count > 0).await?;
    drop(others);
    world.move_clock(Duration::from_secs(3)).await?;
    let end = engine.await_end(run, patience()).await?.context("a run")?;

    assert_eq!(end.state, RunState::Succeeded);
    let database = world.database().connect().await?;
    let leases = "SELECT count(DISTINCT epoch) FROM journal WHERE run_id = $1";
    let leases: i64 = database.query_one(leases, &[run.as_uuid()]).await?.get(0);
    assert!(
        leases > 1,
        "what its step gave was written before another turn took the run"
    );
    assert_eq!(world.peer.count("/hang/plain/act").await?.effects, 1);
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
    // Each has seen the other by then.
    world.until_looked(2).await?;

    for id in 0..12 {
        let engine = if id % 2 == 0 { &world.engine } else { &second };
        let payload = format!(r#"{{"id":"{id}"}}"#);
        world.deliver_at(engine, "story", &payload).await?;
    }
    let database = world.database().connect().await?;
    let refused = "SELECT count(DISTINCT run_id) FROM journal
                    WHERE events::text LIKE '%destination-busy%'";
    let look = async || {
        let held = world.peer.until_held(0, Duration::ZERO).await?.len();
        let refused: i64 = database.query_one(refused, &[]).await?.get(0);
        Ok((held, usize::try_from(refused)?))
    };
    let what = "every run to be held, or turned away";
    let seen = until(what, look, |(held, refused)| held + refused >= 12).await?;
    assert_eq!(seen, (4, 8), "two of each server are held");

    // The one that is left has all of it again, once the other's lease is over.
    second.shutdown_within(Duration::from_secs(1)).await;
    world.peer.let_go().await?;
    let over = "UPDATE sessions SET expires_at = moment()
                 WHERE started_at = (SELECT max(started_at) FROM sessions)";
    assert_eq!(database.execute(over, &[]).await?, 1);
    let alone = world.peer.until_held(4, patience()).await?;
    assert_eq!(alone.len(), 4);
    world.peer.let_go().await?;
    Ok(())
}
