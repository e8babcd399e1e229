//! Sessions that are known dead: they end before their leases, and runs without progress gain nothing by it.

use std::time::Duration;

use anyhow::Result;
use semel_model::{SessionId, Span};
use semel_store::claims::start_accepting;
use semel_store::sessions::{self, LockPlace};
use semel_store::{clock, queue};
use uuid::Uuid;

use crate::world::{World, delivery};

const LEASE: Span = Span::from_const_secs(30);

fn lock() -> LockPlace {
    LockPlace {
        boot: Uuid::from_u128(7),
        // As the number of a device that has its highest bit set.
        device: -3,
        inode: 11,
    }
}

async fn begin(world: &World, lock: Option<LockPlace>) -> Result<SessionId> {
    let session = SessionId::generate();
    sessions::open_with_lock(&world.cell, session, "test", LEASE, lock).await?;
    Ok(session)
}

async fn is_live(world: &World, session: SessionId) -> Result<bool> {
    let renewed = sessions::renew(&world.cell, session, LEASE).await?;
    Ok(renewed.is_some())
}

#[tokio::test]
async fn a_session_ends_only_under_the_lock_that_its_row_names_and_for_good() -> Result<()> {
    let world = World::start().await?;
    let ours = lock();
    let dead = begin(&world, Some(ours)).await?;
    let late = begin(&world, None).await?;
    let unnamed = begin(&world, Some(ours)).await?;
    let elsewhere = [
        LockPlace {
            boot: Uuid::from_u128(8),
            ..ours
        },
        LockPlace { device: 3, ..ours },
        LockPlace { inode: 12, ..ours },
    ];
    let mut named = vec![dead, late];
    for place in elsewhere {
        named.push(begin(&world, Some(place)).await?);
    }

    let ended = sessions::end_dead(&world.cell, &named, ours).await?;
    let again = sessions::end_dead(&world.cell, &named, ours).await?;

    assert_eq!((ended, again), (1, 0), "its answer may be lost");
    assert!(!is_live(&world, dead).await?);
    assert!(is_live(&world, unnamed).await?);
    for session in &named[1..] {
        assert!(is_live(&world, *session).await?);
    }

    // A process got the lock while its session was under way.
    sessions::note_lock(&world.cell, late, ours).await?;
    assert_eq!(sessions::end_dead(&world.cell, &named, ours).await?, 1);
    assert!(!is_live(&world, late).await?);
    sessions::note_lock(&world.cell, dead, ours).await?;
    assert_eq!(sessions::end_dead(&world.cell, &named, ours).await?, 0);
    Ok(())
}

/// Runs that a session holds, with 0 to 4 takes without progress.
async fn hold(world: &World, session: SessionId) -> Result<()> {
    let accepting = start_accepting(&world.cell);
    let client = world.connect().await?;
    for takes in 0..5_i16 {
        let key = format!("{session}-{takes}");
        let held = delivery(&key, "{}", Some(session))?;
        let run = accepting.write(held).await?.run;
        let count = "UPDATE queue SET stalled_takes = $2 WHERE run_id = $1";
        client.execute(count, &[run.as_uuid(), &takes]).await?;
    }
    Ok(())
}

/// For each count of takes without progress, how long its run rests, in parts of what was left of the lease.
async fn list_rests(world: &World, session: SessionId) -> Result<Vec<(i16, &'static str)>> {
    let rests = "SELECT q.stalled_takes, q.due_at <= moment(), q.due_at = s.expires_at,
                        q.due_at = s.expires_at + (s.expires_at - s.lost_at)
                   FROM queue q, sessions s
                  WHERE s.id = $1 AND q.holder IS NULL
                  ORDER BY q.stalled_takes";
    let client = world.connect().await?;
    let rows = client.query(rests, &[session.as_uuid()]).await?;
    let word = |row: &tokio_postgres::Row| match (row.get(1), row.get(2), row.get(3)) {
        (true, _, _) => "due",
        (false, true, _) => "once",
        (false, false, true) => "twice",
        (false, false, false) => "otherwise",
    };
    Ok(rows.iter().map(|row| (row.get(0), word(row))).collect())
}

#[tokio::test]
async fn a_run_without_progress_is_taken_no_sooner_because_its_server_is_known_dead() -> Result<()>
{
    let world = World::start().await?;
    let session = begin(&world, Some(lock())).await?;
    hold(&world, session).await?;

    sessions::end_dead(&world.cell, &[session], lock()).await?;
    let freed = queue::recover(&world.cell).await?;

    assert_eq!(freed, 5);
    let expected = [
        (0, "due"),
        (1, "due"),
        (2, "twice"),
        (3, "once"),
        (4, "once"),
    ];
    assert_eq!(list_rests(&world, session).await?, expected);
    Ok(())
}

#[tokio::test]
async fn all_runs_of_a_session_whose_lease_is_over_are_due_at_once() -> Result<()> {
    let world = World::start().await?;
    let session = begin(&world, Some(lock())).await?;
    hold(&world, session).await?;

    clock::move_ahead(&world.cell, Duration::from_secs(31)).await?;
    let freed = queue::recover(&world.cell).await?;

    assert_eq!(freed, 5);
    let due = [0, 1, 2, 3, 4].map(|takes| (takes, "due"));
    assert_eq!(list_rests(&world, session).await?, due);
    Ok(())
}
