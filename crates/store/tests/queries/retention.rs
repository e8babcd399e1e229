//! Forgetting: in time, and never too soon.

use std::time::Duration;

use anyhow::Result;
use semel_model::{ClaimVerdict, RunId, Span};
use semel_store::kept_generations::KeyMemory;
use semel_store::retention::{self, ClaimRule};
use semel_store::{claims, clock};
use tokio_postgres::types::ToSql;

use crate::world::{World, delivery};

#[tokio::test]
async fn a_key_is_forgotten_after_its_time_and_never_before_its_run_ended() -> Result<()> {
    let world = World::start().await?;
    let accept = claims::start_accepting(&world.cell);
    let met = accept.write(delivery("old", "{}", None)?).await?;
    let claim = delivery("old", "{}", None)?.claim;

    let (too_soon, _) = retention::forget_keys(world.cell.every()).await?;
    clock::move_ahead(&world.cell, Duration::from_secs(2 * 3600)).await?;
    let (while_running, _) = retention::forget_keys(world.cell.every()).await?;
    let kept = claims::find(world.cell.of(claim), claim).await?;
    world
        .cell
        .reader()
        .await?
        .execute(
            "UPDATE runs SET state = 'succeeded', ended_at = moment() WHERE id = $1",
            &[met.run.as_uuid()],
        )
        .await?;
    clock::move_ahead(&world.cell, Duration::from_secs(2 * 3600)).await?;
    let (after_its_end, _) = retention::forget_keys(world.cell.every()).await?;

    assert_eq!((too_soon, while_running, after_its_end), (0, 0, 1));
    assert!(kept.is_some(), "a live run keeps its key past its time");
    assert!(claims::find(world.cell.of(claim), claim).await?.is_none());
    Ok(())
}

#[tokio::test]
async fn a_key_is_kept_from_the_end_of_its_run() -> Result<()> {
    let world = World::start().await?;
    let accept = claims::start_accepting(&world.cell);
    let met = accept.write(delivery("slow", "{}", None)?).await?;
    let claim = delivery("slow", "{}", None)?.claim;
    let hours = |hours: u64| Duration::from_secs(hours * 3600);

    // The flow keeps keys for an hour, and the run takes ten.
    for _ in 0..10 {
        clock::move_ahead(&world.cell, hours(1)).await?;
        retention::forget_keys(world.cell.every()).await?;
    }
    world.end(met.run, "succeeded").await?;
    let shown = claims::find(world.cell.of(claim), claim).await?;
    clock::move_ahead(&world.cell, Duration::from_secs(50 * 60)).await?;
    let (too_soon, _) = retention::forget_keys(world.cell.every()).await?;
    let repeat = accept.write(delivery("slow", "{}", None)?).await?;
    clock::move_ahead(&world.cell, Duration::from_secs(13 * 60)).await?;
    let (in_time, _) = retention::forget_keys(world.cell.every()).await?;
    let next = accept.write(delivery("slow", "{}", None)?).await?;

    assert!(shown.is_some());
    assert_eq!(too_soon, 0, "fifty minutes after its end");
    assert_eq!(
        (repeat.verdict, repeat.run),
        (ClaimVerdict::Duplicate, met.run)
    );
    assert_eq!(in_time, 1, "an hour after its end");
    assert_eq!(next.verdict, ClaimVerdict::New);
    assert_eq!(next.run, RunId::derive(claim, 1));
    Ok(())
}

#[tokio::test]
async fn a_run_that_is_being_resumed_keeps_its_key() -> Result<()> {
    let world = World::start().await?;
    let accept = claims::start_accepting(&world.cell);
    let met = accept.write(delivery("failed", "{}", None)?).await?;
    let claim = delivery("failed", "{}", None)?.claim;
    world.end(met.run, "failed").await?;
    clock::move_ahead(&world.cell, Duration::from_secs(2 * 3600)).await?;

    // Another session resumes the run and has not committed yet.
    let mut resuming = world.cell.reader().await?;
    let resuming = resuming.transaction().await?;
    resuming
        .execute(
            "UPDATE runs SET state = 'active', ended_at = NULL WHERE id = $1",
            &[met.run.as_uuid()],
        )
        .await?;
    let (meanwhile, _) = retention::forget_keys(world.cell.every()).await?;
    resuming.commit().await?;
    let (afterwards, _) = retention::forget_keys(world.cell.every()).await?;

    assert_eq!((meanwhile, afterwards), (0, 0));
    assert!(claims::find(world.cell.of(claim), claim).await?.is_some());
    Ok(())
}

