//! The queue: no run stays with a holder that is gone.

use std::time::Duration;

use anyhow::{Context, Result};
use jiff::civil::Date;
use jiff::{SignedDuration, Timestamp};
use semel_model::{EffectId, Fault, Key, RunId, SessionId, Span, WaitId};
use semel_store::audit::AuditEntry;
use semel_store::child_runs::{ChildStart, ChildrenOf, NewChildRun};
use semel_store::claims::start_accepting;
use semel_store::queue::{HeldRun, ReturnCause, Taken, Taker};
use semel_store::runs::Amended;
use semel_store::{child_runs, clock, queue, retention, runs, sessions};

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

    let first = taker.take(session, 20).await?.taken;
    let after = queue::depth(world.cell.every()).await?;
    let second = taker.take(session, 20).await?.taken;

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

    let first = taker.take(session, 20).await?.taken;
    let after = queue::depth(world.cell.every()).await?;
    let next = narrow.take(session, 20).await?.taken;

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

    let taken = taker.take(session, 10).await?.taken;
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
    if let Some(taken) = taker.take(session, 10).await?.taken.pop() {
        return Ok(taken);
    }
    // From the third take on a run is a suspect, and the only one.
    let mut suspects = taker.take_suspects(session, 10).await?;
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
    let ordinary = taker.take(session, 10).await?.taken;
    let all = taker.take_suspects(session, 10).await?;
    let session = crash(&world).await?;
    let half = taker.take_suspects(session, 10).await?;
    let session = crash(&world).await?;
    let alone = taker.take_suspects(session, 10).await?;
    let session = crash(&world).await?;
    let accused = taker.take_suspects(session, 10).await?;

    assert!(ordinary.is_empty());
    assert_eq!([all.len(), half.len(), alone.len()], [5, 2, 1]);
    let together = all.iter().chain(&half);
    let counted: Vec<_> = together.filter(|it| it.charged || it.takes != 2).collect();
    assert!(counted.is_empty(), "{counted:?}");
    assert!(alone[0].charged && alone[0].takes == 3);
    let next: Vec<(RunId, i16)> = accused.iter().map(|it| (it.run, it.takes)).collect();
    assert_eq!(next, [(alone[0].run, 4)], "from then on it is alone");
    Ok(())
}

/// Others carry suspects beside it without a crash, as servers do that it has not crashed yet.
#[tokio::test]
async fn a_run_that_crashes_whoever_takes_it_is_soon_alone_and_the_others_go_on_in_groups()
-> Result<()> {
    let world = World::start().await?;
    let accepting = start_accepting(&world.cell);
    let client = world.connect().await?;
    let mut taker = Taker::new(&world.cell);
    let mut delivered = 0;
    let mut deliver = async |count: usize| {
        for _ in 0..count {
            let key = format!("suspect-{delivered}");
            accepting.write(delivery(&key, "{}", None)?).await?;
            delivered += 1;
        }
        let stall = "UPDATE queue SET stalled_takes = 2 WHERE stalled_takes = 0";
        anyhow::Ok(client.execute(stall, &[]).await?)
    };
    let end = async |group: &[Taken]| {
        let runs: Vec<_> = group.iter().map(|it| *it.run.as_uuid()).collect();
        let end = "DELETE FROM queue WHERE run_id = ANY ($1)";
        anyhow::Ok(client.execute(end, &[&runs]).await?)
    };
    deliver(32).await?;
    let mut session = crash(&world).await?;

    let mut group = taker.take_suspects(session, 64).await?;
    let poison = group.first().context("a group")?.run;
    let mut crashed = Vec::new();
    while group.len() > 1 && crashed.len() < 10 {
        crashed.push(group.len());
        session = crash(&world).await?;
        deliver(32).await?;
        group = taker.take_suspects(session, 64).await?;
        while !group.is_empty() && !group.iter().any(|it| it.run == poison) {
            end(&group).await?;
            group = taker.take_suspects(session, 64).await?;
        }
    }
    let mut carried = Vec::new();
    loop {
        let others = taker.take_suspects(session, 64).await?;
        if others.is_empty() {
            break;
        }
        end(&others).await?;
        carried.push(others.len());
    }

    assert!(crashed.len() <= 5, "{crashed:?}");
    let halves = crashed.windows(2).all(|pair| pair[1] <= pair[0] / 2);
    assert!(halves, "{crashed:?}");
    let alone: Vec<(RunId, bool)> = group.iter().map(|it| (it.run, it.charged)).collect();
    assert_eq!(alone, [(poison, true)]);
    assert!(
        carried.iter().filter(|size| **size == 1).count() <= 1,
        "{carried:?}"
    );
    assert!(carried.contains(&64), "{carried:?}");
    Ok(())
}

