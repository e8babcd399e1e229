//! Overlap: what happens to a run while another one of the same object is running.

use anyhow::{Context, Result};
use semel_engine::Accepted;
use semel_model::RunId;
use semel_model::run::RunState;
use semel_store::runs::RunSnapshot;
use semel_store::{gates, journal, runs};
use semel_testkit::{patience, until as until_true};
use serde_json::{Value, json};

use crate::world::World;

/// A run calls the peer, is held there, and continues. It learns of a cancellation with the commit
/// of the second step, so there is a third.
const STEPS: &str = "overlap: { key: input.object, policy: POLICY }\nsteps:\n\
    \x20 - id: act\n    http: { post: 'PEER/hold/plain/act', json: { id: '${{ input.id }}' } }\n\
    \x20 - id: after\n    kv: { set: 'after/${{ input.id }}', value: true }\n\
    \x20 - id: last\n    kv: { set: 'last/${{ input.id }}', value: true }\nresult: input.id\n";

async fn start(policy: &str) -> Result<World> {
    let world = World::start().await?;
    world.publish(&STEPS.replace("POLICY", policy)).await?;
    Ok(world)
}

async fn deliver(world: &World, id: &str, object: &str) -> Result<Accepted> {
    let payload = json!({ "id": id, "object": object });
    world.deliver(&payload.to_string()).await
}

/// Releases the run that the peer holds, once it holds one.
async fn let_one_go(world: &World) -> Result<()> {
    world.peer.until_held(1, patience()).await?;
    world.peer.let_go().await?;
    Ok(())
}

async fn end(world: &World, run: RunId) -> Result<RunSnapshot> {
    let snapshot = world.engine.await_end(run, patience()).await?;
    snapshot.context("a run")
}

fn fault(snapshot: &RunSnapshot) -> Result<(String, String)> {
    let fault: Value = serde_json::from_str(snapshot.fault.as_deref().context("a fault")?)?;
    let text = |name: &str| fault[name].as_str().unwrap_or_default().to_owned();
    Ok((text("code"), text("message")))
}

/// The events of a run's journal, by name.
pub(crate) async fn events(world: &World, run: RunId) -> Result<Vec<Value>> {
    let cell = world.engine.cell();
    let view = runs::find(cell.of(run), world.namespace_id, run).await?;
    let lines = journal::read(cell.of(run), view.context("a run")?.partition_date, run).await?;
    Ok(lines.iter().flat_map(journal::JournalRow::values).collect())
}

/// Waits until a run's journal says that something happened.
pub(crate) async fn until(world: &World, run: RunId, event: &str) -> Result<Value> {
    let what = format!("{event} in the journal of {run}");
    let is_it = |it: &Value| it["event"] == event;
    let events = until_true(
        &what,
        async || events(world, run).await,
        |events| events.iter().any(is_it),
    )
    .await?;
    events.into_iter().find(is_it).context("an event")
}

/// Who acted at the peer, in order.
async fn acted(world: &World) -> Result<Vec<String>> {
    let effects = world.peer.effects().await?;
    let read = |body: &str| -> Result<String> {
        let body: Value = serde_json::from_str(body)?;
        Ok(body["id"].as_str().context("an id")?.to_owned())
    };
    effects.iter().map(|effect| read(&effect.body)).collect()
}

/// Waits until no gate has an entry.
pub(crate) async fn until_gates_are_empty(world: &World) -> Result<()> {
    let left = "SELECT (SELECT count(*) FROM gate_entries) + (SELECT count(*) FROM gate_exits)
                     + (SELECT count(*) FROM gates WHERE idle_at IS NULL)";
    until_none(world, "gates to be empty", left).await
}

/// Waits until a query counts nothing.
async fn until_none(world: &World, what: &str, left: &str) -> Result<()> {
    let client = world.database().connect().await?;
    let look = async || -> Result<i64> { Ok(client.query_one(left, &[]).await?.get(0)) };
    until_true(what, look, |left| *left == 0).await?;
    Ok(())
}

