//! Schedules: what many of them cost while nothing is due, and that what is decided stays decided.

use anyhow::{Context, Result};
use futures_util::future::try_join_all;
use jiff::Timestamp;
use semel_model::{ClaimVerdict, ScheduleId, SessionId, Span};
use semel_store::claims::{Delivery, start_accepting};
use semel_store::schedules::{
    self, DecisionBasis, NewSchedule, Schedule, ScheduleDecision, Tick, TickVerdict,
};
use semel_store::sessions;

use crate::world::{World, delivery};

const GROUNDS: DecisionBasis = DecisionBasis {
    version: 1,
    zones: "2026e",
};

/// How long a server has what it took.
const LEASE: Span = Span::from_const_secs(600);

/// Ten thousand schedules that are due tomorrow.
const FILL: &str = "
    INSERT INTO schedules (id, namespace_id, flow, release_id, version, zones, decided_to, due_at)
    SELECT md5(n::text)::uuid, 1, 'flow-' || n, n, 1, '2026e', moment(),
           moment() + interval '1 day' + n * interval '1 second'
      FROM generate_series(1, 10000) AS n;
    ANALYZE schedules";

async fn open(world: &World) -> Result<(ScheduleId, Timestamp)> {
    let id = ScheduleId::derive(&"default".parse()?, &"story".parse()?);
    let live_at = Some("2026-01-01T00:00:00Z".parse()?);
    let new = NewSchedule {
        id,
        namespace_id: 1,
        flow: "story".to_owned(),
        release_id: 1,
        live_at,
    };
    schedules::open(world.cell.every(), &[new], GROUNDS).await?;
    Ok((id, live_at.context("an instant")?))
}

/// What is decided of a schedule that was taken.
fn decision(taken: &Schedule, to: &str) -> Result<ScheduleDecision> {
    let decided_to = to.parse()?;
    let reason = "missed".to_owned();
    Ok(ScheduleDecision {
        id: taken.id,
        before: taken.decided_to,
        due_before: taken.due_at,
        paused_before: taken.paused_at,
        leased_until: taken.leased_until,
        decided_to,
        due_at: Some(taken.now),
        release_id: Some(1),
        now: decided_to,
        stays_paused: false,
        ticks: vec![Tick {
            nominal: decided_to,
            last: decided_to,
            instants: 1,
            verdict: TickVerdict::Skipped { reason },
        }],
    })
}

/// A server of its own.
async fn server(world: &World) -> Result<SessionId> {
    let session = SessionId::generate();
    sessions::open(&world.cell, session, "test", LEASE).await?;
    Ok(session)
}

async fn take(world: &World, session: SessionId) -> Result<Vec<Schedule>> {
    Ok(schedules::take(&world.cell, session, LEASE, 10).await?)
}

/// Whether a decision was written.
async fn decide(world: &World, session: SessionId, made: ScheduleDecision) -> Result<bool> {
    let every = world.cell.every();
    let written = schedules::decide(every, session, &[made], GROUNDS, None).await?;
    Ok(!written.is_empty())
}

#[tokio::test]
async fn ten_thousand_schedules_cost_one_look_at_an_index_while_nothing_is_due() -> Result<()> {
    let world = World::start().await?;
    let client = world.cell.reader().await?;
    client.batch_execute(FILL).await?;

    let (now, due) = schedules::look(&world.cell).await?;
    let statements = semel_store::statements();
    let look = statements
        .iter()
        .find(|(module, text)| *module == "schedules" && text.contains("ORDER BY due_at LIMIT 1"));
    let (_, look) = look.context("the look")?;
    let plan = client.query(&format!("EXPLAIN {look}"), &[]).await?;
    let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
    let plan = plan.join("\n");

    assert!(due.is_some_and(|due| due > now));
    assert!(plan.contains("schedules_by_due"), "{plan}");
    assert!(!plan.contains("Seq Scan on schedules"), "{plan}");
    Ok(())
}

