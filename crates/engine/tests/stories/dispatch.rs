//! Dispatch: an event is handed over under a lease, each receiver has it once, and nothing that cannot
//! be read is dropped.

use std::time::Duration;

use anyhow::{Context, Result};
use semel_store::outbox;
use semel_store::runs::{self, RunFilter, RunView};
use semel_testkit::{patience, until};
use serde_json::{Value, json};

use crate::world::World;

/// A flow that takes the event, with more of itself and of its trigger.
async fn listen(world: &World, flow: &str, more: &str, trigger: &str) -> Result<()> {
    let source = format!(
        "flow: {flow}\n{more}trigger:\n  event: {{ name: order.paid{trigger} }}\nsteps:\n  \
         - id: count\n    kv: {{ add: heard }}\nresult: input.id\n"
    );
    world.publish_source(&source).await
}

/// Puts an event into the outbox, as a commit of a run does.
async fn emit(world: &World, event: &str, data: &Value) -> Result<()> {
    let client = world.engine.cell().reader().await?;
    let put = "INSERT INTO outbox (id, namespace_id, run_id, event, data, emitted_at)
               VALUES (gen_random_uuid(), $1, gen_random_uuid(), $2, $3::text::json, moment())";
    let values = (world.namespace_id, event, data.to_string());
    client
        .execute(put, &[&values.0, &values.1, &values.2])
        .await?;
    Ok(())
}

async fn change(world: &World, statement: &str) -> Result<u64> {
    let client = world.engine.cell().reader().await?;
    Ok(client.execute(statement, &[]).await?)
}

async fn count(world: &World, query: &str) -> Result<i64> {
    let client = world.engine.cell().reader().await?;
    Ok(client.query_one(query, &[]).await?.get(0))
}

async fn until_count(world: &World, what: &str, query: &str, wanted: i64) -> Result<()> {
    until(
        what,
        async || count(world, query).await,
        |seen| *seen == wanted,
    )
    .await?;
    Ok(())
}

async fn heard(world: &World, flow: &str) -> Result<Vec<RunView>> {
    let filter = RunFilter {
        flow: Some(flow.to_owned()),
        ..RunFilter::default()
    };
    let cell = world.engine.cell();
    let listed = runs::list(cell.every(), world.namespace_id, &filter, 500).await?;
    Ok(listed.items)
}

async fn keys(world: &World, flow: &str) -> Result<Vec<String>> {
    let heard = heard(world, flow).await?;
    Ok(heard.iter().map(|run| run.key.text()).collect())
}

const LEFT: &str = "SELECT count(*) FROM outbox";

/// No receiver behind the flows takes an event until the trigger is dropped.
const REFUSE: &str = "
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION 'not now' USING ERRCODE = 'lock_not_available';
    END $$;
    CREATE TRIGGER refuse BEFORE INSERT ON webhook_deliveries
       FOR EACH STATEMENT EXECUTE FUNCTION refuse()";

/// An event that its flow has, and that no subscription could be made due for yet. It is left alone until
/// [`go_on`].
async fn half_dispatched(world: &World, data: &Value) -> Result<()> {
    let client = world.database().connect().await?;
    client.batch_execute(REFUSE).await?;
    emit(world, "order.paid", data).await?;
    let tried = "SELECT count(*) FROM outbox o JOIN outbox_receivers r ON r.event_id = o.id
                  WHERE r.has_it AND o.holder IS NULL AND NOT o.is_answered";
    until_count(world, "the flow to have the event", tried, 1).await?;
    let rest = "UPDATE outbox SET due_at = moment() + interval '1 day' WHERE holder IS NULL";
    until(
        "the event to be at rest",
        async || change(world, rest).await,
        |rows| *rows == 1,
    )
    .await?;
    Ok(())
}

/// Has the event dispatched again, to its end.
async fn go_on(world: &World) -> Result<()> {
    let client = world.database().connect().await?;
    let allow = "DROP TRIGGER refuse ON webhook_deliveries;
                 UPDATE outbox SET due_at = moment()";
    client.batch_execute(allow).await?;
    until_count(world, "the event to be through", LEFT, 0).await
}

