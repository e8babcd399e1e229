//! Runs past their history: they go with everything that was written for them, and nothing goes that
//! is still needed.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use semel_engine::Actor;
use semel_model::run::RunState;
use semel_model::{RunId, Span};
use semel_store::namespaces::{self, NamespaceChange};
use semel_store::retention::{self, ClaimRule};
use semel_testkit::peer::Behaviour;
use semel_testkit::{until, until_some};

use crate::world::World;

mod kept;

const HISTORY: Span = Span::from_const_secs(90 * 86_400);

/// The tables that know runs, and the columns by which they do.
const TABLES: &[(&str, &str)] = &[
    ("runs", "id"),
    ("claims", "run_id"),
    ("journal", "run_id"),
    ("effects", "run_id"),
    ("late_responses", "run_id"),
    ("child_runs", "run_id"),
    ("child_runs", "parent_id"),
    ("waits", "run_id"),
    ("tasks", "run_id"),
    ("approvals", "run_id"),
    ("queue", "run_id"),
    ("attention", "run_id"),
];

pub(super) async fn days_later(world: &World, days: u64) -> Result<()> {
    world.move_clock(Duration::from_secs(days * 86_400)).await?;
    retention::forget_keys(world.engine.cell().every()).await?;
    Ok(())
}

/// Walks all runs once, as the service does. Gives how many runs have gone by now, at least so many, by this or by the
/// service itself, which looks at the moved clock as well.
pub(super) async fn delete_old(world: &World, least: u64) -> Result<u64> {
    let cell = world.engine.cell().every();
    let deleted_runs = &world.engine.metrics().runs_deleted;
    for release in retention::list_releases(cell).await? {
        let mut cursor = None;
        loop {
            let page = retention::list_old(cell, release, cursor, HISTORY).await?;
            loop {
                let rule = ClaimRule::default();
                let deleted = retention::delete_old(cell, &page.claims, HISTORY, &rule).await?;
                deleted_runs.add(deleted.count);
                if !deleted.more {
                    break;
                }
            }
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
    }
    // The service counts what it deleted after it did.
    let what = format!("{least} deleted runs");
    until(
        &what,
        async || Ok(deleted_runs.get()),
        |count| *count >= least,
    )
    .await
}

/// How many rows each table has of a key's runs.
pub(super) async fn left(world: &World, run: RunId) -> Result<Vec<(&'static str, i64)>> {
    let client = world.database().connect().await?;
    let (low, high) = run.key_range();
    let mut left = Vec::new();
    for (table, column) in TABLES {
        let count = format!("SELECT count(*) FROM {table} WHERE {column} BETWEEN $1 AND $2");
        let count: i64 = client.query_one(&count, &[&low, &high]).await?.get(0);
        if count > 0 {
            left.push((*table, count));
        }
    }
    Ok(left)
}

#[tokio::test]
async fn a_run_goes_with_everything_that_was_written_for_it_and_leaves_others_alone() -> Result<()>
{
    let world = World::start().await?;
    world
        .publish(
            "steps:\n\
             \x20 - id: charge\n    guard: review\n    http: { post: 'PEER/plain/charges', json: { order: '${{ input.id }}' } }\n\
             \x20 - id: both\n    parallel:\n      branches:\n\
             \x20       - steps: [{ id: left, kv: { add: left } }]\n\
             \x20       - steps: [{ id: right, kv: { add: right } }]\n\
             \x20 - id: pause\n    if: input.waits\n    wait: { for: 300d }\n",
        )
        .await?;
    let (gone, end) = world.play(r#"{"id":"gone","waits":false}"#).await?;
    world.deliver(r#"{"id":"gone","waits":false}"#).await?;
    world
        .peer
        .next("/plain/", Behaviour::CloseWithoutAnswer)
        .await?;
    let doubtful = world.deliver(r#"{"id":"doubtful","waits":false}"#).await?;
    let client = world.database().connect().await?;
    let repeats = "SELECT count(*) FROM duplicates WHERE run_id = $1";
    let repeats = async || -> Result<i64> {
        let row = client.query_one(repeats, &[gone.run.as_uuid()]).await?;
        Ok(row.get(0))
    };
    let look = async || Ok((left(&world, doubtful.run).await?, repeats().await?));
    until("a doubt and a repeat", look, |(doubted, repeats)| {
        let is_doubted = doubted.iter().any(|(table, _)| *table == "attention");
        is_doubted && *repeats == 1
    })
    .await?;
    let waiting = world.deliver(r#"{"id":"waiting","waits":true}"#).await?;
    until_some("a run that sleeps", async || {
        let asleep = "SELECT 1 FROM queue WHERE run_id = $1 AND stage = 'waiting' AND due_at > moment() + interval '1 day'";
        let row = client.query_opt(asleep, &[waiting.run.as_uuid()]).await?;
        Ok(row.map(drop))
    })
    .await?;
    let before = (
        left(&world, waiting.run).await?,
        left(&world, doubtful.run).await?,
    );

    days_later(&world, 89).await?;
    let too_soon = delete_old(&world, 0).await?;
    days_later(&world, 2).await?;
    let deleted = delete_old(&world, 3).await?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!((too_soon, deleted), (0, 3), "the run and its two branches");
    assert_eq!(left(&world, gone.run).await?, []);
    assert_eq!(repeats().await?, 0);
    let after = (
        left(&world, waiting.run).await?,
        left(&world, doubtful.run).await?,
    );
    assert_eq!(before.0, after.0, "a run that has not ended stays whole");
    assert_eq!(before.1, after.1, "so does one that is in doubt");
    let (again, _) = world.play(r#"{"id":"gone","waits":false}"#).await?;
    ensure!(!again.replayed, "the key is free");
    assert_eq!(
        again.run, gone.run,
        "the first run of a key that nothing knows"
    );
    Ok(())
}

/// The ledger of a key outlasts the history of its first run, for as long as runs of the key follow each other.
#[tokio::test]
async fn what_an_earlier_run_did_is_not_repeated_after_that_run_is_gone() -> Result<()> {
    let world = World::start().await?;
    world
        .publish(
            "keep: { for: 1d, then: same }\nsteps:\n\
             \x20 - id: charge\n    guard: review\n    http: { post: 'PEER/plain/charges', json: { order: '${{ input.id }}' } }\n",
        )
        .await?;
    let mut runs = Vec::new();
    let mut deleted = Vec::new();
    for gone in 0..3 {
        runs.push(world.play(r#"{"id":"o-1"}"#).await?.0.run);
        days_later(&world, 50).await?;
        deleted.push(delete_old(&world, gone).await?);
    }
    let charged = world.peer.count("/plain/").await?.effects;
    let held = left(&world, runs[0]).await?;
    days_later(&world, 100).await?;
    let at_last = delete_old(&world, 3).await?;

    assert_eq!(
        deleted,
        [0, 1, 2],
        "each run goes when it is over for ninety days"
    );
    assert_eq!(charged, 1, "run three reads of run two what run one did");
    assert!(held.contains(&("runs", 1)), "{held:?}");
    assert_eq!(at_last, 3);
    assert_eq!(left(&world, runs[0]).await?, []);
    Ok(())
}

/// Each item reads what stood at its place before, whichever run that was of.
#[tokio::test]
async fn what_an_earlier_run_did_for_an_item_is_not_repeated() -> Result<()> {
    let world = World::start().await?;
    world
        .publish(
            "keep: { for: 1d, then: same }\nsteps:\n  - id: each\n    foreach: { in: input.items, key: string(item), steps: \
             [{ id: post, guard: review, http: { post: 'PEER/plain/items', json: { item: '${{ item }}' } } }] }\n",
        )
        .await?;
    for items in ["[1,2]", "[1]", "[1,2]"] {
        let payload = format!(r#"{{"id":"o-1","items":{items}}}"#);
        let (_, end) = world.play(&payload).await?;
        ensure!(end.state == RunState::Succeeded, "{end:?}");
        days_later(&world, 50).await?;
        delete_old(&world, 0).await?;
    }

    assert_eq!(world.peer.count("/plain/").await?.effects, 2);
    Ok(())
}

#[tokio::test]
async fn a_held_key_keeps_its_run_and_a_key_of_new_intents_its_count() -> Result<()> {
    let world = World::start().await?;
    let steps =
        "steps:\n  - id: add\n    guard: review\n    http: { post: 'PEER/plain/adds', text: hi }\n";
    world.publish(&format!("keep: 200d\n{steps}")).await?;
    let (held, _) = world.play(r#"{"id":"held"}"#).await?;

    days_later(&world, 100).await?;
    let while_held = delete_old(&world, 0).await?;
    let repeat = world.deliver(r#"{"id":"held"}"#).await?;
    let client = world.database().connect().await?;
    client.execute("UPDATE claims SET intent = 1", &[]).await?;
    days_later(&world, 200).await?;
    let afterwards = delete_old(&world, 1).await?;

    assert_eq!((while_held, afterwards), (0, 1));
    assert_eq!((repeat.replayed, repeat.run), (true, held.run));
    assert_eq!(left(&world, held.run).await?, [("claims", 1)]);
    let (again, end) = world.play(r#"{"id":"held"}"#).await?;
    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_ne!(again.run, held.run, "the claim goes on counting");
    Ok(())
}

#[tokio::test]
async fn many_items_go_in_several_transactions() -> Result<()> {
    let world = World::start().await?;
    world
        .publish("steps:\n  - id: each\n    foreach: { in: input.items, key: string(item), steps: [{ id: add, kv: { add: n } }] }\n")
        .await?;
    let items: Vec<u32> = (0..600).collect();
    let (run, end) = world
        .play(&serde_json::json!({"id": "many", "items": items}).to_string())
        .await?;

    days_later(&world, 100).await?;
    let deleted = delete_old(&world, 601).await?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(deleted, 601);
    assert_eq!(left(&world, run.run).await?, []);
    Ok(())
}

#[tokio::test]
async fn a_namespace_says_how_long_its_runs_are_kept() -> Result<()> {
    let mut world = World::start().await?;
    world
        .publish("keep: 1h\nsteps:\n  - { id: a, function: '1' }\n")
        .await?;
    let (run, _) = world.play(r#"{"id":"short"}"#).await?;
    let by = Actor {
        namespace_id: world.namespace_id,
        actor: "test",
    };
    let name = namespaces::find_name(world.engine.cell().home(), world.namespace_id).await?;
    let change = NamespaceChange {
        history: Some(Span::from_const_secs(86_400)),
        ..NamespaceChange::default()
    };

    let set = world
        .engine
        .set_namespace(by, &name.context("its name")?, change)
        .await?;
    days_later(&world, 2).await?;
    // The service passes when a server starts, and every 30 seconds after that.
    world.engine.shutdown().await;
    world.engine = world.start_another().await?;

    assert_eq!(set.history, change.history);
    until(
        "the run to go",
        async || left(&world, run.run).await,
        Vec::is_empty,
    )
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_key_that_the_database_refuses_to_delete_holds_up_no_other_of_its_page() -> Result<()> {
    let mut world = World::start().await?;
    world
        .publish("keep: 1h\nsteps:\n  - { id: note, kv: { add: seen } }\n")
        .await?;
    let (bad, _) = world.play(r#"{"id":"bad"}"#).await?;
    let (good, _) = world.play(r#"{"id":"good"}"#).await?;
    world.engine.shutdown().await;
    let client = world.database().connect().await?;
    let refuse = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
                    $$ BEGIN RAISE EXCEPTION 'this value is refused' USING ERRCODE = '22021'; END $$;
                  CREATE TRIGGER refuse BEFORE DELETE ON runs
                    FOR EACH ROW WHEN (OLD.key = 'bad'::bytea) EXECUTE FUNCTION refuse()";
    client.batch_execute(refuse).await?;
    days_later(&world, 100).await?;

    world.engine = world.start_another().await?;
    until_some("the other key to go", async || {
        Ok(left(&world, good.run).await?.is_empty().then_some(()))
    })
    .await?;

    let kept = left(&world, bad.run).await?;
    assert!(kept.contains(&("runs", 1)), "{kept:?}");
    Ok(())
}

/// Deliveries expire as fast as they are deleted, and commands are many: neither keeps the service from the rest.
#[tokio::test]
async fn a_busy_task_of_retention_leaves_the_others_their_turn() -> Result<()> {
    let mut world = World::start().await?;
    world
        .publish("steps:\n  - { id: note, kv: { add: seen } }\n")
        .await?;
    let (kept, _) = world.play(r#"{"id":"o-1"}"#).await?;
    world.engine.shutdown().await;
    world.move_clock(Duration::from_secs(31 * 86_400)).await?;
    let client = world.database().connect().await?;
    client
        .batch_execute(
            "INSERT INTO commands (id, namespace_id, fingerprint, begun_at, holder_until)
             SELECT gen_random_uuid(), 1, gen_random_uuid(), moment() - interval '2 days', moment() - interval '2 days'
               FROM generate_series(1, 20000);
             INSERT INTO webhook_deliveries (event_id, namespace_id, subscription, connection, event, body, emitted_at,
                                             state, due_at, settled_at)
             SELECT gen_random_uuid(), 1, 'erp', 'erp', 'e', '{}', moment() - interval '31 days',
                    'delivered', moment(), moment() - interval '30 days' + n * interval '5 milliseconds'
               FROM generate_series(1, 60000) n;
             INSERT INTO refused_deliveries (namespace_id, flow, at, code, message)
             VALUES (1, 'story', moment() - interval '100 days', 'key-invalid', 'no key')",
        )
        .await?;
    let count = async |text: &str| -> Result<i64> { Ok(client.query_one(text, &[]).await?.get(0)) };

    world.engine = world.start_another().await?;
    let is_free = "SELECT 1 FROM claims WHERE run_id = $1 AND expires_at IS NULL";
    until_some("a key to be freed", async || {
        let row = client.query_opt(is_free, &[kept.run.as_uuid()]).await?;
        Ok(row.map(drop))
    })
    .await?;
    // Refused deliveries come after the others in a pass, and commands before them.
    until_some("the rest of the pass", async || {
        let refused = count("SELECT count(*) FROM refused_deliveries").await?;
        Ok((refused == 0).then_some(()))
    })
    .await?;
    let deliveries = count("SELECT count(*) FROM webhook_deliveries").await?;
    let commands = count("SELECT count(*) FROM commands").await?;

    assert!(
        deliveries > 0,
        "the pass went on while deliveries were left"
    );
    assert_eq!(commands, 0);
    Ok(())
}