#[tokio::test]
async fn a_key_whose_later_run_has_a_zero_byte_goes_in_its_time() -> Result<()> {
    let world = World::start().await?;
    let back = delivery("back", "{}", None)?;
    world.bring_back(&back, 1).await?;
    let accepted = r#"
        INSERT INTO journal (partition_date, run_id, seq, epoch, at, events)
        SELECT partition_date, id, 1, 1, moment(), '[{"event":"accepted","input":"a\u0000b"}]' FROM runs"#;
    world.connect().await?.execute(accepted, &[]).await?;
    clock::move_ahead(&world.cell, Duration::from_secs(2 * 86_400)).await?;

    let day = Span::from_secs(86_400);
    let rule = ClaimRule::default();
    let deleted = retention::delete_old(world.cell.every(), &[back.claim], day, &rule).await?;

    assert_eq!((deleted.count, deleted.more), (2, false));
    Ok(())
}

/// The marker of a `db` step has no end, and a key that a destination honours has one.
#[tokio::test]
async fn a_claim_stays_for_as_long_as_a_key_of_its_effects_is_remembered() -> Result<()> {
    let world = World::start().await?;
    let client = world.connect().await?;
    let days = |days: u64| Duration::from_secs(days * 86_400);
    let (http, db) = (delivery("http", "{}", None)?, delivery("db", "{}", None)?);
    for (back, until) in [(&http, "12 days"), (&db, "infinity")] {
        world.bring_back(back, 1).await?;
        let first = RunId::derive(back.claim, 0);
        let keep = "INSERT INTO kept_generations (first_run, step, generation, intent, undone, kept_until)
                    SELECT $1, 'row', 0, 0, true,
                           CASE $2 WHEN 'infinity' THEN 'infinity' ELSE moment() + $2::text::interval END";
        client.execute(keep, &[first.as_uuid(), &until]).await?;
    }
    let left = async || -> Result<(i64, i64)> {
        let left = "SELECT (SELECT count(*) FROM claims), (SELECT count(*) FROM kept_generations)";
        let row = client.query_one(left, &[]).await?;
        Ok((row.get(0), row.get(1)))
    };

    clock::move_ahead(&world.cell, days(2)).await?;
    let old = [http.claim, db.claim];
    let day = Span::from_secs(86_400);
    let rule = ClaimRule::default();
    let deleted = retention::delete_old(world.cell.every(), &old, day, &rule).await?;
    retention::sweep(world.cell.every()).await?;
    let while_remembered = left().await?;
    clock::move_ahead(&world.cell, days(11)).await?;
    retention::sweep(world.cell.every()).await?;

    assert_eq!(deleted.count, 4);
    assert_eq!(while_remembered, (2, 2));
    assert_eq!(left().await?, (1, 1), "the one with a marker stays");
    Ok(())
}

#[tokio::test]
async fn a_claim_that_counts_intents_goes_when_no_destination_remembers_its_keys() -> Result<()> {
    let world = World::start().await?;
    let client = world.connect().await?;
    let days = |days: u64| Duration::from_secs(days * 86_400);
    let back = delivery("back", "{}", None)?;
    world.bring_back(&back, 1).await?;
    let left = async || -> Result<i64> {
        let left = "SELECT count(*) FROM claims";
        Ok(client.query_one(left, &[]).await?.get(0))
    };
    let rule = ClaimRule {
        counts: true,
        memories: [(1, KeyMemory::For(Span::from_secs(10 * 86_400)))].into(),
    };

    clock::move_ahead(&world.cell, days(2)).await?;
    let day = Span::from_secs(86_400);
    let deleted = retention::delete_old(world.cell.every(), &[back.claim], day, &rule).await?;
    clock::move_ahead(&world.cell, days(9)).await?;
    retention::sweep(world.cell.every()).await?;
    let while_remembered = left().await?;
    clock::move_ahead(&world.cell, days(2)).await?;
    retention::sweep(world.cell.every()).await?;

    assert_eq!((deleted.count, while_remembered), (2, 1));
    assert_eq!(left().await?, 0);
    Ok(())
}

