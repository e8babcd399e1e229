//! Pauses: nothing begins after one has returned, time stands still, and all runs end after it.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use semel_engine::{Accepted, Engine, Intake, PauseCommandError, WebhookRequest};
use semel_model::run::RunState;
use semel_store::pauses::{self, PAUSES_MAX, PauseKind};
use semel_testkit::peer::Behaviour;
use semel_testkit::{patience, until, until_some};
use serde_json::{Value, json};

use crate::world::World;

mod connections;

const FLOW: (PauseKind, &str) = (PauseKind::Flow, "story");

const THREE: &str = "steps:\n  - id: a\n    http: { post: 'PEER/plain/a', json: { id: '${{ input.id }}' } }\n\
    \x20 - id: b\n    http: { post: 'PEER/plain/b', json: { id: '${{ input.id }}' } }\n\
    \x20 - id: c\n    http: { post: 'PEER/plain/c', json: { id: '${{ input.id }}' } }\n";

const INTENTS: &str = "
    SELECT count(*) FROM journal j, json_array_elements(j.events) AS e
     WHERE e ->> 'event' = 'intended'";

const OPEN_RUNS: &str = "SELECT count(*) FROM queue";

const HELD_RUNS: &str = "SELECT count(*) FROM paused_runs";

async fn count(world: &World, sql: &str) -> Result<i64> {
    // Not over the engine's own connections, which a thousand runs keep busy.
    let client = world.database().connect().await?;
    Ok(client.query_one(sql, &[]).await?.get(0))
}

async fn deliver_by(engine: &Engine, id: usize) -> Result<Accepted> {
    let arrival = WebhookRequest {
        namespace: "default".to_owned(),
        path: "story".to_owned(),
        target: "/hooks/default/story".to_owned(),
        body: json!({ "id": id.to_string() }).to_string().into_bytes(),
        headers: Vec::new(),
        query: Vec::new(),
    };
    match engine.deliver(engine.authenticate(arrival).await?).await? {
        Intake::Accepted(accepted) => Ok(accepted),
        Intake::Ignored | Intake::Held(_) | Intake::Stale(_) => anyhow::bail!("not accepted"),
    }
}

/// Waits until a query counts so many.
async fn until_count(world: &World, what: &str, sql: &str, wanted: i64) -> Result<()> {
    let client = world.database().connect().await?;
    let look = async || -> Result<i64> { Ok(client.query_one(sql, &[]).await?.get(0)) };
    until(what, look, |count| *count == wanted).await?;
    Ok(())
}

/// Waits until so many runs sleep for a pause.
async fn until_held(world: &World, runs: i64) -> Result<()> {
    until_count(world, "runs to sleep for the pause", HELD_RUNS, runs).await
}

/// Waits until every run has ended.
pub(crate) async fn all_end(world: &World) -> Result<()> {
    until_count(world, "every run to end", OPEN_RUNS, 0).await
}

