//! Deliveries to webhooks: every subscription has its turn.

use std::collections::BTreeMap;

use anyhow::Result;
use jiff::{SignedDuration, Timestamp};
use semel_model::{EffectId, RunId, SessionId, Span};
use semel_store::claims::start_accepting;
use semel_store::outbox::{self, OutboxEvent, OutboxTaker};
use semel_store::sessions;
use semel_store::webhook_deliveries::{
    self, DeliveryCapacity, DeliveryResult, DueDelivery, NamespaceLoad, SubscriptionLoad,
};
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
    INSERT INTO webhook_deliveries (event_id, namespace_id, subscription, connection, event, body, emitted_at,
                                    due_at)
    SELECT md5(n || '-' || m)::uuid, 1, 'line-' || to_char(n, 'FM00'), 'c', 'order.paid', '{}', now(),
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

/// One line of another namespace, younger than all of the first.
const FILL_OTHER: &str = "
    INSERT INTO subscriptions (namespace_id, name, event, connection) VALUES (2, 'line', 'order.paid', 'c');
    INSERT INTO webhook_deliveries (event_id, namespace_id, subscription, connection, event, body, emitted_at,
                                    due_at)
    SELECT md5('other-' || n)::uuid, 2, 'line', 'c', 'order.paid', '{}', now(), moment() - interval '1 second'
      FROM generate_series(1, 3) AS n";

#[tokio::test]
async fn a_few_deliveries_do_not_wait_behind_many_of_another_namespace() -> Result<()> {
    let world = World::start().await?;
    let client = world.cell.reader().await?;
    client.batch_execute(FILL).await?;
    client.batch_execute(FILL_OTHER).await?;
    let share = TOTAL / 8 * 7;
    let capacity = |total, busy| DeliveryCapacity {
        each_namespace: share,
        namespaces: vec![NamespaceLoad {
            namespace_id: 1,
            busy,
            served: 1,
        }],
        ..room(&BTreeMap::new(), total)
    };
    let lease = Span::from_secs(600);

    let first = webhook_deliveries::take_due(&world.cell, &capacity(TOTAL, 0), lease).await?;
    let full = webhook_deliveries::take_due(&world.cell, &capacity(TOTAL, share), lease).await?;
    let last =
        webhook_deliveries::take_due(&world.cell, &capacity(TOTAL, share - 2), lease).await?;

    let of = |taken: &[DueDelivery], id| taken.iter().filter(|it| it.namespace_id == id).count();
    assert_eq!((of(&first, 1) as i64, of(&first, 2)), (share, 3));
    assert!(full.is_empty(), "its share is in flight");
    assert_eq!(last.len(), 2);
    Ok(())
}

#[tokio::test]
async fn with_one_place_namespaces_take_turns_however_many_lines_they_have() -> Result<()> {
    let world = World::start().await?;
    let client = world.cell.reader().await?;
    client.batch_execute(FILL).await?;
    client.batch_execute(FILL_OTHER).await?;
    let mut served = BTreeMap::<i32, i64>::new();

    let mut order = Vec::new();
    for number in 1..=6 {
        let namespaces = served.iter().map(|(namespace_id, served)| NamespaceLoad {
            namespace_id: *namespace_id,
            busy: 0,
            served: *served,
        });
        let capacity = DeliveryCapacity {
            namespaces: namespaces.collect(),
            ..room(&BTreeMap::new(), 1)
        };
        let lease = Span::from_secs(600);
        for due in webhook_deliveries::take_due(&world.cell, &capacity, lease).await? {
            served.insert(due.namespace_id, number);
            order.push(due.namespace_id);
        }
    }

    assert_eq!(order, [1, 2, 1, 2, 1, 2]);
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
    // An erasure closes its root before it begins; items and branches are only ever marked as erased.
    for mark in ["closed_at", "erased_at"] {
        dispatch_after_erasure(mark).await?;
    }
    Ok(())
}