#[tokio::test]
async fn no_transaction_is_open_while_an_event_is_handed_over() -> Result<()> {
    let world = World::start().await?;
    listen(&world, "listener", "", "").await?;
    let mut client = world.database().connect().await?;
    let held = client.transaction().await?;
    held.batch_execute("LOCK TABLE claims IN EXCLUSIVE MODE")
        .await?;

    emit(&world, "order.paid", &json!({"id": "1"})).await?;
    let waiting = "SELECT count(*) FROM pg_stat_activity
                    WHERE datname = current_database() AND wait_event_type = 'Lock'
                      AND query LIKE '%commits alone: accept%'";
    until_count(&world, "the event's run to be accepted", waiting, 1).await?;
    let open = "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
                 WHERE l.relation = 'outbox'::regclass AND a.state LIKE 'idle in transaction%'";
    let open = count(&world, open).await?;
    let leased = count(
        &world,
        "SELECT count(*) FROM outbox WHERE holder IS NOT NULL",
    )
    .await?;
    held.rollback().await?;
    until_count(&world, "the event to be through", LEFT, 0).await?;

    assert_eq!((open, leased), (0, 1));
    assert_eq!(heard(&world, "listener").await?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn an_event_that_a_flow_has_does_not_come_to_it_again_under_another_key() -> Result<()> {
    let world = World::start().await?;
    listen(&world, "listener", "", ", key: input.one").await?;
    half_dispatched(&world, &json!({"id": "1", "one": "a", "other": "b"})).await?;

    listen(&world, "listener", "", ", key: input.other").await?;
    listen(&world, "second", "", "").await?;
    go_on(&world).await?;

    assert_eq!(keys(&world, "listener").await?, ["a"]);
    assert_eq!(heard(&world, "second").await?.len(), 1, "it is live by now");
    assert_eq!(
        world.engine.metrics().duplicates.get(),
        0,
        "it is not asked"
    );
    Ok(())
}

#[tokio::test]
async fn what_a_server_leaves_that_dies_before_it_settles_comes_under_the_same_key() -> Result<()> {
    let world = World::start().await?;
    listen(&world, "listener", "", ", key: input.one").await?;
    half_dispatched(&world, &json!({"id": "1", "one": "a", "other": "b"})).await?;
    // It was asked, and nothing says what became of that.
    change(&world, "UPDATE outbox_receivers SET has_it = false").await?;

    listen(&world, "listener", "", ", key: input.other").await?;
    go_on(&world).await?;

    assert_eq!(keys(&world, "listener").await?, ["a"]);
    assert_eq!(world.engine.metrics().duplicates.get(), 1);
    Ok(())
}

#[tokio::test]
async fn an_event_whose_key_ran_out_between_two_dispatches_starts_no_second_run() -> Result<()> {
    let world = World::start().await?;
    let keep = "keep: { for: 1m, then: new }\n";
    listen(&world, "listener", keep, ", key: input.one").await?;
    half_dispatched(&world, &json!({"id": "1", "one": "a"})).await?;
    change(&world, "UPDATE outbox_receivers SET has_it = false").await?;
    let ended = "SELECT count(*) FROM runs WHERE ended_at IS NOT NULL";
    until_count(&world, "the run to end", ended, 1).await?;
    let client = world.database().connect().await?;
    let later = "UPDATE runs SET accepted_at = accepted_at - interval '1 hour',
                                 ended_at = ended_at - interval '1 hour';
                 UPDATE claims SET expires_at = expires_at - interval '1 hour'";
    client.batch_execute(later).await?;
    let free = "SELECT count(*) FROM claims WHERE expires_at IS NULL";
    let every = world.engine.cell().every();
    semel_store::retention::forget_keys(every).await?;
    until_count(&world, "the key to run out", free, 1).await?;

    go_on(&world).await?;
    let first = heard(&world, "listener").await?.len();
    emit(&world, "order.paid", &json!({"id": "2", "one": "a"})).await?;
    until_count(&world, "the next event to be through", LEFT, 0).await?;

    assert_eq!(first, 1, "the event has had its run");
    assert_eq!(world.engine.metrics().duplicates.get(), 1);
    assert_eq!(heard(&world, "listener").await?.len(), 2, "a later event");
    Ok(())
}

#[tokio::test]
async fn a_message_that_this_version_cannot_read_is_kept_until_one_can() -> Result<()> {
    let world = World::start().await?;
    listen(&world, "listener", "", "").await?;
    let newer = json!({"id": "1", "from": "the future"});
    for name in ["start", "end", "cancel", "postpone"] {
        emit(&world, &format!("semel.call.{name}"), &newer).await?;
    }

    let unread = "SELECT count(*) FROM outbox WHERE unread = 'newer' AND holder IS NULL";
    until_count(&world, "each message to be tried", unread, 4).await?;
    let depth = outbox::depth(world.engine.cell().every()).await?;
    let known = "UPDATE outbox SET event = 'order.paid', due_at = moment() WHERE holder IS NULL";
    let rest = "SELECT count(*) FROM outbox WHERE event <> 'order.paid'";
    until(
        "every message in words that are known",
        async || {
            change(&world, known).await?;
            count(&world, rest).await
        },
        |left| *left == 0,
    )
    .await?;
    until_count(&world, "each message to be through", LEFT, 0).await?;

    assert_eq!((depth.unread, depth.unreadable), (4, 0));
    assert_eq!(
        heard(&world, "listener").await?.len(),
        4,
        "none was dropped"
    );
    Ok(())
}

#[tokio::test]
async fn an_event_waits_for_a_server_that_can_read_every_live_release() -> Result<()> {
    let world = World::start().await?;
    listen(&world, "older", "", "").await?;
    listen(&world, "newer", "", "").await?;
    change(
        &world,
        "CREATE TABLE kept AS SELECT id, source FROM releases",
    )
    .await?;
    let rewrite = "UPDATE releases r SET source = 'not: [a flow of this version'
                     FROM flows f WHERE f.id = r.flow_id AND f.name = 'newer'";
    assert_eq!(change(&world, rewrite).await?, 1);
    // Of two servers in an upgrade, the older one.
    let old = world.start_another().await?;
    world.engine.suspend();

    emit(&world, "order.paid", &json!({"id": "1"})).await?;
    let left = "SELECT count(*) FROM outbox WHERE unread = 'newer' AND is_answered";
    until_count(&world, "the event to be left", left, 1).await?;
    let before = (heard(&world, "older").await?, heard(&world, "newer").await?);
    let restore = "UPDATE releases r SET source = k.source FROM kept k WHERE k.id = r.id";
    change(&world, restore).await?;
    change(&world, "UPDATE config_version SET version = version + 1").await?;
    change(
        &world,
        "UPDATE outbox SET due_at = moment() WHERE holder IS NULL",
    )
    .await?;
    until_count(&world, "the event to be through", LEFT, 0).await?;

    assert_eq!((before.0.len(), before.1.len()), (1, 0));
    assert_eq!(heard(&world, "older").await?.len(), 1);
    assert_eq!(heard(&world, "newer").await?.len(), 1);
    assert_eq!(old.metrics().duplicates.get(), 0, "who has it is not asked");
    Ok(())
}

#[tokio::test]
async fn an_event_for_a_run_that_this_version_cannot_read_is_kept_for_it() -> Result<()> {
    let world = World::start().await?;
    let waiting = "steps:\n  - id: shipped\n    \
        wait: { event: order.shipped, match: event.id == input.id, within: 30d }\n\
        result: steps.shipped.result.by\n";
    world.publish(waiting).await?;
    let mine = world.deliver(r#"{"id":"aa"}"#).await?.run;
    let other = world.deliver(r#"{"id":"bb"}"#).await?.run;
    let waits = "SELECT count(*) FROM event_waits";
    until_count(&world, "both runs to wait", waits, 2).await?;
    let keep = format!(
        "CREATE TABLE kept AS SELECT * FROM journal WHERE run_id = '{}'",
        mine.as_uuid()
    );
    change(&world, &keep).await?;
    let newer = "UPDATE journal j SET events = '[{\"event\":\"dreamt\",\"of\":1}]'
                   FROM kept k WHERE j.run_id = k.run_id";
    assert!(change(&world, newer).await? > 0);

    for id in ["aa", "bb"] {
        emit(&world, "order.shipped", &json!({"id": id, "by": "post"})).await?;
    }
    let left = "SELECT count(*) FROM broadcasts WHERE pages_done AND cardinality(left_waits) = 1";
    until_count(&world, "the event to be kept", left, 1).await?;
    let read = world.engine.await_end(other, patience()).await?;
    until_count(&world, "both events to be through", LEFT, 0).await?;
    let restore = "UPDATE journal j SET events = k.events
                     FROM kept k WHERE j.run_id = k.run_id AND j.seq = k.seq";
    assert!(change(&world, restore).await? > 0);
    change(&world, "UPDATE broadcasts SET due_at = moment()").await?;
    let end = world.engine.await_end(mine, patience()).await?;

    for end in [read, end] {
        let end = end.context("a run")?;
        assert_eq!(end.result.as_deref(), Some("\"post\""), "{end:?}");
    }
    let kept = "SELECT count(*) FROM broadcasts";
    until_count(&world, "nothing to be kept", kept, 0).await?;
    Ok(())
}

#[tokio::test]
async fn the_events_of_a_server_that_dies_are_dispatched_by_another() -> Result<()> {
    let world = World::start().await?;
    listen(&world, "listener", "", "").await?;
    let client = world.database().connect().await?;
    client.batch_execute(REFUSE).await?;
    emit(&world, "order.paid", &json!({"id": "1"})).await?;
    let taken = "SELECT count(*) FROM outbox WHERE tries > 0";
    until_count(&world, "the event to be taken", taken, 1).await?;

    world.engine.suspend();
    let held = "UPDATE outbox SET holder = (SELECT id FROM sessions LIMIT 1),
                                  due_at = moment() + interval '1 day'";
    change(&world, held).await?;
    client
        .batch_execute("DROP TRIGGER refuse ON webhook_deliveries")
        .await?;
    let other = world.start_another().await?;
    semel_store::clock::move_ahead(world.engine.cell(), Duration::from_secs(10)).await?;
    until_count(&world, "the event to be through", LEFT, 0).await?;

    assert_eq!(heard(&world, "listener").await?.len(), 1);
    until(
        "the other server to count the event",
        async || Ok(other.metrics().events_dispatched.get()),
        |events| *events == 1,
    )
    .await?;
    Ok(())
}

/// Holds the statement that makes an event due to a subscription, after it has looked at the run.
const HOLD: &str = "
    CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_advisory_xact_lock_shared(77);
        RETURN NEW;
    END $$;
    CREATE TRIGGER hold BEFORE INSERT ON webhook_deliveries
       FOR EACH ROW EXECUTE FUNCTION hold();
    SELECT pg_advisory_lock(77)";

#[tokio::test]
async fn a_delivery_that_is_made_while_its_run_is_erased_is_erased_with_it() -> Result<()> {
    let world = World::start().await?;
    let tell = "steps:\n  - id: tell\n    emit: { event: order.paid, data: '${{ input }}' }\n";
    world.publish(tell).await?;
    let subscribe = format!(
        "INSERT INTO subscriptions (namespace_id, name, event, connection)
         VALUES ({}, 'erp', 'order.paid', 'hook')",
        world.namespace_id
    );
    change(&world, &subscribe).await?;
    let client = world.database().connect().await?;
    client.batch_execute(HOLD).await?;

    let (accepted, _) = world.play(r#"{"id":"1","name":"planted"}"#).await?;
    let held = "SELECT count(*) FROM pg_locks
                 WHERE locktype = 'advisory' AND NOT granted
                   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    until_count(&world, "the delivery to be held", held, 1).await?;
    let (engine, id) = (world.engine.clone(), world.namespace_id);
    let erasing = tokio::spawn(async move {
        let erased = engine.erase_run(id, accepted.run, "request 118", "test");
        erased.await
    });
    let looked = "SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND pid <> pg_backend_pid()
                     AND query LIKE '%= ANY ($1) AND num_nulls(holder)%'";
    until(
        "the erasure to wait for the event",
        async || Ok(client.query_one(looked, &[]).await?.get::<_, i64>(0)),
        |looks| *looks > 0,
    )
    .await?;
    client
        .batch_execute("SELECT pg_advisory_unlock(77)")
        .await?;
    erasing.await??;

    let erased = "SELECT count(*) FROM webhook_deliveries WHERE is_erased";
    assert_eq!(count(&world, erased).await?, 1);
    assert_eq!(count(&world, LEFT).await?, 0, "it was dispatched");
    Ok(())
}