/// Waits until every run that has not ended sleeps for a pause; says how many these are.
pub(crate) async fn until_all_paused(world: &World) -> Result<i64> {
    let client = world.database().connect().await?;
    let both = format!("SELECT ({OPEN_RUNS}), ({HELD_RUNS})");
    let look = async || -> Result<(i64, i64)> {
        let row = client.query_one(&both, &[]).await?;
        Ok((row.get(0), row.get(1)))
    };
    let (open, _) = until("every run to sleep", look, |(open, held)| open == held).await?;
    Ok(open)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_intent_follows_a_pause_during_a_thousand_runs_on_two_servers() -> Result<()> {
    const RUNS: usize = 1_000;
    let world = World::start().await?;
    let other = world.start_another().await?;
    world.publish(THREE).await?;
    until_some("the other server to know the flow", async || {
        Ok(deliver_by(&other, 0).await.ok())
    })
    .await?;
    let engines = [world.engine.clone(), other.clone()];
    let deliveries = tokio::spawn(async move {
        let accepted = (1..RUNS).map(|id| deliver_by(&engines[id % 2], id));
        futures_util::future::try_join_all(accepted).await
    });
    let intents = async || count(&world, INTENTS).await;
    until("a hundred intents", intents, |intents| *intents > 100).await?;

    let changed = world
        .engine
        .pause(world.by(), FLOW, "the bank asks")
        .await?;
    let at_return = count(&world, INTENTS).await?;
    let accepted = deliveries.await??;
    let open = until_all_paused(&world).await?;
    let later = count(&world, INTENTS).await?;
    let again = other.pause(world.by(), FLOW, "the bank asks").await?;

    assert!(changed && !again, "pausing twice is pausing once");
    assert_eq!(accepted.len(), RUNS - 1, "deliveries are accepted");
    assert_eq!(at_return, later, "no intent is written after the pause");
    ensure!(open > 0, "the pause came in time: {later} intents");
    ensure!(other.resume_paused(world.by(), FLOW, None, None).await?);
    all_end(&world).await?;
    let seen = world.peer.count("/plain/").await?;
    assert_eq!(
        (seen.effects, seen.calls),
        (3 * RUNS as u64, 3 * RUNS as u64)
    );
    assert_eq!(count(&world, HELD_RUNS).await?, 0);
    other.shutdown().await;
    Ok(())
}

/// When servers looked for transactions that a pause waits for, as far as their connections still show it.
async fn writers_looked_for(world: &World) -> Result<Vec<String>> {
    let client = world.database().connect().await?;
    let looked = "SELECT query_start::text FROM pg_stat_activity
                   WHERE datname = current_database() AND application_name = 'semel'
                     AND query LIKE '%l.virtualtransaction%'";
    let rows = client.query(looked, &[]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_waits_for_a_write_that_began_before_it() -> Result<()> {
    let world = World::start().await?;
    let other = world.start_another().await?;
    world
        .publish(&THREE.replacen("/plain/a", "/hold/plain/a", 1))
        .await?;
    let run = world.deliver(r#"{"id":"1"}"#).await?.run;
    world.peer.until_held(1, patience()).await?;
    let mut client = world.database().connect().await?;
    let lock = client.transaction().await?;
    let held = "SELECT 1 FROM queue WHERE run_id = $1 FOR UPDATE";
    lock.execute(held, &[run.as_uuid()]).await?;
    // The outcome of the first effect and the intent of the second wait for the row.
    world.peer.let_go().await?;
    let waits = "SELECT count(*) FROM pg_stat_activity
                  WHERE wait_event_type = 'Lock' AND datname = current_database()";
    let waiting = async || count(&world, waits).await;
    until("a write to wait for the row", waiting, |waiting| {
        *waiting > 0
    })
    .await?;
    let by = world.by();
    let pausing = tokio::spawn(async move { other.pause(by, FLOW, "the bank asks").await });
    let mut looks = BTreeSet::new();
    let look = async || {
        looks.extend(writers_looked_for(&world).await?);
        Ok((pausing.is_finished(), looks.len()))
    };
    let what = "the pause to look for writers again, or to return";
    let (returned, _) = until(what, look, |(returned, looks)| *returned || *looks > 1).await?;
    lock.rollback().await?;

    pausing.await??;
    let at_return = count(&world, INTENTS).await?;
    until_all_paused(&world).await?;
    let later = count(&world, INTENTS).await?;

    assert!(!returned, "the pause waits");
    assert_eq!((at_return, later), (2, 2), "the write that began before");
    ensure!(
        world
            .engine
            .resume_paused(world.by(), FLOW, None, None)
            .await?
    );
    all_end(&world).await
}

#[tokio::test]
async fn an_outcome_that_arrives_during_a_pause_is_recorded() -> Result<()> {
    let world = World::start().await?;
    world
        .publish(&THREE.replacen("/plain/a", "/hold/plain/a", 1))
        .await?;
    let run = world.deliver(r#"{"id":"1"}"#).await?.run;
    world.peer.until_held(1, patience()).await?;
    world.engine.pause(world.by(), FLOW, "why not").await?;
    world.peer.let_go().await?;
    until_held(&world, 1).await?;
    let done = "SELECT count(*) FROM effects WHERE state = 'done'";

    assert_eq!(count(&world, done).await?, 1);
    assert_eq!(count(&world, INTENTS).await?, 1);
    world
        .engine
        .resume_paused(world.by(), FLOW, None, None)
        .await?;
    let end = world
        .engine
        .await_end(run, patience())
        .await?
        .context("a run")?;
    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(world.peer.count("/").await?.effects, 3);
    Ok(())
}

const CALLBACK: &str = "steps:\n  - id: tell\n    kv: { set: url, value: '${{ waits.answer.url }}' }\n\
    \x20 - id: answer\n    wait: { callback: true, within: 1h }\n\
    result: steps.answer.result\n";

/// A run that waits for a callback within an hour, and the token of that.
async fn waiting(world: &World) -> Result<(Accepted, String)> {
    waiting_at(world, CALLBACK).await
}

async fn waiting_at(world: &World, steps: &str) -> Result<(Accepted, String)> {
    world.publish(steps).await?;
    let accepted = world.deliver(r#"{"id":"1"}"#).await?;
    let open = "SELECT count(*) FROM waits WHERE state = 'open'";
    until_count(world, "the run to wait", open, 1).await?;
    let url = world.kv("url").await?;
    let token = url.as_str().and_then(|url| url.rsplit('/').next());
    Ok((accepted, token.context("a token")?.to_owned()))
}

#[tokio::test]
async fn time_limits_stand_still_during_a_pause() -> Result<()> {
    let world = World::start().await?;
    let (accepted, token) = waiting(&world).await?;
    world.engine.pause(world.by(), FLOW, "a long night").await?;
    world.move_clock(Duration::from_secs(10 * 3600)).await?;
    until_held(&world, 1).await?;
    world
        .engine
        .resume_paused(world.by(), FLOW, None, None)
        .await?;
    let deferred = "SELECT count(*) FROM journal WHERE events::text LIKE '%deferred%'";
    until_count(&world, "the wait to be deferred", deferred, 1).await?;
    let until =
        "SELECT count(*) FROM waits WHERE state = 'open' AND until > moment() + interval '50 min'";

    assert_eq!(count(&world, until).await?, 1, "an hour is left");
    world.engine.call_back(&token, br#"{"ok":true}"#).await?;
    let end = world.engine.await_end(accepted.run, patience()).await?;
    assert_eq!(end.context("a run")?.state, RunState::Succeeded);
    Ok(())
}

/// A server keeps the latest thousand pauses of a namespace.
#[tokio::test]
async fn a_deadline_is_deferred_however_many_pauses_ended_since() -> Result<()> {
    let world = World::start().await?;
    let (accepted, token) = waiting(&world).await?;
    world.engine.pause(world.by(), FLOW, "half an hour").await?;
    world.move_clock(Duration::from_secs(30 * 60)).await?;
    let others = "INSERT INTO pauses (namespace_id, kind, name, reason, actor, paused_at, resumed_at, drained_at)
                  SELECT $1, 'flow', 'other', 'again', 'test', moment(), moment() + interval '1 day', moment()
                    FROM generate_series(1, 1000)";
    let client = world.database().connect().await?;
    client.execute(others, &[&world.namespace_id]).await?;
    world
        .engine
        .resume_paused(world.by(), FLOW, None, None)
        .await?;
    world.move_clock(Duration::from_secs(45 * 60)).await?;

    let deferred = "SELECT count(*) FROM journal WHERE events::text LIKE '%deferred%'";
    until_count(&world, "the wait to be deferred", deferred, 1).await?;
    world.engine.call_back(&token, br#"{"ok":true}"#).await?;
    let end = world.engine.await_end(accepted.run, patience()).await?;
    assert_eq!(end.context("a run")?.state, RunState::Succeeded);
    Ok(())
}

#[tokio::test]
async fn a_time_limit_passes_after_a_pause_as_it_would_have_without() -> Result<()> {
    let world = World::start().await?;
    let (accepted, _) = waiting(&world).await?;
    for _ in 0..2 {
        world.engine.pause(world.by(), FLOW, "a night").await?;
        world.move_clock(Duration::from_secs(8 * 3600)).await?;
        world
            .engine
            .resume_paused(world.by(), FLOW, None, None)
            .await?;
        world.move_clock(Duration::from_secs(20 * 60)).await?;
    }
    let left = "SELECT count(*) FROM waits WHERE state = 'open' AND until > moment()";
    until_count(&world, "the wait to be deferred", left, 1).await?;
    world.pass_the_queue().await?;
    let open = count(&world, OPEN_RUNS).await?;
    world.move_clock(Duration::from_secs(25 * 60)).await?;
    let end = world.engine.await_end(accepted.run, patience()).await?;

    assert_eq!(open, 1, "forty minutes of the hour are over");
    let end = end.context("a run")?;
    assert!(end.fault.unwrap_or_default().contains("wait-timed-out"));
    Ok(())
}

#[tokio::test]
async fn a_callback_that_arrives_during_a_pause_is_used_after_it() -> Result<()> {
    let world = World::start().await?;
    let (accepted, token) = waiting(&world).await?;
    world.engine.pause(world.by(), FLOW, "a night").await?;

    world.engine.call_back(&token, br#"{"ok":true}"#).await?;
    until_held(&world, 1).await?;
    world
        .engine
        .resume_paused(world.by(), FLOW, None, None)
        .await?;
    let end = world.engine.await_end(accepted.run, patience()).await?;

    let result: Value = serde_json::from_str(&end.context("a run")?.result.unwrap_or_default())?;
    assert_eq!(result, json!({ "ok": true }));
    Ok(())
}

#[tokio::test]
async fn what_undoes_effects_waits_for_the_end_of_a_pause() -> Result<()> {
    let world = World::start().await?;
    let steps = "steps:\n  - id: tell\n    kv: { set: url, value: '${{ waits.answer.url }}' }\n\
        \x20 - id: a\n    http: { post: 'PEER/plain/a', text: a }\n    \
        undo: { http: { post: 'PEER/plain/undo', text: a } }\n\
        \x20 - id: answer\n    wait: { callback: true, within: 1h }\n\
        \x20 - id: stop\n    fail: { code: nope, message: refused }\non_failure: undo\n";
    let (accepted, token) = waiting_at(&world, steps).await?;
    world.engine.pause(world.by(), FLOW, "a night").await?;
    world.engine.call_back(&token, br#"{"ok":false}"#).await?;
    until_held(&world, 1).await?;
    let before = world.peer.count("/plain/undo").await?.calls;
    world
        .engine
        .resume_paused(world.by(), FLOW, None, None)
        .await?;
    let end = world.engine.await_end(accepted.run, patience()).await?;

    assert_eq!(before, 0, "what undoes effects waits");
    assert_eq!(end.context("a run")?.state, RunState::Failed);
    assert_eq!(world.peer.count("/plain/undo").await?.effects, 1);
    Ok(())
}

#[tokio::test]
async fn a_run_is_cancelled_during_a_pause() -> Result<()> {
    let world = World::start().await?;
    let (accepted, _) = waiting(&world).await?;
    world.engine.pause(world.by(), FLOW, "a night").await?;
    let run = accepted.run;
    world
        .engine
        .cancel(world.namespace_id, run, "no longer wanted", "test")
        .await?;
    let end = world
        .engine
        .await_end(run, patience())
        .await?
        .context("a run")?;

    assert_eq!(end.state, RunState::Cancelled);
    Ok(())
}

/// What a look saw before the first attempt is old once the attempt is held up: the run looks again.
#[tokio::test]
async fn a_look_before_the_first_attempt_is_made_again_after_something_was_paused() -> Result<()> {
    let world = World::start().await?;
    let steps = "steps:\n  - id: call\n    http: { post: 'PEER/plain/ours', json: { id: '${{ input.id }}' } }\n\
        \x20   guard: probe\n    probe: { before: true, http: { get: 'PEER/items?id=${{ input.id }}' }, \
        found: 'probe.json.items.size() > 0', result: 'probe.json.items[0]' }\n";
    world.publish(steps).await?;
    let other = "flow: other\ntrigger: { api: {} }\nsteps:\n  - { id: a, function: '1' }\n";
    world.publish_source(other).await?;
    let server = world.start_another().await?;
    let of_other = (PauseKind::Flow, "other");
    // This server may learn of the change before it writes the intent.
    for number in 1..=TRIES {
        let hold = Behaviour::HoldBeforeEffect;
        world.peer.next("/items", hold).await?;
        let run = world.deliver(&format!(r#"{{"id":"{number}"}}"#)).await?.run;
        world.peer.until_held(1, patience()).await?;

        // By another server, so that this one does not know of it when it writes the intent.
        match number % 2 {
            1 => drop(server.pause(world.by(), of_other, "tests").await?),
            _ => drop(
                server
                    .resume_paused(world.by(), of_other, None, None)
                    .await?,
            ),
        }
        world.peer.let_go().await?;

        let end = world.engine.await_end(run, patience()).await?;
        let end = end.context("a run")?;
        assert_eq!(end.state, RunState::Succeeded, "{end:?}");
        assert_eq!(world.peer.count("/plain/ours").await?.effects, number);
        if world.peer.count("/items").await?.calls > number {
            server.shutdown().await;
            return Ok(());
        }
    }
    anyhow::bail!("no run looked again")
}

/// How often a look is tried that falls between a change and the moment at which its server learns of it.
const TRIES: u64 = 40;

#[tokio::test]
async fn a_rate_that_no_run_would_live_to_see_is_refused() -> Result<()> {
    let world = World::start().await?;
    world.publish(THREE).await?;
    world.engine.pause(world.by(), FLOW, "tests").await?;

    for rate in [1e-300, 0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
        let resumed = world
            .engine
            .resume_paused(world.by(), FLOW, Some(rate), None)
            .await;
        ensure!(
            matches!(resumed, Err(PauseCommandError::Rate)),
            "{rate}: {resumed:?}"
        );
    }
    Ok(())
}

/// Each change of what is paused has intents of all namespaces decided anew.
#[tokio::test]
async fn a_namespace_that_alternates_between_pause_and_resume_is_bounded() -> Result<()> {
    let world = World::start().await?;
    world.publish(THREE).await?;
    let (engine, by) = (&world.engine, world.by());
    let resume = async || engine.resume_paused(by, FLOW, None, None).await;
    for _ in 1..PAUSES_MAX {
        ensure!(engine.pause(by, FLOW, "again").await?);
        ensure!(resume().await?);
    }

    ensure!(engine.pause(by, FLOW, "the last one").await?);
    let known = engine.pause(by, FLOW, "is paused").await?;
    let resumed = resume().await?;
    let version = pauses::version(engine.cell().home()).await?;
    let refused = engine.pause(by, FLOW, "one too many").await;
    let later = pauses::version(engine.cell().home()).await?;
    world.move_clock(Duration::from_secs(61)).await?;
    let after = engine.pause(by, FLOW, "a minute later").await?;

    assert!(!known, "what is paused may be paused again");
    assert!(resumed, "resuming is never refused");
    let Err(PauseCommandError::TooMany(retry_in)) = refused else {
        anyhow::bail!("{refused:?}");
    };
    ensure!((1..=60_000).contains(&retry_in.as_millis()), "{retry_in}");
    assert_eq!(version, later, "nobody is held up");
    assert!(after);
    Ok(())
}
