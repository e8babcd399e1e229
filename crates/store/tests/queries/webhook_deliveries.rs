//! Deliveries to webhooks: every subscription has its turn.

use std::collections::BTreeMap;

use anyhow::Result;
use semel_model::Span;
use semel_store::webhook_deliveries::{self, DeliveryCapacity, DueDelivery, SubscriptionLoad};

use crate::world::World;

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