#[tokio::test]
async fn runs_of_one_object_wait_in_line_and_others_pass_them() -> Result<()> {
    let world = start("queue").await?;

    let first = deliver(&world, "1", "a").await?;
    world.peer.until_held(1, patience()).await?;
    let second = deliver(&world, "2", "a").await?;
    let held = until(&world, second.run, "gate_waiting").await?;
    let third = deliver(&world, "3", "a").await?;
    until(&world, third.run, "gate_waiting").await?;
    let other = deliver(&world, "4", "b").await?;
    let both = world.peer.until_held(2, patience()).await?;
    let id = held["id"].as_str().context("a gate")?.parse()?;
    let snapshot = gates::find_position(world.engine.cell().of(id), id, third.run).await?;
    for held in both.iter().rev() {
        world.peer.let_one_go(held).await?;
    }
    let ends = [end(&world, other.run).await?, end(&world, first.run).await?];
    let_one_go(&world).await?;
    let second = end(&world, second.run).await?;
    let_one_go(&world).await?;
    let third = end(&world, third.run).await?;

    assert_eq!(held["gate"], "overlap");
    assert_eq!(held["behind"], json!(first.run));
    let snapshot = snapshot.context("the third is in line")?;
    assert_eq!((snapshot.behind, snapshot.ahead), (Some(first.run), 1));
    for snapshot in ends.iter().chain([&second, &third]) {
        assert_eq!(snapshot.state, RunState::Succeeded, "{snapshot:?}");
    }
    let order = acted(&world).await?;
    let of_a: Vec<&String> = order.iter().filter(|id| *id != "4").collect();
    assert_eq!(of_a, ["1", "2", "3"]);
    until_gates_are_empty(&world).await
}

#[tokio::test]
async fn a_skipped_run_ends_and_names_the_running_one() -> Result<()> {
    let world = start("skip").await?;

    let first = deliver(&world, "1", "a").await?;
    world.peer.until_held(1, patience()).await?;
    let second = deliver(&world, "2", "a").await?;
    let skipped = end(&world, second.run).await?;
    let again = deliver(&world, "2", "a").await?;
    let_one_go(&world).await?;
    let first_end = end(&world, first.run).await?;
    until_gates_are_empty(&world).await?;
    let third = deliver(&world, "3", "a").await?;
    let_one_go(&world).await?;
    let third = end(&world, third.run).await?;

    let (code, message) = fault(&skipped)?;
    assert_eq!(skipped.state, RunState::Superseded);
    assert_eq!(code, "overlap-skipped");
    assert!(message.contains(&first.run.to_string()), "{message}");
    assert_eq!((again.run, again.replayed), (second.run, true));
    assert_eq!(
        again.state,
        RunState::Superseded,
        "a repeat gets the same answer"
    );
    assert_eq!(first_end.state, RunState::Succeeded);
    assert_eq!(third.state, RunState::Succeeded);
    assert_eq!(acted(&world).await?, ["1", "3"]);
    Ok(())
}

#[tokio::test]
async fn a_run_that_joins_does_nothing_and_ends_as_the_other() -> Result<()> {
    let world = start("join").await?;

    let first = deliver(&world, "1", "a").await?;
    world.peer.until_held(1, patience()).await?;
    let second = deliver(&world, "2", "a").await?;
    let third = deliver(&world, "3", "a").await?;
    let joined = until(&world, second.run, "joined").await?;
    until(&world, third.run, "joined").await?;
    let_one_go(&world).await?;
    let ends = [
        end(&world, first.run).await?,
        end(&world, second.run).await?,
        end(&world, third.run).await?,
    ];

    assert_eq!(joined["run"], json!(first.run));
    for snapshot in &ends {
        assert_eq!(snapshot.state, RunState::Succeeded, "{snapshot:?}");
        assert_eq!(snapshot.result.as_deref(), Some("\"1\""));
    }
    assert_eq!(acted(&world).await?, ["1"]);
    until_gates_are_empty(&world).await
}

#[tokio::test]
async fn the_newest_run_takes_the_place_once_the_pending_effect_is_settled() -> Result<()> {
    let world = start("replace").await?;

    let first = deliver(&world, "1", "a").await?;
    world.peer.until_held(1, patience()).await?;
    let second = deliver(&world, "2", "a").await?;
    until(&world, second.run, "gate_waiting").await?;
    let third = deliver(&world, "3", "a").await?;
    until(&world, third.run, "gate_waiting").await?;
    let dropped = end(&world, second.run).await?;
    let still_there = world.peer.until_held(1, patience()).await?.len();
    let_one_go(&world).await?;
    let replaced = end(&world, first.run).await?;
    let_one_go(&world).await?;
    let newest = end(&world, third.run).await?;

    assert_eq!(still_there, 1, "the pending effect is not cut off");
    for (snapshot, by) in [(&dropped, third.run), (&replaced, third.run)] {
        let (code, message) = fault(snapshot)?;
        assert_eq!(snapshot.state, RunState::Superseded);
        assert_eq!(code, "overlap-replaced");
        assert!(message.contains(&by.to_string()), "{message}");
    }
    assert_eq!(newest.state, RunState::Succeeded);
    assert_eq!(acted(&world).await?, ["1", "3"]);
    let first = events(&world, first.run).await?;
    assert!(first.iter().any(|event| event["event"] == "done"));
    until_gates_are_empty(&world).await
}