#[tokio::test]
async fn an_instant_decided_by_another_server_is_not_decided_again() -> Result<()> {
    let world = World::start().await?;
    let (id, _) = open(&world).await?;
    let (one, other) = (server(&world).await?, server(&world).await?);

    let taken = take(&world, one).await?;
    let passed_over = take(&world, other).await?;
    let first = decision(&taken[0], "2026-02-01T00:00:00Z")?;
    let written = decide(&world, one, first.clone()).await?;
    let late = decide(&world, one, first).await?;
    let again = take(&world, other).await?;
    let back = decision(&again[0], "2026-01-15T00:00:00Z")?;
    let back = decide(&world, other, back).await?;

    assert_eq!((taken.len(), passed_over.len()), (1, 0), "one at a time");
    assert!(written && !late, "from where it stood, once");
    assert!(!back, "never back");
    let ticks = schedules::list_ticks(world.cell.of(id), id, None, 10).await?;
    assert_eq!(ticks.len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_schedule_that_changed_while_it_was_decided_is_decided_anew_and_delays_no_other()
-> Result<()> {
    let world = World::start().await?;
    let (id, _) = open(&world).await?;
    let client = world.connect().await?;
    let others = "
        INSERT INTO schedules (id, namespace_id, flow, release_id, version, zones, decided_to, due_at)
        SELECT md5(n::text)::uuid, 1, 'flow-' || n, 1, 1, '2026e', '2026-01-01T00:00:00Z', moment()
          FROM generate_series(1, 2) AS n";
    client.batch_execute(others).await?;
    let session = server(&world).await?;

    for change in [
        "UPDATE schedules SET paused_at = moment() WHERE id = $1",
        "UPDATE schedules SET paused_at = NULL, due_at = moment() WHERE id = $1",
    ] {
        let taken = take(&world, session).await?;
        assert_eq!(taken.len(), 3);
        client.execute(change, &[id.as_uuid()]).await?;
        let made: Vec<ScheduleDecision> = taken
            .iter()
            .map(|one| decision(one, &one.now.to_string()))
            .collect::<Result<_>>()?;
        let every = world.cell.every();
        let written = schedules::decide(every, session, &made, GROUNDS, None).await?;

        assert_eq!(written.len(), 2);
        assert!(!written.contains(&id), "{change}");
        let ids: Vec<ScheduleId> = taken.iter().map(|one| one.id).collect();
        schedules::give_back(every, session, &ids).await?;
    }

    let taken = take(&world, session).await?;
    let changed = taken.iter().find(|one| one.id == id).context("it is due")?;
    assert!(
        decide(
            &world,
            session,
            decision(changed, &changed.now.to_string())?
        )
        .await?
    );
    Ok(())
}

#[tokio::test]
async fn a_schedule_of_a_lost_server_is_taken_by_another_and_the_first_decides_nothing()
-> Result<()> {
    let world = World::start().await?;
    open(&world).await?;
    let (lost, other) = (server(&world).await?, server(&world).await?);
    let taken = take(&world, lost).await?;

    let before = take(&world, other).await?.len();
    let client = world.connect().await?;
    let lose = "UPDATE sessions SET lost_at = moment() WHERE id = $1";
    client.execute(lose, &[lost.as_uuid()]).await?;
    let after = take(&world, other).await?;
    let late = decision(&taken[0], "2026-02-01T00:00:00Z")?;
    let late = decide(&world, lost, late).await?;
    let own = decision(&after[0], "2026-02-01T00:00:00Z")?;

    assert_eq!((before, after.len()), (0, 1));
    assert!(!late, "another has it");
    assert!(decide(&world, other, own).await?);
    Ok(())
}

/// An instant of a schedule that a session took.
fn instant(key: &str, taken: &Schedule, session: SessionId) -> Result<Delivery> {
    Ok(Delivery {
        run_max: Some(0),
        lease: Some(taken.lease(session).context("a lease")?),
        ..delivery(key, "{}", None)?
    })
}

/// A run that came after the next server had looked would leave its instant on record as skipped.
#[tokio::test]
async fn an_instant_is_accepted_only_under_the_lease_of_its_schedule() -> Result<()> {
    let world = World::start().await?;
    let (id, _) = open(&world).await?;
    let (one, other) = (server(&world).await?, server(&world).await?);
    let accept = start_accepting(&world.cell);
    let first = take(&world, one).await?.pop().context("it is due")?;
    let in_time = accept.write(instant("in-time", &first, one)?).await?;

    let next = schedules::take_one(world.cell.of(id), id, other, LEASE).await?;
    let next = next.context("another has it")?;
    // Beside a delivery of a sender, which shares the batch and nothing else.
    let together = [
        instant("late", &first, one)?,
        instant("in-time", &first, one)?,
        delivery("beside", "{}", None)?,
    ];
    let together = try_join_all(together.map(|it| accept.write(it))).await?;
    let theirs = accept.write(instant("late", &next, other)?).await?;
    let found = accept.write(instant("late", &first, one)?).await?;
    schedules::give_back(world.cell.every(), other, &[id]).await?;
    let given_back = accept.write(instant("later", &next, other)?).await?;

    assert!(!in_time.lost_lease && in_time.verdict == ClaimVerdict::New);
    assert!(together[0].lost_lease, "another server decides it");
    assert!(!together[1].lost_lease, "it has its run");
    assert_eq!(together[1].run, in_time.run);
    assert_eq!(together[2].verdict, ClaimVerdict::New);
    assert!(!theirs.lost_lease && theirs.verdict == ClaimVerdict::New);
    assert_eq!((found.lost_lease, found.run), (false, theirs.run));
    assert!(given_back.lost_lease, "nobody decides it");
    let client = world.connect().await?;
    let runs = "SELECT count(*) FROM runs";
    let runs: i64 = client.query_one(runs, &[]).await?.get(0);
    assert_eq!(runs, 3, "in-time, beside, late");
    Ok(())
}

/// The next server looks for runs once it has the schedule. An acceptance that has passed the comparison by then must be
/// seen, so the take waits for its commit or passes the schedule over.
#[tokio::test]
async fn a_schedule_is_not_taken_while_an_instant_of_it_is_being_accepted() -> Result<()> {
    let world = World::start().await?;
    let (id, _) = open(&world).await?;
    let (one, other) = (server(&world).await?, server(&world).await?);
    let first = take(&world, one).await?.pop().context("it is due")?;
    let mut client = world.connect().await?;
    let lose = "UPDATE sessions SET lost_at = moment() WHERE id = $1";
    client.execute(lose, &[one.as_uuid()]).await?;
    let late = instant("slow", &first, one)?;

    // The claim of another session holds the acceptance up after it has compared the lease.
    let blocker = client.transaction().await?;
    let hold = "INSERT INTO claims (id, run_id, fingerprint, expires_at)
                VALUES ($1, $1, $1, moment() + interval '1 hour')";
    blocker.execute(hold, &[late.claim.as_uuid()]).await?;
    let accept = start_accepting(&world.cell);
    let writing = tokio::spawn(async move { accept.write(late).await });
    world.until_waiting_for_a_lock().await?;
    let meanwhile = take(&world, other).await?.len();
    blocker.rollback().await?;
    let accepted = writing.await??;
    let after = take(&world, other).await?.len();

    assert_eq!((meanwhile, after), (0, 1), "{id}");
    assert!(!accepted.lost_lease && accepted.verdict == ClaimVerdict::New);
    Ok(())
}

#[tokio::test]
async fn ticks_are_forgotten_after_their_time() -> Result<()> {
    let world = World::start().await?;
    open(&world).await?;
    let session = server(&world).await?;
    let taken = take(&world, session).await?;
    let old = decision(&taken[0], "2026-02-01T00:00:00Z")?;
    assert!(decide(&world, session, old).await?);

    let too_soon =
        schedules::forget(world.cell.every(), Span::from_secs(10 * 365 * 86_400)).await?;
    let after = schedules::forget(world.cell.every(), Span::from_secs(86_400)).await?;

    assert_eq!((too_soon, after), (0, 1));
    Ok(())
}
