//! Partitions are created ahead, without blocking other sessions, and whatever the default
//! partition holds.

use std::time::Duration;

use anyhow::Result;
use semel_store::claims::start_accepting;
use semel_store::{clock, partitions};
use tokio::time::Instant;

use crate::world::{World, delivery};

/// A little more than a month.
const MONTH: Duration = Duration::from_secs(32 * 86_400);

#[tokio::test]
async fn a_dump_delays_partitions_and_not_deliveries() -> Result<()> {
    let world = World::start().await?;
    let accepting = start_accepting(&world.cell);
    accepting.write(delivery("warm", "{}", None)?).await?;
    clock::move_ahead(&world.cell, MONTH).await?;
    let dump = world.connect().await?;
    dump.batch_execute(
        "BEGIN; LOCK TABLE journal, effects, journal_default, effects_default IN ACCESS SHARE MODE",
    )
    .await?;

    let upkeep = {
        let cell = world.cell.clone();
        tokio::spawn(async move { partitions::keep_up(&cell).await })
    };
    let mut slowest = Duration::ZERO;
    let mut count = 0;
    while !upkeep.is_finished() || count < 50 {
        let begun = Instant::now();
        let key = format!("during-{count}");
        accepting.write(delivery(&key, "{}", None)?).await?;
        slowest = slowest.max(begun.elapsed());
        count += 1;
    }
    let during = upkeep.await??;
    dump.batch_execute("COMMIT").await?;
    let after = partitions::keep_up(&world.cell).await?;

    assert!(
        slowest < Duration::from_secs(1),
        "a delivery took {slowest:?}"
    );
    assert_eq!((during.made, during.missing), (0, 2), "{during:?}");
    assert_eq!(during.urgent, 0, "the month after next is no alarm");
    assert_eq!((after.made, after.missing), (2, 0), "{after:?}");
    Ok(())
}

#[tokio::test]
async fn a_missing_partition_of_the_next_month_is_an_alarm() -> Result<()> {
    let world = World::start().await?;
    clock::move_ahead(&world.cell, MONTH + MONTH).await?;
    let dump = world.connect().await?;
    dump.batch_execute("BEGIN; LOCK TABLE journal_default, effects_default IN ACCESS SHARE MODE")
        .await?;

    let upkeep = partitions::keep_up(&world.cell).await?;

    assert!(upkeep.urgent > 0, "{upkeep:?}");
    Ok(())
}

#[tokio::test]
async fn rows_of_the_default_partition_move_into_the_one_of_their_month() -> Result<()> {
    let world = World::start().await?;
    let accepting = start_accepting(&world.cell);
    clock::move_ahead(&world.cell, MONTH * 6).await?;
    accepting.write(delivery("early", "{}", None)?).await?;
    let client = world.connect().await?;
    let in_default = "SELECT count(*) FROM journal_default";
    let before: i64 = client.query_one(in_default, &[]).await?.get(0);

    let upkeep = partitions::keep_up(&world.cell).await?;
    let again = partitions::keep_up(&world.cell).await?;
    accepting.write(delivery("later", "{}", None)?).await?;

    let after: i64 = client.query_one(in_default, &[]).await?.get(0);
    let all: i64 = client
        .query_one("SELECT count(*) FROM journal", &[])
        .await?
        .get(0);
    assert_eq!(
        (before, after, all),
        (1, 0, 2),
        "the row is still there, elsewhere"
    );
    assert_eq!((upkeep.made, upkeep.missing), (6, 0), "{upkeep:?}");
    assert_eq!((again.made, again.missing), (0, 0), "{again:?}");
    Ok(())
}

#[tokio::test]
async fn one_server_makes_partitions_at_a_time() -> Result<()> {
    let world = World::start().await?;
    clock::move_ahead(&world.cell, MONTH * 6).await?;

    let (one, other) = tokio::join!(
        partitions::keep_up(&world.cell),
        partitions::keep_up(&world.cell)
    );

    let (one, other) = (one?, other?);
    assert!(one.made + other.made >= 3, "{one:?} {other:?}");
    let rest = partitions::keep_up(&world.cell).await?;
    assert_eq!(rest.missing, 0, "{rest:?}");
    Ok(())
}

#[tokio::test]
async fn an_emptied_partition_is_dropped_and_a_straggler_carried_over() -> Result<()> {
    let world = World::start().await?;
    partitions::keep_up(&world.cell).await?;
    let accepting = start_accepting(&world.cell);
    let straggler = accepting.write(delivery("straggler", "{}", None)?).await?;
    let client = world.connect().await?;
    let names = "SELECT string_agg(inhrelid::regclass::text, ' ' ORDER BY 1) FROM pg_inherits
                  WHERE inhparent = 'journal'::regclass";
    let names = async || -> Result<String> { Ok(client.query_one(names, &[]).await?.get(0)) };
    let first = names().await?;

    let too_soon = partitions::drop_emptied(&world.cell).await?;
    clock::move_ahead(&world.cell, MONTH * 3).await?;
    partitions::keep_up(&world.cell).await?;
    client
        .batch_execute("BEGIN; LOCK TABLE journal IN ACCESS SHARE MODE")
        .await?;
    let behind_a_dump = partitions::drop_emptied(&world.cell).await?;
    client.batch_execute("COMMIT").await?;
    let dropped = partitions::drop_emptied(&world.cell).await?;

    let lines = "SELECT tableoid::regclass::text FROM journal WHERE run_id = $1";
    let place: String = client
        .query_one(lines, &[straggler.run.as_uuid()])
        .await?
        .get(0);
    assert_eq!(too_soon, 0);
    assert!(behind_a_dump <= 2, "journal is in use: {behind_a_dump}");
    assert!(dropped >= 2, "{dropped}");
    assert_eq!(place, "journal_default");
    assert_ne!(first, names().await?);
    accepting.write(delivery("later", "{}", None)?).await?;
    Ok(())
}