async fn dispatch_after_erasure(mark: &str) -> Result<()> {
    let world = World::start().await?;
    let client = world.cell.reader().await?;
    client.batch_execute(SUBSCRIBE).await?;
    let (erased, other) = (emit(&world, "a").await?, emit(&world, "b").await?);

    let close = format!("UPDATE runs SET {mark} = moment() WHERE id = $1");
    client.execute(&close, &[erased.run.as_uuid()]).await?;
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
async fn an_event_with_a_zero_byte_is_listed_and_so_is_an_answer_with_one() -> Result<()> {
    let world = World::start().await?;
    world.cell.reader().await?.batch_execute(SUBSCRIBE).await?;
    let event = emit(&world, "a").await?;
    let cell = world.cell.of(event.id);
    let body = r#"{"type":"order.paid","data":{"name":"a\u0000b"}}"#;
    webhook_deliveries::insert(cell, &event, body).await?;

    let due = take_all(&world).await?;
    let note = DeliveryResult::Failed("answered 400: no\0pe".to_owned());
    webhook_deliveries::settle(cell, &due[0], &note).await?;
    let every = world.cell.every();
    let listed = webhook_deliveries::list(every, 1, "line", None, None, 10).await?;

    assert_eq!(due[0].body, body, "it goes out as it is");
    let (found, noted) = (&listed[0], Some("answered 400: no\u{fffd}pe"));
    assert_eq!(
        (found.name.as_str(), found.state.as_str()),
        ("order.paid", "failed")
    );
    assert_eq!((listed.len(), found.note.as_deref()), (1, noted));
    Ok(())
}

#[tokio::test]
async fn an_erasure_waits_for_events_that_are_being_dispatched_and_erases_in_batches() -> Result<()>
{
    let world = World::start().await?;
    let client = world.connect().await?;
    client.batch_execute(SUBSCRIBE).await?;
    let event = emit(&world, "a").await?;
    let put = "INSERT INTO outbox (id, namespace_id, run_id, event, data, emitted_at)
               VALUES ($1, 1, $2, 'order.paid', '{}', moment())";
    let values = [event.id.as_uuid(), event.run.as_uuid()];
    client.execute(put, &[values[0], values[1]]).await?;
    let (low, _) = event.run.key_range();
    let fill = "
        INSERT INTO webhook_deliveries (event_id, namespace_id, subscription, connection, event, body, emitted_at,
                                        due_at, state, settled_at)
        SELECT $1, 1, 'line-' || n, 'c', 'order.paid', '{\"name\":\"planted\"}', moment(), moment(), 'delivered', moment()
          FROM generate_series(1, 2500) n";
    client.execute(fill, &[&low]).await?;

    let session = SessionId::generate();
    let lease = Span::from_secs(60);
    sessions::open(&world.cell, session, "test", lease).await?;
    let taken = OutboxTaker::default()
        .take(&world.cell, session, lease)
        .await?;
    assert_eq!(taken.len(), 1);
    let cell = world.cell.clone();
    let run: RunId = event.run;
    let now = client.query_one("SELECT moment()", &[]).await?;
    let until = now.get::<_, Timestamp>(0) + SignedDuration::from_secs(60);
    let erasing =
        tokio::spawn(async move { webhook_deliveries::erase(cell.of(run), run, until).await });
    let looked = "SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND pid <> pg_backend_pid()
                     AND query LIKE '%= ANY ($1) AND num_nulls(holder)%'";
    semel_testkit::until(
        "a second look at the lease",
        async || Ok(client.query_one(looked, &[]).await?.get::<_, i64>(0)),
        |looks| *looks > 0,
    )
    .await?;
    let late = "INSERT INTO webhook_deliveries (event_id, namespace_id, subscription, connection, event, body,
                                                emitted_at, due_at, state, settled_at)
                VALUES ($1, 1, 'line', 'c', 'order.paid', '{\"name\":\"planted\"}', moment(), moment(), 'failed', moment())";
    let id: &Uuid = event.id.as_uuid();
    client.execute(late, &[id]).await?;
    let of_a_later_run = "
        INSERT INTO webhook_deliveries (event_id, namespace_id, subscription, connection, event, body, emitted_at,
                                        due_at)
        VALUES ($1, 1, 'later', 'c', 'order.paid', '{\"name\":\"planted\"}', $2::timestamptz + interval '1 minute', moment())";
    client.execute(of_a_later_run, &[id, &until]).await?;
    assert!(!erasing.is_finished(), "an event is being dispatched");
    outbox::settle(world.cell.every(), session, &[event.id]).await?;
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
        each_namespace: TOTAL,
        lines: lines.collect(),
        namespaces: Vec::new(),
    }
}

fn note(served: &mut BTreeMap<String, (i64, i64)>, taken: &[DueDelivery], number: i64) {
    for due in taken {
        let line = served.entry(due.subscription.clone()).or_default();
        *line = (line.0 + 1, number);
    }
}
