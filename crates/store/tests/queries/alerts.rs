//! Messages about alerts: namespaces take turns, and those whose destinations hang leave room.

use std::collections::BTreeSet;

use anyhow::Result;
use semel_model::Span;
use semel_store::alerts::{self, AlertMessage};
use semel_testkit::until;

use crate::world::World;

/// Writes messages of a namespace that are due, as long ago as is said.
async fn due(world: &World, namespace: i32, count: i32, mins_ago: i32) -> Result<()> {
    let text = "
        INSERT INTO alert_messages (id, namespace_id, kind, flow, connection, step, period_start, count,
                                    since, recipients, subject, body, intended_at)
        SELECT gen_random_uuid(), $1, 'doubt', 'flow-' || n, '', '', moment(), 1, moment(), '{}',
               'subject', 'body', moment() - make_interval(mins => $3)
          FROM generate_series(1, $2) AS n";
    let client = world.connect().await?;
    client
        .execute(text, &[&namespace, &count, &mins_ago])
        .await?;
    Ok(())
}

/// The latest message of a group of the namespace did not arrive.
async fn fails(world: &World, namespace: i32) -> Result<()> {
    let text = "
        INSERT INTO alert_groups (namespace_id, kind, flow, connection, step, total, waiting, failures,
                                  last_at)
        VALUES ($1, 'doubt', 'flow-1', '', '', 1, 0, 1, moment())";
    world.connect().await?.execute(text, &[&namespace]).await?;
    Ok(())
}

/// Takes messages; the namespaces of those, in order.
async fn take(world: &World, most: i64) -> Result<Vec<i32>> {
    let lease = Span::from_secs(60);
    let taken = alerts::take_due(world.cell.home(), most, lease).await?;
    let namespace = |message: &AlertMessage| message.group.namespace_id;
    let mut namespaces: Vec<i32> = taken.iter().map(namespace).collect();
    namespaces.sort_unstable();
    Ok(namespaces)
}

#[tokio::test]
async fn messages_about_alerts_leave_in_turns_of_their_namespaces() -> Result<()> {
    let world = World::start().await?;
    due(&world, 1, 9, 30).await?;
    due(&world, 2, 1, 20).await?;
    due(&world, 3, 2, 10).await?;

    let first = take(&world, 4).await?;
    let others = take(&world, 8).await?;

    assert_eq!(
        first,
        [1, 1, 2, 3],
        "the first of each before the second of any"
    );
    assert_eq!(others, [1, 1, 3], "four of a namespace at the most");
    Ok(())
}

#[tokio::test]
async fn namespaces_whose_messages_do_not_arrive_leave_places_to_the_others() -> Result<()> {
    let world = World::start().await?;
    for namespace in 1..=6 {
        due(&world, namespace, 5, 30).await?;
        fails(&world, namespace).await?;
    }
    due(&world, 7, 1, 10).await?;

    let first = take(&world, 1).await?;
    let others = take(&world, 8).await?;
    due(&world, 8, 2, 5).await?;
    let later = take(&world, 8).await?;

    assert_eq!(first, [7], "what failed before is behind");
    let distinct: BTreeSet<i32> = others.iter().copied().collect();
    assert_eq!(others.len(), 4, "four together: {others:?}");
    assert_eq!(distinct.len(), 4, "one of each: {others:?}");
    assert_eq!(
        later,
        [8, 8],
        "the places of what hangs are not given twice"
    );
    Ok(())
}

#[tokio::test]
async fn a_namespace_that_failed_once_has_its_turn_beside_those_that_hang() -> Result<()> {
    let world = World::start().await?;
    for namespace in 1..=4 {
        due(&world, namespace, 5, 60).await?;
        fails(&world, namespace).await?;
    }
    due(&world, 5, 1, 10).await?;
    fails(&world, 5).await?;
    let client = world.connect().await?;

    // Nothing arrives, so that the messages of the others stay older.
    let look = async || -> Result<Vec<i32>> {
        let taken = take(&world, 8).await?;
        let again = "UPDATE alert_messages SET state = 'due', lease_until = NULL";
        client.execute(again, &[]).await?;
        Ok(taken)
    };
    let taken = until("the fifth to have a turn", look, |taken| taken.contains(&5)).await?;

    assert_eq!(taken.len(), 4, "{taken:?}");
    Ok(())
}
