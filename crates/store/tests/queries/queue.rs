//! The queue: no run stays with a holder that is gone.

use std::time::Duration;

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp};
use semel_model::{RunId, SessionId, Span, WaitId};
use semel_store::claims::start_accepting;
use semel_store::queue::{HeldRun, ReturnCause, Taken, Taker};
use semel_store::{clock, queue, retention, sessions};

use crate::world::{World, delivery};

async fn held_and_due(world: &World) -> Result<(i64, i64)> {
    let depth = queue::depth(world.cell.every()).await?;
    Ok((depth.held, depth.due))
}

#[tokio::test]
async fn a_run_that_was_accepted_for_a_session_that_is_gone_is_due_again() -> Result<()> {
    let world = World::start().await?;
    let (alive, gone) = (SessionId::generate(), SessionId::generate());
    sessions::open(&world.cell, alive, "test", Span::from_secs(60)).await?;
    let accepting = start_accepting(&world.cell);
    accepting
        .write(delivery("kept", "{}", Some(alive))?)
        .await?;
    accepting
        .write(delivery("stray", "{}", Some(gone))?)
        .await?;

    let before = queue::depth(world.cell.every()).await?;
    retention::sweep(world.cell.every()).await?;
    let after = queue::depth(world.cell.every()).await?;

    assert_eq!(
        (before.held, before.due),
        (2, 0),
        "both are held, none is due"
    );
    assert_eq!((after.held, after.due), (1, 1), "one is held, one is due");
    Ok(())
}

#[tokio::test]
async fn a_take_loads_no_more_than_fits_and_puts_the_rest_back() -> Result<()> {
    let world = World::start().await?;
    let session = SessionId::generate();
    sessions::open(&world.cell, session, "test", Span::from_secs(60)).await?;
    let accepting = start_accepting(&world.cell);
    let large = format!("\"{}\"", "x".repeat(100_000));
    for number in 0..20 {
        let key = format!("large-{number}");
        accepting.write(delivery(&key, &large, None)?).await?;
    }
    let mut taker = queue::Taker::new(&world.cell).with_bytes_max(250_000);

    let first = taker.take(session, 20, true).await?.taken;
    let after = queue::depth(world.cell.every()).await?;
    let second = taker.take(session, 20, true).await?.taken;

    assert_eq!(first.len(), 3, "two fit, and the third goes beyond");
    assert!(first.iter().all(|taken| taken.journal.len() == 1));
    assert!(first.iter().all(|taken| taken.takes == 1));
    assert_eq!(
        (after.held, after.due),
        (3, 17),
        "the rest is due as before"
    );
    assert_eq!(second.len(), 3, "it asks for as many as fitted");
    Ok(())
}

#[tokio::test]
async fn a_take_counts_the_answers_that_it_loads_and_puts_the_rest_back() -> Result<()> {
    let world = World::start().await?;
    let session = SessionId::generate();
    sessions::open(&world.cell, session, "test", Span::from_secs(60)).await?;
    let accepting = start_accepting(&world.cell);
    let client = world.connect().await?;
    let answered = "INSERT INTO waits (id, run_id, namespace_id, state, step, opened_at, ended_at, payload)
                    VALUES ($1, $2, 1, 'answered', 'paid', moment(), moment(), to_json(repeat('x', 100000)))";
    for number in 0..20 {
        let key = format!("answered-{number}");
        let run = accepting.write(delivery(&key, "{}", None)?).await?.run;
        let wait = WaitId::derive(run, "paid");
        client
            .execute(answered, &[wait.as_uuid(), run.as_uuid()])
            .await?;
    }
    let mut taker = queue::Taker::new(&world.cell).with_bytes_max(250_000);
    let mut narrow = queue::Taker::new(&world.cell).with_bytes_max(1);

    let first = taker.take(session, 20, true).await?.taken;
    let after = queue::depth(world.cell.every()).await?;
    let next = narrow.take(session, 20, true).await?.taken;

    assert_eq!(first.len(), 3, "two fit, and the third goes beyond");
    assert!(first.iter().all(|taken| taken.answers.len() == 1));
    assert!(
        first
            .iter()
            .all(|taken| taken.answers[0].text().len() == 100_002)
    );
    assert_eq!(
        (after.held, after.due),
        (3, 17),
        "the rest is due as before"
    );
    assert_eq!(next.len(), 1, "the first is loaded however large it is");
    assert_eq!(next[0].answers.len(), 1, "with its answer");
    Ok(())
}