#[tokio::test]
async fn suspects_that_were_put_back_before_they_began_are_taken_in_a_group_as_large() -> Result<()>
{
    let world = World::start().await?;
    let accepting = start_accepting(&world.cell);
    for key in ["one", "two", "three", "four"] {
        accepting.write(delivery(key, "{}", None)?).await?;
    }
    let client = world.connect().await?;
    let stall = "UPDATE queue SET stalled_takes = 2";
    client.execute(stall, &[]).await?;
    let session = crash(&world).await?;
    let mut taker = Taker::new(&world.cell);

    let mut taken = Vec::new();
    for _ in 0..3 {
        let group = taker.take_suspects(session, 10).await?;
        let leases: Vec<(RunId, i64)> = group.iter().map(|it| (it.run, it.epoch)).collect();
        queue::put_back(&world.cell, session, &leases, 0, None).await?;
        taken.push(group.len());
    }
    let last = taker.take_suspects(session, 10).await?;
    let session = crash(&world).await?;
    let half = taker.take_suspects(session, 10).await?;

    assert_eq!((taken, last.len()), (vec![4, 4, 4], 4));
    assert_eq!(half.len(), 2, "a crash since then counts");
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

    let both = taker.take_suspects(session, 10).await?;
    let leases: Vec<(RunId, i64)> = both.iter().map(|it| (it.run, it.epoch)).collect();
    queue::return_runs(&world.cell, session, &leases, ReturnCause::Trouble).await?;
    let session = crash(&world).await?;
    let next = taker.take_suspects(session, 10).await?;

    assert_eq!(both.len(), 2);
    let takes: Vec<i16> = next.iter().map(|it| it.takes).collect();
    assert_eq!(takes, [3]);
    Ok(())
}

#[tokio::test]
async fn progress_a_quarantine_and_a_corrected_result_end_what_makes_a_run_a_suspect() -> Result<()>
{
    let world = World::start().await?;
    let (session, run) = held(&world).await?;
    let cell = world.cell.of(run);
    let client = world.connect().await?;
    let suspect = async || {
        let text = "UPDATE queue SET stalled_takes = 2, suspects = -8 WHERE run_id = $1
                 RETURNING partition_date";
        anyhow::Ok(client.query_one(text, &[run.as_uuid()]).await?)
    };
    let counts = async || {
        let text = "SELECT stalled_takes, suspects FROM queue WHERE run_id = $1";
        let row = client.query_one(text, &[run.as_uuid()]).await?;
        anyhow::Ok((row.get::<_, i16>(0), row.get::<_, i16>(1)))
    };
    let of = ChildrenOf {
        parent: run,
        step: "list",
    };
    let child = NewChildRun {
        index: 0,
        run: run.child("list", "a"),
        key: "a".to_owned(),
        item: "1".to_owned(),
        follows: None,
    };
    let key = Key::new("one".as_bytes())?;
    let fault = Fault::permanent("stuck", "it makes no progress");
    let effect = EffectId::derive(run, "pay", "", 0);
    let done =
        "INSERT INTO effects (partition_date, id, run_id, namespace_id, step, kind, guard, state,
                                     attempt, intended_at, settled_at)
                VALUES ($1, $2, $3, 1, 'pay', 'http', 'key', 'done', 1, moment(), moment())";
    let act = AuditEntry::new(1, "test", "effect.amend", "pay");

    let day: Date = suspect().await?.get(0);
    child_runs::load(cell, of, 1, &[child]).await?;
    let listed = counts().await?;
    suspect().await?;
    let start = ChildStart {
        namespace_id: 1,
        release_id: 1,
        key: &key,
        partition_date: day,
        seq: 1,
        holder: session,
        epoch: 1,
        follows: false,
        room: 1,
    };
    let begun = child_runs::begin(cell, of, 1, &start).await?;
    let started = counts().await?;
    suspect().await?;
    let stopped = queue::quarantine(cell, run, 1, session, &fault).await?;
    let quarantined = counts().await?;
    suspect().await?;
    client
        .execute(done, &[&day, effect.as_uuid(), run.as_uuid()])
        .await?;
    let amended = Amended {
        run,
        effect,
        external_id: None,
        seq: 2,
        keep: Span::from_secs(3600),
        namespace_id: 1,
        notice: None,
    };
    let resumed = runs::amend(cell, &amended, &[], &act).await?;
    let corrected = counts().await?;

    assert_eq!((begun, stopped, resumed), (Some(1), true, true));
    assert_eq!(
        [listed, started, quarantined, corrected],
        [(0, 0); 4],
        "none is of a group of suspects any more"
    );
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
