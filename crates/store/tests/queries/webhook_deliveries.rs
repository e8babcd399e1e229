//! Deliveries to webhooks: every subscription has its turn.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use jiff::{SignedDuration, Timestamp};
use semel_model::{EffectId, RunId, Span};
use semel_store::claims::start_accepting;
use semel_store::outbox::OutboxEvent;
use semel_store::webhook_deliveries::{
    self, DeliveryCapacity, DeliveryResult, DueDelivery, SubscriptionLoad,
};
use semel_testkit::until;
use uuid::Uuid;

use crate::world::{World, delivery};

/// How many subscriptions have a receiver that never answers in time.
const SLOW: usize = 32;

/// So many deliveries may be in flight, and so many to one subscription.
const TOTAL: i64 = 128;
const EACH: i64 = 4;

const FILL: &str = "
    INSERT INTO subscriptions (namespace_id, name, event, connection)
    SELECT 1, 'line-' || to_char(n, 'FM00'), 'order.paid', 'c' FROM generate_series(0, 32) AS n;
    INSERT INTO webhook_deliveries (event_id, namespace_id, subscription, connection, body, emitted_at, due_at)
    SELECT md5(n || '-' || m)::uuid, 1, 'line-' || to_char(n, 'FM00'), 'c', '{}', now(),
           moment() - interval '1 minute'
      FROM generate_series(0, 32) AS n, generate_series(1, 20) AS m";

#[tokio::test]
async fn slow_receivers_do_not_starve_the_next_one() -> Result<()> {
    let world = World::start().await?;
    world.cell.reader().await?.batch_execute(FILL).await?;
    let mut served = BTreeMap::<String, (i64, i64)>::new();
    let lease = Span::from_secs(600);

    let first = webhook_deliveries::take_due(&world.cell, &room(&served, TOTAL), lease).await?;
    note(&mut served, &first, 1);
    // The slow ones hold all the room; one delivery ends, of a line that has more to deliver.
    let line = served.get_mut("line-07").map(|line| line.0 -= 1);
    let next = webhook_deliveries::take_due(&world.cell, &room(&served, 1), lease).await?;

    assert!(line.is_some());
    assert_eq!((first.len() as i64, served.len()), (TOTAL, SLOW));
    let names: Vec<&str> = next.iter().map(|due| due.subscription.as_str()).collect();
    assert_eq!(names, ["line-32"], "who was never served is next");
    note(&mut served, &next, 2);
    assert_eq!(served["line-32"].0, 1);
    Ok(())
}

#[tokio::test]
async fn the_least_recently_served_subscription_is_next() -> Result<()> {
    let world = World::start().await?;
    world.cell.reader().await?.batch_execute(FILL).await?;
    let mut served = BTreeMap::<String, (i64, i64)>::new();

    let mut order = Vec::new();
    for number in 1..=66 {
        let lease = Span::from_secs(600);
        let next = webhook_deliveries::take_due(&world.cell, &room(&served, 1), lease).await?;
        note(&mut served, &next, number);
        order.extend(next.into_iter().map(|due| due.subscription));
    }

    let (once, twice) = order.split_at(33);
    assert_eq!(once, twice, "every line has one turn before any has two");
    Ok(())
}

const SUBSCRIBE: &str = "
    INSERT INTO subscriptions (namespace_id, name, event, connection) VALUES (1, 'line', 'order.paid', 'c')";

/// An event of the run of a key.
async fn emit(world: &World, key: &str) -> Result<OutboxEvent> {
    let run = start_accepting(&world.cell)
        .write(delivery(key, "{}", None)?)
        .await?
        .run;
    let client = world.cell.reader().await?;
    let now = client.query_one("SELECT moment()", &[]).await?;
    let (id, _) = run.key_range();
    Ok(OutboxEvent {
        id: EffectId::from_uuid(id),
        namespace_id: 1,
        run,
        event: "order.paid".to_owned(),
        data: "{}".to_owned(),
        emitted_at: now.get(0),
    })
}

/// Waits until an erasure has looked twice whether events are being dispatched.
async fn until_looked_again(world: &World) -> Result<()> {
    let client = world.connect().await?;
    let look = "SELECT query_start FROM pg_stat_activity
                 WHERE datname = current_database() AND application_name = 'semel'
                   AND query LIKE '%FROM outbox%SKIP LOCKED)%'";
    let mut seen = BTreeSet::new();
    let look = async || -> Result<usize> {
        let rows = client.query(look, &[]).await?;
        seen.extend(rows.iter().map(|row| row.get::<_, Timestamp>(0)));
        Ok(seen.len())
    };
    // A look is prepared and carried out: it begins at two instants at most.
    until("a second look at the outbox", look, |begun| *begun > 2).await?;
    Ok(())
}

async fn take_all(world: &World) -> Result<Vec<DueDelivery>> {
    let all = room(&BTreeMap::new(), TOTAL);
    Ok(webhook_deliveries::take_due(&world.cell, &all, Span::from_secs(600)).await?)
}

async fn count_planted(world: &World) -> Result<i64> {
    let client = world.cell.reader().await?;
    let planted = "SELECT count(*) FROM webhook_deliveries WHERE body::text LIKE '%planted%'";
    Ok(client.query_one(planted, &[]).await?.get(0))
}