/// Its runs are on three releases: a destination of the first remembers keys for long, one of the second for a day, and of
/// the third nothing is known.
#[tokio::test]
async fn a_claim_keeps_the_longest_memory_of_its_runs_whichever_goes_last() -> Result<()> {
    let world = World::start().await?;
    let client = world.connect().await?;
    let days = |days: u64| Duration::from_secs(days * 86_400);
    let memory = |days: u64| KeyMemory::For(Span::from_secs(days * 86_400));
    let rule = ClaimRule {
        counts: true,
        memories: [(1, memory(100)), (2, memory(1))].into(),
    };
    let (known, together, unknown) = ("known", "together", "unknown");
    let mut keys = Vec::new();
    for (key, first) in [(known, 1), (together, 1), (unknown, 3)] {
        let back = delivery(key, "{}", None)?;
        world.bring_back(&back, 1).await?;
        let (run, last) = (RunId::derive(back.claim, 0), RunId::derive(back.claim, 1));
        let released = "UPDATE runs SET release_id = $2 WHERE id = $1";
        client.execute(released, &[run.as_uuid(), &first]).await?;
        let days_later = if key == together { 0 } else { 5 };
        let follows = "UPDATE runs SET release_id = 2, has_inherited = true,
                              accepted_at = accepted_at + interval '1 second',
                              ended_at = ended_at + make_interval(days => $2) WHERE id = $1";
        let values: [&(dyn ToSql + Sync); 2] = [last.as_uuid(), &days_later];
        client.execute(follows, &values).await?;
        keys.push(back.claim);
    }
    let delete_old = async || {
        let day = Span::from_secs(86_400);
        let deleted = retention::delete_old(world.cell.every(), &keys, day, &rule).await?;
        retention::sweep(world.cell.every()).await?;
        anyhow::Ok(deleted.count)
    };
    let left = async || -> Result<i64> {
        let left = "SELECT count(*) FROM claims";
        Ok(client.query_one(left, &[]).await?.get(0))
    };

    let mut deleted = Vec::new();
    for _ in 0..2 {
        clock::move_ahead(&world.cell, days(4)).await?;
        deleted.push(delete_old().await?);
    }
    clock::move_ahead(&world.cell, days(90)).await?;
    delete_old().await?;
    let while_remembered = left().await?;
    clock::move_ahead(&world.cell, days(20)).await?;
    delete_old().await?;

    assert_eq!(
        deleted,
        [4, 2],
        "both of one key, and the first of the others"
    );
    assert_eq!(while_remembered, 3);
    assert_eq!(left().await?, 1, "of a release that is not named");
    Ok(())
}

#[tokio::test]
async fn a_memory_without_end_outlasts_the_next_run_of_the_key() -> Result<()> {
    let world = World::start().await?;
    let client = world.connect().await?;
    let days = |days: u64| Duration::from_secs(days * 86_400);
    let back = delivery("back", "{}", None)?;
    world.bring_back(&back, 1).await?;
    let rule = |memory: KeyMemory| ClaimRule {
        counts: true,
        memories: [(1, memory)].into(),
    };
    let delete_old = async |rule: &ClaimRule| {
        let day = Span::from_secs(86_400);
        clock::move_ahead(&world.cell, days(3)).await?;
        let deleted = retention::delete_old(world.cell.every(), &[back.claim], day, rule).await?;
        clock::move_ahead(&world.cell, days(3)).await?;
        retention::sweep(world.cell.every()).await?;
        anyhow::Ok(deleted.count)
    };
    let next = RunId::derive(back.claim, 2);
    let come_back = "INSERT INTO runs (id, claim_id, namespace_id, release_id, partition_date, state, key,
                                       delivery_id, accepted_at, ended_at)
                     VALUES ($1, $2, 1, 1, moment()::date, 'succeeded', 'back', $1, moment(), moment())";

    let first = delete_old(&rule(KeyMemory::Forever)).await?;
    client
        .execute(come_back, &[next.as_uuid(), back.claim.as_uuid()])
        .await?;
    let second = delete_old(&rule(KeyMemory::For(Span::from_secs(3_600)))).await?;

    assert_eq!((first, second), (2, 1));
    let left = "SELECT count(*) FROM claims";
    let left: i64 = client.query_one(left, &[]).await?.get(0);
    assert_eq!(left, 1);
    Ok(())
}

/// `moment()` is volatile: where it is called in place, PostgreSQL calls it for every row of the index
/// instead of looking the time up in it. Once in a sub-select it is a value.
#[test]
fn no_statement_that_forgets_reads_the_clock_for_every_row() {
    let forgets = |text: &str| text.contains("DELETE FROM") && text.contains("LIMIT");
    let in_place = |text: &str| text.contains("< moment()") || text.contains("<= moment()");
    let statements = semel_store::statements();
    let forgetting = statements.iter().filter(|(_, text)| forgets(text));
    let wrong: Vec<_> = forgetting
        .clone()
        .filter(|(_, text)| in_place(text) && !text.contains("quiet_until < moment()"))
        .collect();

    assert!(forgetting.count() > 10, "these are not all of them");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
