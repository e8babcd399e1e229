//! Locks and compare-and-set: which run holds, which was first, and which is late.

use anyhow::{Context, Result};
use semel_model::RunId;
use semel_model::run::RunState;
use semel_testkit::{patience, until};
use serde_json::{Value, json};

use crate::overlap::events;
use crate::world::World;

/// Takes the lock, calls, and frees the lock.
const ALONE: &str = "steps:\n  - id: alone\n    kv: { lock: door, lease: LEASE }\n    \
    retry: { attempts: 90, delay: 100ms, max_delay: 200ms, within: 1h }\n\
    \x20 - id: call\n    http: { post: 'PEER/hold/plain/x', json: { token: '${{ steps.alone.result.token }}' } }\n\
    \x20 - id: free\n    kv: { unlock: door }\n\
    result: '{\"token\": steps.alone.result.token, \"released\": steps.free.result.released}'\n";

async fn end(world: &World, run: RunId) -> Result<Value> {
    let snapshot = world.engine.await_end(run, patience()).await?;
    let snapshot = snapshot.context("a run")?;
    assert_eq!(snapshot.state, RunState::Succeeded, "{snapshot:?}");
    Ok(serde_json::from_str(&snapshot.result.unwrap_or_default())?)
}

#[tokio::test]
async fn of_two_runs_one_waits_and_gets_a_higher_token() -> Result<()> {
    let world = World::start().await?;
    world.publish(&ALONE.replace("LEASE", "10m")).await?;

    let first = world.deliver(r#"{"id":"1"}"#).await?;
    world.peer.until_held(1, patience()).await?;
    let second = world.deliver(r#"{"id":"2"}"#).await?;
    let look = async || {
        let inside = world.peer.count("/hold/").await?.calls;
        let second = events(&world, second.run).await?;
        Ok((inside, second.iter().any(|it| it["event"] == "failed")))
    };
    let what = "the second run to be turned away, or let in";
    let seen = until(what, look, |(inside, failed)| *inside > 1 || *failed).await?;
    assert_eq!(seen, (1, true), "only one is behind the door");
    world.peer.let_go().await?;
    let first = end(&world, first.run).await?;
    world.peer.until_held(1, patience()).await?;
    world.peer.let_go().await?;
    let second = end(&world, second.run).await?;

    assert_eq!(first, json!({"token": 1, "released": true}));
    assert_eq!(second, json!({"token": 2, "released": true}));
    Ok(())
}

#[tokio::test]
async fn an_expired_lock_goes_to_the_next_run_and_the_late_one_frees_nothing() -> Result<()> {
    let world = World::start().await?;
    world.publish(&ALONE.replace("LEASE", "1s")).await?;

    let late = world.deliver(r#"{"id":"1"}"#).await?;
    let held = world.peer.until_held(1, patience()).await?;
    let next = world.deliver(r#"{"id":"2"}"#).await?;
    world.peer.until_held(2, patience()).await?;
    world.peer.let_one_go(&held[0]).await?;
    let late = end(&world, late.run).await?;
    world.peer.let_go().await?;
    let next = end(&world, next.run).await?;

    assert_eq!(late, json!({"token": 1, "released": false}));
    assert_eq!(next, json!({"token": 2, "released": true}));
    let sent = world.peer.effects().await?;
    let bodies: Vec<&str> = sent.iter().map(|effect| effect.body.as_str()).collect();
    assert_eq!(bodies, [r#"{"token":1}"#, r#"{"token":2}"#]);
    Ok(())
}

#[tokio::test]
async fn a_run_cannot_free_another_run_s_lock() -> Result<()> {
    let world = World::start().await?;
    world.publish(&ALONE.replace("LEASE", "10m")).await?;
    let holder = world.deliver(r#"{"id":"1"}"#).await?;
    world.peer.until_held(1, patience()).await?;
    let source = "flow: stranger\ntrigger:\n  webhook: { auth: none, key: input.id, path: story2 }\n\
                  steps:\n  - id: free\n    kv: { unlock: door }\nresult: steps.free.result.released\n";
    world.publish_source(source).await?;

    let stranger = world
        .engine
        .deliver(
            world
                .engine
                .authenticate(semel_engine::WebhookRequest {
                    namespace: "default".to_owned(),
                    path: "story2".to_owned(),
                    target: "/hooks/default/story2".to_owned(),
                    body: br#"{"id":"9"}"#.to_vec(),
                    headers: Vec::new(),
                    query: Vec::new(),
                })
                .await?,
        )
        .await?;
    let semel_engine::Intake::Accepted(stranger) = stranger else {
        anyhow::bail!("not accepted: {stranger:?}");
    };
    let freed = end(&world, stranger.run).await?;
    world.peer.let_go().await?;
    let holder = end(&world, holder.run).await?;

    assert_eq!(freed, json!(false));
    assert_eq!(holder, json!({"token": 1, "released": true}));
    Ok(())
}

#[tokio::test]
async fn compare_and_set_lets_one_of_many_win() -> Result<()> {
    let world = World::start().await?;
    world
        .publish(
            "steps:\n  - id: swap\n    kv: { set: leader, value: '${{ input.id }}', expect: '${{ input.before }}' }\n\
             result: steps.swap.result\n",
        )
        .await?;

    let mut runs = Vec::new();
    for id in 0..8 {
        let payload = json!({"id": id.to_string(), "before": null});
        runs.push(world.deliver(&payload.to_string()).await?.run);
    }
    let mut won = Vec::new();
    for (id, run) in runs.into_iter().enumerate() {
        if end(&world, run).await?["set"] == json!(true) {
            won.push(id.to_string());
        }
    }
    assert_eq!(won.len(), 1, "{won:?}");

    let stale = world.result(r#"{"id":"x","before":"nobody"}"#).await?;
    let swap = json!({"id": "y", "before": won[0]});
    let swapped = world.result(&swap.to_string()).await?;

    assert_eq!(stale, json!({"set": false, "value": won[0]}));
    assert_eq!(swapped, json!({"set": true, "value": "y"}));
    Ok(())
}

#[tokio::test]
async fn many_runs_write_to_one_entry_at_once_and_none_waits_for_a_commit_of_its_own() -> Result<()>
{
    let world = World::start().await?;
    let steps = "steps:\n  - { id: last, kv: { set: last, value: '${{ input.id }}' } }\n\
                 \x20 - { id: count, kv: { add: total } }\nresult: steps.count.result\n";
    world.publish(steps).await?;

    let payloads: Vec<String> = (0..200).map(|id| format!(r#"{{"id":"{id}"}}"#)).collect();
    let results = payloads.iter().map(|payload| world.result(payload));
    let results = futures_util::future::try_join_all(results).await?;

    let mut counts: Vec<i64> = results.iter().filter_map(Value::as_i64).collect();
    counts.sort_unstable();
    assert_eq!(counts, (1..=200).collect::<Vec<i64>>(), "each has its own");
    let last = world.kv("last").await?;
    assert!(last.is_string(), "{last}");
    Ok(())
}