#[tokio::test]
async fn a_run_that_is_cancelled_in_line_lets_the_next_pass() -> Result<()> {
    let world = start("queue").await?;

    let first = deliver(&world, "1", "a").await?;
    world.peer.until_held(1, patience()).await?;
    let second = deliver(&world, "2", "a").await?;
    until(&world, second.run, "gate_waiting").await?;
    let third = deliver(&world, "3", "a").await?;
    until(&world, third.run, "gate_waiting").await?;
    let namespace_id = world.namespace_id;
    world
        .engine
        .cancel(namespace_id, second.run, "no longer wanted", "test")
        .await?;
    let second = end(&world, second.run).await?;
    let_one_go(&world).await?;
    end(&world, first.run).await?;
    let_one_go(&world).await?;
    let third = end(&world, third.run).await?;

    assert_eq!(second.state, RunState::Cancelled);
    assert_eq!(fault(&second)?.0, "cancelled");
    assert_eq!(third.state, RunState::Succeeded);
    assert_eq!(acted(&world).await?, ["1", "3"]);
    until_gates_are_empty(&world).await
}

#[tokio::test]
async fn a_run_that_is_stopped_keeps_its_object_to_itself() -> Result<()> {
    let world = World::start().await?;
    let steps = "overlap: { key: input.object, policy: queue }\nsteps:\n\
        \x20 - id: act\n    http: { post: 'PEER/status/503/plain/act', json: { id: '${{ input.id }}' } }\n    guard: review\n";
    world.publish(steps).await?;

    let first = deliver(&world, "1", "a").await?;
    let stopped = end(&world, first.run).await?;
    let second = deliver(&world, "2", "a").await?;
    let held = until(&world, second.run, "gate_waiting").await?;

    assert_eq!(stopped.state, RunState::InDoubt);
    assert_eq!(held["behind"], json!(first.run));
    assert_eq!(acted(&world).await?, ["1"]);
    Ok(())
}

#[tokio::test]
async fn gate_repair_completes_what_a_crashed_process_left() -> Result<()> {
    let world = start("queue").await?;
    let first = deliver(&world, "1", "a").await?;
    world.peer.until_held(1, patience()).await?;
    let second = deliver(&world, "2", "a").await?;
    let held = until(&world, second.run, "gate_waiting").await?;
    let gate: semel_model::GateId = held["id"].as_str().context("a gate")?.parse()?;

    // As if the worker that ended the first had granted the next its place and crashed before it
    // woke it.
    let client = world.engine.cell().reader().await?;
    client
        .execute(
            "UPDATE gate_entries SET place = 'granted', wake_since = moment() - interval '3 seconds'
              WHERE gate_id = $1 AND run_id = $2",
            &[gate.as_uuid(), second.run.as_uuid()],
        )
        .await?;
    client
        .execute(
            "UPDATE gates SET granted = granted + 1 WHERE id = $1",
            &[gate.as_uuid()],
        )
        .await?;
    drop(client);
    world.peer.until_held(2, patience()).await?;
    // As if the worker that ended this one had crashed before it left the gate.
    let stray = RunId::from_uuid(uuid::Uuid::from_u128(7));
    let client = world.engine.cell().reader().await?;
    let texts = [
        "INSERT INTO gate_entries (gate_id, run_id, place, accepted_at, after_seq)
         VALUES ($1, $2, 'running', moment() - interval '1 hour', 0)",
        "INSERT INTO gate_exits (gate_id, run_id, seq, at)
         VALUES ($1, $2, 1, moment() - interval '3 seconds')",
    ];
    for text in texts {
        let values = [gate.as_uuid(), stray.as_uuid()];
        client.execute(text, &values.map(|it| it as _)).await?;
    }
    drop(client);
    world.peer.let_go().await?;

    for run in [first.run, second.run] {
        assert_eq!(end(&world, run).await?.state, RunState::Succeeded);
    }
    let left = "SELECT (SELECT count(*) FROM gate_entries) + (SELECT count(*) FROM gate_exits)";
    until_none(&world, "what the crashed workers left", left).await
}
