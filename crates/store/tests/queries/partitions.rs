//! Partitions are created ahead, split into days and dropped, without blocking other sessions, and whatever
//! the default partition holds.

use std::time::Duration;

use anyhow::Result;
use semel_model::RunId;
use semel_store::claims::start_accepting;
use semel_store::{clock, partitions};
use semel_testkit::Connection;

use crate::world::{World, delivery};

/// A little more than a month.
const MONTH: Duration = Duration::from_secs(32 * 86_400);

#[tokio::test]
async fn a_dump_delays_partitions_and_not_deliveries() -> Result<()> {
    let world = World::start().await?;
    let accepting = start_accepting(&world.cell);
    accepting.write(delivery("warm", "{}", None)?).await?;
    let client = world.connect().await?;
    clock::move_ahead(&world.cell, until_noon_of(&client, 15).await?).await?;
    let dump = world.connect().await?;
    dump.batch_execute(
        "BEGIN; LOCK TABLE journal, effects, journal_default, effects_default IN ACCESS SHARE MODE",
    )
    .await?;

    let upkeep = {
        let cell = world.cell.clone();
        tokio::spawn(async move { partitions::keep_up(&cell).await })
    };
    // Each has its answer while the dump goes on: upkeep gives its place in the line up.
    let mut count = 0;
    while !upkeep.is_finished() || count < 50 {
        let key = format!("during-{count}");
        accepting.write(delivery(&key, "{}", None)?).await?;
        count += 1;
    }
    let during = upkeep.await??;
    dump.batch_execute("COMMIT").await?;
    let after = partitions::keep_up(&world.cell).await?;

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
async fn two_servers_make_each_partition_once() -> Result<()> {
    let world = World::start().await?;
    clock::move_ahead(&world.cell, MONTH * 6).await?;

    let (one, other) = tokio::join!(
        partitions::keep_up(&world.cell),
        partitions::keep_up(&world.cell)
    );

    let (one, other) = (one?, other?);
    // What neither made, because both wanted it or a lock was not free in time, is made the next time.
    let rest = partitions::keep_up(&world.cell).await?;
    let made = one.made + other.made + rest.made;
    assert_eq!((made, rest.missing), (6, 0), "{one:?} {other:?} {rest:?}");
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

/// Says that a hundred runs were accepted today.
const BUSY: &str = "
    INSERT INTO tallies (namespace_id, unit, began_at, flow_id, what, count)
    VALUES (1, 'day', date_trunc('day', moment(), 'UTC'), 1, 'accepted', 100)";

/// How many days of the next month are partitions of the journal.
const DAYS: &str = "
    SELECT count(*)
      FROM pg_partition_tree('journal') AS t
     WHERE t.level = 2
       AND t.relid::regclass::text ~ (to_char(moment() AT TIME ZONE 'UTC' + interval '1 month', '_YYYY_MM_') || '[0-9]{2}$')";

/// How long it is until noon of a day of the next month.
async fn until_noon_of(client: &Connection, day: i32) -> Result<Duration> {
    let text = "SELECT extract(epoch FROM date_trunc('month', moment(), 'UTC') + interval '1 month 12 hours'
                                          + make_interval(days => $1 - 1) - moment())::float8";
    Ok(Duration::from_secs_f64(
        client.query_one(text, &[&day]).await?.get(0),
    ))
}

/// A world in which a hundred runs were accepted today.
async fn busy() -> Result<(World, Connection)> {
    let world = World::start().await?;
    partitions::keep_up(&world.cell).await?;
    let client = world.connect().await?;
    client.batch_execute(BUSY).await?;
    Ok((world, client))
}

/// Leaves rows of the fifth of the next month, as a server whose clock was ahead does.
async fn leave_early(client: &Connection, rows: i32) -> Result<()> {
    let early = "
        INSERT INTO journal (partition_date, run_id, seq, epoch, at, events)
        SELECT (date_trunc('month', moment() AT TIME ZONE 'UTC') + interval '1 month 4 days')::date,
               gen_random_uuid(), 1, 1, moment(), '[]'
          FROM generate_series(1, $1)";
    client.execute(early, &[&rows]).await?;
    Ok(())
}

/// A world whose next month has a partition for each day.
async fn split() -> Result<(World, Connection)> {
    let (world, client) = busy().await?;
    assert_eq!(partitions::split_by_day(&world.cell, 100).await?, 2);
    Ok((world, client))
}

#[tokio::test]
async fn a_busy_installation_gets_days_in_place_of_its_next_month() -> Result<()> {
    let (world, client) = split().await?;
    let days: i64 = client.query_one(DAYS, &[]).await?.get(0);

    let again = partitions::split_by_day(&world.cell, 100).await?;
    let upkeep = partitions::keep_up(&world.cell).await?;
    clock::move_ahead(&world.cell, until_noon_of(&client, 15).await?).await?;
    client.batch_execute("TRUNCATE tallies").await?;
    client.batch_execute(BUSY).await?;
    let quiet = partitions::split_by_day(&world.cell, 101).await?;

    assert!((28..=31).contains(&days), "{days}");
    assert_eq!((again, quiet), (0, 0));
    assert_eq!((upkeep.made, upkeep.missing), (0, 0), "{upkeep:?}");
    Ok(())
}

#[tokio::test]
async fn a_run_is_kept_in_the_partition_of_its_day_until_that_is_dropped() -> Result<()> {
    let (world, client) = split().await?;
    let accepting = start_accepting(&world.cell);
    clock::move_ahead(&world.cell, until_noon_of(&client, 10).await?).await?;
    let month: String = client
        .query_one(
            "SELECT 'journal' || to_char(moment() AT TIME ZONE 'UTC', '_YYYY_MM')",
            &[],
        )
        .await?
        .get(0);
    let has = async |day: &str| -> Result<bool> {
        let text = "SELECT to_regclass($1::text) IS NOT NULL";
        let name = format!("{month}_{day}");
        Ok(client.query_one(text, &[&name]).await?.get(0))
    };

    let run = accepting.write(delivery("one", "{}", None)?).await?.run;
    let first = place(&client, run).await?;
    partitions::drop_emptied(&world.cell).await?;
    let soon_after = (has("08").await?, has("09").await?);
    clock::move_ahead(&world.cell, Duration::from_secs(3 * 86_400)).await?;
    partitions::drop_emptied(&world.cell).await?;

    assert_eq!(first, format!("{month}_10"));
    assert_eq!(soon_after, (false, true), "a day ago the eighth had ended");
    assert!(!has("10").await?);
    let kept = place(&client, run).await?;
    assert_eq!(kept, format!("{month}_default"), "a straggler is kept");
    // What has no day any more is kept all the same.
    let late = "
        INSERT INTO journal (partition_date, run_id, seq, epoch, at, events)
        SELECT (moment() AT TIME ZONE 'UTC')::date - 4, gen_random_uuid(), 1, 1, moment(), '[]'";
    client.batch_execute(late).await?;
    Ok(())
}

#[tokio::test]
async fn a_month_that_was_split_is_dropped_as_others_are() -> Result<()> {
    let (world, client) = split().await?;
    let accepting = start_accepting(&world.cell);
    clock::move_ahead(&world.cell, until_noon_of(&client, 10).await?).await?;
    let run = accepting.write(delivery("one", "{}", None)?).await?.run;
    let first = place(&client, run).await?;

    clock::move_ahead(&world.cell, MONTH * 3).await?;
    partitions::keep_up(&world.cell).await?;
    partitions::drop_emptied(&world.cell).await?;

    let month = first.trim_end_matches("_10");
    let left = "SELECT count(*) FROM pg_class WHERE starts_with(relname::text, $1::text) AND relkind IN ('r', 'p')";
    let left: i64 = client.query_one(left, &[&month]).await?.get(0);
    assert_eq!(left, 0, "{month}");
    assert_eq!(place(&client, run).await?, "journal_default");
    Ok(())
}

#[tokio::test]
async fn a_month_that_is_in_use_is_split_later_and_loses_no_row() -> Result<()> {
    let (world, client) = busy().await?;
    leave_early(&client, 1).await?;
    let dump = world.connect().await?;
    dump.batch_execute("BEGIN; LOCK TABLE journal, effects IN ACCESS SHARE MODE")
        .await?;

    // It ends while the dump goes on.
    let behind_a_dump = partitions::split_by_day(&world.cell, 100).await?;
    dump.batch_execute("COMMIT").await?;
    let split = partitions::split_by_day(&world.cell, 100).await?;

    let rows = "SELECT tableoid::regclass::text FROM journal";
    let places = client.query(rows, &[]).await?;
    assert_eq!((behind_a_dump, split, places.len()), (0, 2, 1));
    assert!(places[0].get::<_, &str>(0).ends_with("_05"));
    Ok(())
}

#[tokio::test]
async fn a_month_with_many_rows_is_not_split() -> Result<()> {
    let (world, client) = busy().await?;
    leave_early(&client, 1_001).await?;

    let split = partitions::split_by_day(&world.cell, 100).await?;

    let days: i64 = client.query_one(DAYS, &[]).await?.get(0);
    assert_eq!((split, days), (1, 0), "effects alone");
    Ok(())
}

/// Which table holds the first line of a run's journal.
async fn place(client: &Connection, run: RunId) -> Result<String> {
    let text = "SELECT tableoid::regclass::text FROM journal WHERE run_id = $1";
    Ok(client.query_one(text, &[run.as_uuid()]).await?.get(0))
}
