//! Limits: how many runs, how fast, and which ones first.

use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use semel_engine::Accepted;
use semel_model::RunId;
use semel_model::run::RunState;
use semel_store::runs::{self, RunSnapshot};
use semel_testkit::peer::Held;
use semel_testkit::{patience, until as until_true};
use serde_json::{Value, json};

use crate::overlap::{until, until_gates_are_empty};
use crate::world::World;

async fn deliver(world: &World, id: &str, object: &str) -> Result<Accepted> {
    let payload = json!({ "id": id, "object": object });
    world.deliver(&payload.to_string()).await
}

async fn end(world: &World, run: RunId) -> Result<RunSnapshot> {
    let snapshot = world.engine.await_end(run, patience()).await?;
    snapshot.context("a run")
}

/// When runs were admitted, in order.
async fn starts(world: &World) -> Result<Vec<Timestamp>> {
    let client = world.engine.cell().reader().await?;
    let rows = client
        .query("SELECT at FROM gate_starts ORDER BY number", &[])
        .await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Waits until each of so many runs is held at the peer or waits at a gate, and some are held.
async fn until_held_or_waiting(world: &World, runs: usize) -> Result<(Vec<Held>, usize)> {
    let client = world.database().connect().await?;
    let waiting = "SELECT count(*) FROM gate_entries WHERE place = 'waiting'";
    let look = async || {
        let waiting: i64 = client.query_one(waiting, &[]).await?.get(0);
        let held = world.peer.until_held(0, Duration::ZERO).await?;
        Ok((held, usize::try_from(waiting)?))
    };
    let what = format!("{runs} runs to be held, or to wait");
    until_true(&what, look, |(held, waiting)| {
        !held.is_empty() && held.len() + waiting == runs
    })
    .await
}

#[tokio::test]
async fn no_more_runs_are_active_than_the_limit_of_their_key() -> Result<()> {
    let world = World::start().await?;
    let steps = "limit: { concurrency: 2, key: input.object }\nsteps:\n\
        \x20 - id: act\n    http: { post: 'PEER/hold/plain/act', json: { id: '${{ input.id }}' } }\n";
    world.publish(steps).await?;

    let mut runs = Vec::new();
    for id in ["1", "2", "3", "4", "5"] {
        runs.push(deliver(&world, id, "a").await?.run);
    }
    runs.push(deliver(&world, "6", "b").await?.run);
    until(&world, runs[4], "gate_waiting").await?;
    let mut most = 0;
    for left in (1..=runs.len()).rev() {
        let (held, _) = until_held_or_waiting(&world, left).await?;
        most = most.max(held.len());
        world.peer.let_one_go(&held[0]).await?;
    }
    for run in runs {
        assert_eq!(end(&world, run).await?.state, RunState::Succeeded);
    }

    assert_eq!(most, 3, "two of one key and one of the other");
    until_gates_are_empty(&world).await
}

#[tokio::test]
async fn runs_start_no_faster_than_the_rate_by_the_database_s_clock() -> Result<()> {
    let world = World::start().await?;
    let steps = "limit: { rate: 2, per: 1h }\nsteps:\n  - id: sum\n    function: input.id\n";
    world.publish(steps).await?;

    let mut runs = Vec::new();
    for id in 0..6 {
        let run = deliver(&world, &id.to_string(), "a").await?.run;
        // In their order: the first two start, and the others wait.
        if id < 2 {
            assert_eq!(end(&world, run).await?.state, RunState::Succeeded);
        } else {
            until(&world, run, "gate_waiting").await?;
        }
        runs.push(run);
    }
    let mut seen = Vec::new();
    for _ in 0..3 {
        let look = async || {
            let over = runs::list_snapshots(world.engine.cell().every(), &runs).await?;
            let over = over.iter().filter(|run| run.state == RunState::Succeeded);
            Ok(over.count())
        };
        let wanted = seen.len() + 2;
        until_true("two more runs to end", look, |over| *over == wanted).await?;
        seen.extend(starts(&world).await?);
        world.move_clock(Duration::from_secs(3_601)).await?;
    }

    for pair in seen.windows(3) {
        let apart = pair[2].duration_since(pair[0]).as_secs();
        assert!(apart >= 3_600, "three starts within {apart} s");
    }
    for run in &runs[..2] {
        assert_eq!(end(&world, *run).await?.state, RunState::Succeeded);
    }
    Ok(())
}

#[tokio::test]
async fn only_the_newest_run_of_an_object_starts_once_it_is_quiet() -> Result<()> {
    let world = World::start().await?;
    let steps = "limit: { debounce: 30m, key: input.object }\nsteps:\n\
        \x20 - id: note\n    kv: { set: 'seen/${{ input.object }}', value: '${{ input.id }}' }\n";
    world.publish(steps).await?;

    let first = deliver(&world, "1", "a").await?;
    until(&world, first.run, "gate_waiting").await?;
    let second = deliver(&world, "2", "a").await?;
    until(&world, second.run, "gate_waiting").await?;
    let other = deliver(&world, "3", "b").await?;
    let dropped = end(&world, first.run).await?;
    world.move_clock(Duration::from_secs(1_801)).await?;
    let newest = end(&world, second.run).await?;
    let other = end(&world, other.run).await?;

    let fault: Value = serde_json::from_str(dropped.fault.as_deref().context("a fault")?)?;
    assert_eq!(dropped.state, RunState::Superseded);
    assert_eq!(fault["code"], "debounced");
    let message = fault["message"].as_str().context("a message")?;
    assert!(message.contains(&second.run.to_string()), "{message}");
    assert_eq!(
        (newest.state, other.state),
        (RunState::Succeeded, RunState::Succeeded)
    );
    let seen = world.kv("seen/a").await?;
    assert_eq!(seen, json!("2"));
    until_gates_are_empty(&world).await
}

/// A flow whose runs are held at the peer, with a priority.
async fn publish_with_priority(world: &World, name: &str, priority: i32) -> Result<()> {
    let source = format!(
        "flow: {name}\ntrigger:\n  webhook: {{ auth: none, key: input.id }}\n\
         limit: {{ priority: {priority} }}\nsteps:\n  - id: act\n    \
         http: {{ post: '{}', json: {{ id: '${{{{ input.id }}}}' }} }}\n",
        world.peer.url("/hold/plain/act")
    );
    world.publish_source(&source).await
}

#[tokio::test]
async fn under_a_backlog_a_higher_priority_begins_first_and_a_lower_one_last() -> Result<()> {
    let world = World::start_with_room(1).await?;
    for (name, priority) in [("plain", 0), ("urgent", 5), ("patient", -5)] {
        publish_with_priority(&world, name, priority).await?;
    }

    world.deliver_to("plain", r#"{"id":"first"}"#).await?;
    world.peer.until_held(1, patience()).await?;
    for (flow, id) in [("patient", "c"), ("plain", "b"), ("urgent", "a")] {
        let payload = json!({ "id": id }).to_string();
        world.deliver_to(flow, &payload).await?;
    }
    for _ in 0..4 {
        let held = world.peer.until_held(1, patience()).await?;
        world.peer.let_one_go(&held[0]).await?;
        let look = async || world.peer.until_held(0, Duration::ZERO).await;
        until_true("the run to go", look, |now| {
            !now.iter().any(|it| it.id == held[0].id)
        })
        .await?;
    }
    let look = async || world.peer.effects().await;
    let effects = until_true("four effects", look, |effects| effects.len() == 4).await?;

    let bodies: Vec<Value> = effects
        .iter()
        .map(|effect| serde_json::from_str(&effect.body))
        .collect::<Result<_, _>>()?;
    let order: Vec<&str> = bodies
        .iter()
        .filter_map(|body| body["id"].as_str())
        .collect();
    assert_eq!(order, ["first", "a", "b", "c"]);
    Ok(())
}
