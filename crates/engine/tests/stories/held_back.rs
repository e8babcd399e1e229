//! Runs whose destination has no room: each sleeps until a time of its own, and writes nothing.

use anyhow::Result;
use semel_model::RunId;
use semel_testkit::until;
use serde_json::json;

use crate::world::World;

/// A run that sleeps for room.
struct Waiting {
    epoch: i64,
    rows: i32,
    due: f64,
}

/// A connection that takes one exchange a second: two runs go ahead, the others wait.
async fn connect_slow(world: &World) -> Result<()> {
    let slow = json!({
        "to": { "http": { "base_url": world.peer.url("") } },
        "limits": { "per_second": 1 },
    });
    world.connect("slow", slow).await
}

async fn deliver(world: &World, flow: &str, runs: usize) -> Result<()> {
    for id in 0..runs {
        let payload = format!(r#"{{"id":"{id}"}}"#);
        world.deliver_to(flow, &payload).await?;
    }
    Ok(())
}

/// Waits until each of so many runs has ended or sleeps, and returns those that sleep.
async fn until_each_sleeps(world: &World, runs: usize) -> Result<Vec<Waiting>> {
    let client = world.database().connect().await?;
    let asleep = "SELECT epoch, seq, extract(epoch FROM due_at)::float8
                    FROM queue WHERE holder IS NULL AND stage = 'retrying' ORDER BY due_at";
    let ended = "SELECT count(*) FROM runs WHERE state = 'succeeded'";
    let mut waiting = Vec::new();
    let look = async || -> Result<usize> {
        let ended: i64 = client.query_one(ended, &[]).await?.get(0);
        let rows = client.query(asleep, &[]).await?;
        let read = rows.iter().map(|row| Waiting {
            epoch: row.get(0),
            rows: row.get(1),
            due: row.get(2),
        });
        waiting = read.collect();
        Ok(usize::try_from(ended)? + waiting.len())
    };
    until("each run to end or to sleep", look, |seen| *seen >= runs).await?;
    Ok(waiting)
}

#[tokio::test]
async fn runs_behind_a_rate_sleep_until_times_of_their_own_and_write_nothing() -> Result<()> {
    let world = World::start().await?;
    connect_slow(&world).await?;
    let act = "steps:\n  - id: act\n    http: { connection: slow, post: /plain/act, json: {} }\n";
    world.publish(act).await?;

    deliver(&world, "story", 20).await?;
    let waiting = until_each_sleeps(&world, 20).await?;

    assert!(!waiting.is_empty());
    for run in &waiting {
        assert_eq!(run.rows, 1, "nothing is written for a run that waits");
    }
    let untaken: Vec<f64> = waiting
        .iter()
        .filter(|run| run.epoch == 1)
        .map(|run| run.due)
        .collect();
    for pair in untaken.windows(2) {
        let apart = pair[1] - pair[0];
        assert!(apart > 0.5, "each has a time of its own: {untaken:?}");
    }
    let takes: i64 = waiting.iter().map(|run| (run.epoch - 1).max(0)).sum();
    assert!(
        takes <= i64::try_from(waiting.len())?,
        "{takes} takes of {} runs that wait",
        waiting.len()
    );
    Ok(())
}

#[tokio::test]
async fn reads_behind_a_rate_write_nothing_while_they_wait() -> Result<()> {
    let world = World::start().await?;
    connect_slow(&world).await?;
    let read = "steps:\n  - id: look\n    http: { connection: slow, get: /list/1 }\n";
    world.publish(read).await?;

    deliver(&world, "story", 10).await?;
    let waiting = until_each_sleeps(&world, 10).await?;

    assert!(!waiting.is_empty());
    for run in &waiting {
        assert_eq!(run.rows, 1, "a read that waits leaves no row");
    }
    Ok(())
}

#[tokio::test]
async fn a_run_that_finds_no_room_commits_what_it_did_and_no_intent() -> Result<()> {
    let world = World::start().await?;
    connect_slow(&world).await?;
    let filler = "flow: filler\ntrigger:\n  webhook: { auth: none, key: input.id }\nsteps:\n  \
                  - id: act\n    http: { connection: slow, post: /plain/filler, json: {} }\n";
    world.publish_source(filler).await?;
    let steps = "steps:\n  - id: note\n    http: { post: 'PEER/plain/note', json: {} }\n  \
                 - id: act\n    http: { connection: slow, post: /plain/act, json: {} }\n";
    world.publish(steps).await?;
    deliver(&world, "filler", 9).await?;
    until_each_sleeps(&world, 9).await?;

    let run = world.deliver(r#"{"id":"1"}"#).await?.run;
    until_asleep(&world, run).await?;

    let client = world.database().connect().await?;
    let rows = "SELECT events::text FROM journal WHERE run_id = $1 ORDER BY seq";
    let rows = client.query(rows, &[run.as_uuid()]).await?;
    let rows: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert!(rows[1].contains("done"), "{rows:?}");
    assert!(!rows[1].contains("intended"), "{rows:?}");
    let effects = "SELECT state::text FROM effects WHERE run_id = $1";
    let effects = client.query(effects, &[run.as_uuid()]).await?;
    let states: Vec<String> = effects.iter().map(|row| row.get(0)).collect();
    assert_eq!(states, ["done"], "of the first step only");
    assert_eq!(world.peer.count("/plain/note").await?.calls, 1);
    assert_eq!(world.peer.count("/plain/act").await?.calls, 0);
    Ok(())
}

/// Waits until a run sleeps for room.
async fn until_asleep(world: &World, run: RunId) -> Result<()> {
    let client = world.database().connect().await?;
    let asleep = "SELECT count(*) FROM queue
                   WHERE run_id = $1 AND holder IS NULL AND stage = 'retrying'";
    let look =
        async || -> Result<i64> { Ok(client.query_one(asleep, &[run.as_uuid()]).await?.get(0)) };
    until("the run to wait for room", look, |found| *found == 1).await?;
    Ok(())
}