#[tokio::test]
async fn an_event_that_is_dispatched_after_its_run_was_erased_goes_out_whole_and_is_erased_then()
-> Result<()> {
    let world = World::start().await?;
    let client = world.cell.reader().await?;
    client.batch_execute(SUBSCRIBE).await?;
    let (erased, other) = (emit(&world, "a").await?, emit(&world, "b").await?);

    let mark = "UPDATE runs SET erased_at = moment() WHERE id = $1";
    client.execute(mark, &[erased.run.as_uuid()]).await?;
    let cell = world.cell.of(erased.id);
    webhook_deliveries::erase(cell, erased.run, erased.emitted_at).await?;
    for event in [&erased, &other] {
        let body = r#"{"name":"planted"}"#;
        webhook_deliveries::insert(world.cell.of(event.id), event, body).await?;
    }
    let due = take_all(&world).await?;
    assert!(due.iter().all(|it| it.body.contains("planted")), "{due:?}");
    assert_eq!((due.len(), count_planted(&world).await?), (2, 2));
    for due in &due {
        let note = DeliveryResult::Failed("it said planted".to_owned());
        webhook_deliveries::settle(world.cell.of(due.event), due, &note).await?;
    }

    assert_eq!(count_planted(&world).await?, 1, "that of the other run");
    let noted = "SELECT note FROM webhook_deliveries WHERE event_id = $1";
    let note = client.query_one(noted, &[erased.id.as_uuid()]).await?;
    assert_eq!(note.get::<_, Option<String>>(0), None);
    Ok(())
}

#[tokio::test]
async fn an_erasure_waits_for_events_that_are_being_dispatched_and_erases_in_batches() -> Result<()>
{
    let world = World::start().await?;
    let mut client = world.connect().await?;
    client.batch_execute(SUBSCRIBE).await?;
    let event = emit(&world, "a").await?;
    let put = "INSERT INTO outbox (id, namespace_id, run_id, event, data, emitted_at)
               VALUES ($1, 1, $2, 'order.paid', '{}', moment())";
    let values = [event.id.as_uuid(), event.run.as_uuid()];
    client.execute(put, &[values[0], values[1]]).await?;
    let (low, high) = event.run.key_range();
    let fill = "
        INSERT INTO webhook_deliveries (event_id, namespace_id, subscription, connection, body, emitted_at,
                                        due_at, state, settled_at)
        SELECT $1, 1, 'line-' || n, 'c', '{\"name\":\"planted\"}', moment(), moment(), 'delivered', moment()
          FROM generate_series(1, 2500) n";
    client.execute(fill, &[&low]).await?;

    let dispatching = client.transaction().await?;
    let lock = "SELECT 1 FROM outbox WHERE id BETWEEN $1 AND $2 FOR UPDATE";
    dispatching.query(lock, &[&low, &high]).await?;
    let cell = world.cell.clone();
    let run: RunId = event.run;
    let now = dispatching.query_one("SELECT moment()", &[]).await?;
    let until = now.get::<_, Timestamp>(0) + SignedDuration::from_secs(60);
    let erasing =
        tokio::spawn(async move { webhook_deliveries::erase(cell.of(run), run, until).await });
    until_looked_again(&world).await?;
    assert!(!erasing.is_finished(), "an event is being dispatched");
    let late = "INSERT INTO webhook_deliveries (event_id, namespace_id, subscription, connection, body,
                                                emitted_at, due_at, state, settled_at)
                VALUES ($1, 1, 'line', 'c', '{\"name\":\"planted\"}', moment(), moment(), 'failed', moment())";
    let id: &Uuid = event.id.as_uuid();
    dispatching.execute(late, &[id]).await?;
    let of_a_later_run = "
        INSERT INTO webhook_deliveries (event_id, namespace_id, subscription, connection, body, emitted_at, due_at)
        VALUES ($1, 1, 'later', 'c', '{\"name\":\"planted\"}', $2::timestamptz + interval '1 minute', moment())";
    dispatching.execute(of_a_later_run, &[id, &until]).await?;
    dispatching.commit().await?;
    erasing.await??;

    let left = "SELECT subscription FROM webhook_deliveries WHERE is_erased IS FALSE";
    let left = client.query(left, &[]).await?;
    let left: Vec<String> = left.iter().map(|row| row.get(0)).collect();
    assert_eq!(
        (left.as_slice(), count_planted(&world).await?),
        (&["later".to_owned()][..], 1)
    );
    Ok(())
}

fn room(served: &BTreeMap<String, (i64, i64)>, total: i64) -> DeliveryCapacity {
    let lines = served
        .iter()
        .map(|(name, (busy, served))| SubscriptionLoad {
            namespace_id: 1,
            subscription: name.clone(),
            busy: *busy,
            served: *served,
        });
    DeliveryCapacity {
        total,
        each: EACH,
        lines: lines.collect(),
    }
}

fn note(served: &mut BTreeMap<String, (i64, i64)>, taken: &[DueDelivery], number: i64) {
    for due in taken {
        let line = served.entry(due.subscription.clone()).or_default();
        *line = (line.0 + 1, number);
    }
}