#[tokio::test]
async fn a_run_whose_journal_has_moved_on_since_it_was_taken_is_left_alone() -> Result<()> {
    let world = World::start().await?;
    let session = SessionId::generate();
    sessions::open(&world.cell, session, "test", Span::from_secs(60)).await?;
    let accepting = start_accepting(&world.cell);
    let moved = accepting.write(delivery("moved", "{}", None)?).await?.run;
    let other = accepting.write(delivery("other", "{}", None)?).await?.run;
    let client = world.connect().await?;
    // Another server took the run and wrote its next row, between this take and what it loads.
    let row = "INSERT INTO journal (partition_date, run_id, seq, epoch, at, events)
               SELECT partition_date, run_id, seq + 1, epoch + 1, at, events FROM journal WHERE run_id = $1";
    assert_eq!(client.execute(row, &[moved.as_uuid()]).await?, 1);
    let mut taker = Taker::new(&world.cell);

    let taken = taker.take(session, 10, true).await?.taken;
    let commanded = taker.take_one(session, moved).await?;

    let runs: Vec<RunId> = taken.iter().map(|it| it.run).collect();
    assert_eq!(
        runs,
        [other],
        "its journal goes up to the row that was taken"
    );
    assert!(commanded.is_none(), "nor has an operator's command it");
    let held = "SELECT run_id FROM queue WHERE holder IS NOT NULL";
    let held = client.query_one(held, &[]).await?.get(0);
    assert_eq!(
        RunId::from_uuid(held),
        other,
        "and this server keeps no lease of it"
    );
    Ok(())
}

/// A live session and a run that it has accepted.
async fn held(world: &World) -> Result<(SessionId, RunId)> {
    let session = SessionId::generate();
    sessions::open(&world.cell, session, "test", Span::from_secs(60)).await?;
    let accepting = start_accepting(&world.cell);
    let met = accepting
        .write(delivery("one", "{}", Some(session))?)
        .await?;
    Ok((session, met.run))
}

async fn take(world: &World, session: SessionId) -> Result<Taken> {
    let mut taker = Taker::new(&world.cell);
    if let Some(taken) = taker.take(session, 10, true).await?.taken.pop() {
        return Ok(taken);
    }
    // From the third take on a run is a suspect, and the only one.
    let mut suspects = taker.take_suspects(session, 10, 0).await?;
    suspects.pop().context("a run that is due")
}

/// The process of every session ends: what they hold is due again. Gives another session.
async fn crash(world: &World) -> Result<SessionId> {
    clock::move_ahead(&world.cell, Duration::from_secs(61)).await?;
    queue::recover(&world.cell).await?;
    let session = SessionId::generate();
    sessions::open(&world.cell, session, "test", Span::from_secs(60)).await?;
    Ok(session)
}

#[tokio::test]
async fn suspects_are_taken_in_groups_that_halve_after_a_crash_and_only_a_take_alone_counts()
-> Result<()> {
    let world = World::start().await?;
    let accepting = start_accepting(&world.cell);
    for number in 0..5 {
        let key = format!("suspect-{number}");
        accepting.write(delivery(&key, "{}", None)?).await?;
    }
    let client = world.connect().await?;
    let stall = "UPDATE queue SET stalled_takes = 2";
    client.execute(stall, &[]).await?;
    let mut taker = Taker::new(&world.cell);

    let session = crash(&world).await?;
    let ordinary = taker.take(session, 10, true).await?.taken;
    let all = taker.take_suspects(session, 10, 0).await?;
    let session = crash(&world).await?;
    let half = taker.take_suspects(session, 10, 0).await?;
    let session = crash(&world).await?;
    let alone = taker.take_suspects(session, 10, 0).await?;
    let doubled = taker.take_suspects(session, 10, 4).await?;
    let session = crash(&world).await?;
    let accused = taker.take_suspects(session, 10, 64).await?;

    assert!(ordinary.is_empty());
    let sizes = [all.len(), half.len(), alone.len(), doubled.len()];
    assert_eq!(sizes, [5, 2, 1, 4]);
    let together = all.iter().chain(&half).chain(&doubled);
    let counted: Vec<_> = together.filter(|it| it.charged || it.takes != 2).collect();
    assert!(counted.is_empty(), "{counted:?}");
    assert!(alone[0].charged && alone[0].takes == 3);
    let next: Vec<(RunId, i16)> = accused.iter().map(|it| (it.run, it.takes)).collect();
    assert_eq!(next, [(alone[0].run, 4)], "from then on it is alone");
    Ok(())
}

#[tokio::test]
async fn a_suspect_that_comes_back_without_a_crash_is_soon_taken_alone_and_counts() -> Result<()> {
    let world = World::start().await?;
    let accepting = start_accepting(&world.cell);
    for key in ["one", "other"] {
        accepting.write(delivery(key, "{}", None)?).await?;
    }
    let client = world.connect().await?;
    let stall = "UPDATE queue SET stalled_takes = 2";
    client.execute(stall, &[]).await?;
    let session = crash(&world).await?;
    let mut taker = Taker::new(&world.cell);

    let both = taker.take_suspects(session, 10, 0).await?;
    let leases: Vec<(RunId, i64)> = both.iter().map(|it| (it.run, it.epoch)).collect();
    queue::return_runs(&world.cell, session, &leases, ReturnCause::Trouble).await?;
    let session = crash(&world).await?;
    // This process has carried many without a crash.
    let next = taker.take_suspects(session, 10, 64).await?;

    assert_eq!(both.len(), 2);
    let takes: Vec<i16> = next.iter().map(|it| it.takes).collect();
    assert_eq!(takes, [3]);
    Ok(())
}

#[tokio::test]
async fn a_return_that_comes_late_does_not_free_the_next_take() -> Result<()> {
    let world = World::start().await?;
    let (session, run) = held(&world).await?;

    let cause = ReturnCause::Overtaken;
    let first = queue::return_runs(&world.cell, session, &[(run, 1)], cause).await?;
    let taken = take(&world, session).await?;
    let again = queue::return_runs(&world.cell, session, &[(run, 1)], cause).await?;

    assert_eq!((first, taken.epoch), (1, 2));
    assert_eq!(again, 0, "the session holds it under another epoch");
    assert_eq!(held_and_due(&world).await?, (1, 0));
    Ok(())
}

#[tokio::test]
async fn a_run_that_returns_again_and_again_rests_longer_and_its_takes_count() -> Result<()> {
    let world = World::start().await?;
    let (session, run) = held(&world).await?;
    let client = world.connect().await?;
    let mut epoch = 1;

    for takes in 0..6_i16 {
        let trouble = ReturnCause::Trouble;
        let before = client.query_one("SELECT moment()", &[]).await?;
        queue::return_runs(&world.cell, session, &[(run, epoch)], trouble).await?;
        let row = "SELECT stalled_takes, due_at, moment() FROM queue";
        let row = client.query_one(row, &[]).await?;
        let (before, after): (Timestamp, Timestamp) = (before.get(0), row.get(2));
        let (counted, due): (i16, Timestamp) = (row.get(0), row.get(1));
        let rest = SignedDuration::from_millis(250_i64 << takes);
        assert_eq!(counted, takes);
        assert!(
            (before + rest..=after + rest).contains(&due),
            "due at {due} after {takes} takes, between {before} and {after}"
        );
        clock::move_ahead(&world.cell, Duration::from_secs(10)).await?;
        sessions::renew(&world.cell, session, Span::from_secs(60)).await?;
        epoch = take(&world, session).await?.epoch;
    }

    let stopping = ReturnCause::Stopping;
    queue::return_runs(&world.cell, session, &[(run, epoch)], stopping).await?;
    let takes = take(&world, session).await?.takes;
    assert_eq!(
        takes, 6,
        "only the take of the process that stops is taken back"
    );
    Ok(())
}

#[tokio::test]
async fn a_run_that_its_session_does_not_work_on_is_found() -> Result<()> {
    let world = World::start().await?;
    let (session, run) = held(&world).await?;

    let carried = queue::list_held_besides(&world.cell, session, &[run]).await?;
    let stranded = queue::list_held_besides(&world.cell, session, &[]).await?;

    assert_eq!(carried, []);
    let claim = delivery("one", "{}", None)?.claim;
    let epoch = 1;
    assert_eq!(stranded, [HeldRun { run, epoch, claim }]);
    Ok(())
}

#[tokio::test]
async fn a_session_that_was_recovered_from_is_never_renewed() -> Result<()> {
    let world = World::start().await?;
    let (session, _) = held(&world).await?;

    clock::move_ahead(&world.cell, Duration::from_secs(61)).await?;
    let freed = queue::recover(&world.cell).await?;
    // The clock of the database goes back, to when the lease still held.
    let client = world.cell.reader().await?;
    client
        .batch_execute("UPDATE clock SET time_offset = '0'")
        .await?;
    let renewed = sessions::renew(&world.cell, session, Span::from_secs(60)).await?;

    assert_eq!(freed, 1);
    assert!(renewed.is_none(), "its runs are another's");
    Ok(())
}

#[tokio::test]
async fn recovery_leaves_a_session_alone_that_is_being_renewed() -> Result<()> {
    let world = World::start().await?;
    let (session, _) = held(&world).await?;
    clock::move_ahead(&world.cell, Duration::from_secs(59)).await?;

    // The renewal is made in time and commits after recovery has looked.
    let mut client = world.cell.reader().await?;
    let renewal = client.transaction().await?;
    let renew = "UPDATE sessions SET expires_at = moment() + interval '60 s' WHERE id = $1";
    renewal.execute(renew, &[session.as_uuid()]).await?;
    clock::move_ahead(&world.cell, Duration::from_secs(2)).await?;
    let meanwhile = queue::recover(&world.cell).await?;
    renewal.commit().await?;
    let afterwards = queue::recover(&world.cell).await?;

    assert_eq!((meanwhile, afterwards), (0, 0));
    assert_eq!(held_and_due(&world).await?, (1, 0), "it is still held");
    Ok(())
}
