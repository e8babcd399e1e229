//! The outbox: leases on events, turns of namespaces, and the receivers that are recorded.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use anyhow::Result;
use semel_model::{ClaimVerdict, EffectId, RunId, SessionId, Span};
use semel_store::claims::{Delivery, start_accepting};
use semel_store::outbox::{self, NewReceiver, OutboxRest, OutboxTaker, TakenEvent};
use semel_store::{clock, sessions};
use uuid::Uuid;

use crate::world::{World, delivery};

/// How long a server has what it took.
const LEASE: Span = Span::from_const_secs(60);

/// What is left alone, and for how long.
const REST: OutboxRest = OutboxRest {
    pause: Span::from_const_secs(600),
    is_answered: false,
};

/// A server of its own, whose session outlasts every clock of these tests.
async fn server(world: &World) -> Result<SessionId> {
    let session = SessionId::generate();
    sessions::open(&world.cell, session, "test", Span::from_secs(86_400)).await?;
    Ok(session)
}

/// Emits so many events of a name in a namespace, a second apart, the last one now.
async fn emit(world: &World, namespace_id: i32, event: &str, count: i32) -> Result<()> {
    let client = world.connect().await?;
    let put = "
        INSERT INTO outbox (id, namespace_id, run_id, event, data, emitted_at, due_at)
        SELECT gen_random_uuid(), $1, gen_random_uuid(), $2, '{}', t.at, t.at
          FROM (SELECT moment() - make_interval(secs => n) AS at
                  FROM generate_series(0, $3::int4 - 1) AS n) AS t";
    client
        .execute(put, &[&namespace_id, &event, &count])
        .await?;
    Ok(())
}

async fn take(world: &World, session: SessionId) -> Result<Vec<TakenEvent>> {
    let taker = OutboxTaker::default();
    Ok(taker.take(&world.cell, session, LEASE).await?)
}

fn ids(taken: &[TakenEvent]) -> Vec<EffectId> {
    taken.iter().map(|it| it.event.id).collect()
}

/// How many events of each namespace.
fn counts(taken: &[TakenEvent]) -> BTreeMap<i32, usize> {
    let mut counts = BTreeMap::new();
    for one in taken {
        *counts.entry(one.event.namespace_id).or_default() += 1;
    }
    counts
}

#[tokio::test]
async fn an_event_is_one_server_s_until_its_lease_is_over() -> Result<()> {
    let world = World::start().await?;
    let (one, other) = (server(&world).await?, server(&world).await?);
    emit(&world, 1, "order.paid", 1).await?;
    let every = world.cell.every();

    let first = take(&world, one).await?;
    let none = take(&world, other).await?;
    clock::move_ahead(&world.cell, Duration::from_secs(40)).await?;
    outbox::renew(every, one, &ids(&first), LEASE).await?;
    clock::move_ahead(&world.cell, Duration::from_secs(40)).await?;
    let renewed = take(&world, other).await?;
    clock::move_ahead(&world.cell, Duration::from_secs(40)).await?;
    let second = take(&world, other).await?;
    let late = outbox::settle(every, one, &ids(&first)).await?;
    outbox::give_back(every, one, &ids(&first)).await?;
    let settled = outbox::settle(every, other, &ids(&second)).await?;

    assert_eq!((first.len(), none.len(), renewed.len()), (1, 0, 0));
    assert_eq!((first[0].tries, second[0].tries), (1, 2));
    assert_eq!((late, settled), (0, 1), "another server has it");
    Ok(())
}

#[tokio::test]
async fn what_a_lost_server_or_a_failed_pass_held_is_due_at_once() -> Result<()> {
    let world = World::start().await?;
    let (lost, other) = (server(&world).await?, server(&world).await?);
    emit(&world, 1, "order.paid", 2).await?;
    let every = world.cell.every();

    let first = take(&world, lost).await?;
    let live = outbox::free_lost(every).await?;
    let own = outbox::free_own(every, lost).await?;
    take(&world, lost).await?;
    let client = world.connect().await?;
    let lose = "UPDATE sessions SET lost_at = moment() WHERE id = $1";
    client.execute(lose, &[lost.as_uuid()]).await?;
    let freed = outbox::free_lost(every).await?;
    let again = take(&world, lost).await?;
    let taken = take(&world, other).await?;

    assert_eq!((first.len(), live, own, freed), (2, 0, 2, 2));
    assert!(again.is_empty(), "a lost session takes nothing");
    assert_eq!(taken.len(), 2);
    Ok(())
}

#[tokio::test]
async fn what_is_given_back_keeps_its_place_and_its_tries() -> Result<()> {
    let world = World::start().await?;
    let session = server(&world).await?;
    emit(&world, 1, "order.paid", 150).await?;

    let first = take(&world, session).await?;
    outbox::give_back(world.cell.every(), session, &ids(&first)).await?;
    let again = take(&world, session).await?;

    assert_eq!(first.len(), 100);
    assert_eq!(ids(&again), ids(&first), "the oldest");
    assert!(again.iter().all(|it| it.tries == 1));
    Ok(())
}

#[tokio::test]
async fn a_few_events_do_not_wait_behind_many_of_another_namespace() -> Result<()> {
    let world = World::start().await?;
    let session = server(&world).await?;
    emit(&world, 1, "order.paid", 4_000).await?;
    emit(&world, 2, "order.paid", 3).await?;

    let taken = take(&world, session).await?;

    assert_eq!(counts(&taken), BTreeMap::from([(1, 50), (2, 3)]));
    Ok(())
}

#[tokio::test]
async fn calls_are_taken_before_events_and_leave_them_places() -> Result<()> {
    let world = World::start().await?;
    let session = server(&world).await?;
    emit(&world, 1, "order.paid", 500).await?;
    emit(&world, 1, "semel.call.start", 500).await?;
    emit(&world, 2, "semel.call.end", 1).await?;

    let taken = take(&world, session).await?;

    let is_call = |it: &&TakenEvent| it.event.event.starts_with("semel.call.");
    let calls = taken.iter().take_while(is_call).count();
    assert_eq!(
        calls,
        taken.iter().filter(is_call).count(),
        "they come first"
    );
    assert_eq!(counts(&taken[..calls]), BTreeMap::from([(1, 32), (2, 1)]));
    assert_eq!(counts(&taken[calls..]), BTreeMap::from([(1, 67)]));
    Ok(())
}

#[tokio::test]
async fn where_there_are_more_namespaces_than_places_they_take_turns() -> Result<()> {
    let world = World::start().await?;
    let session = server(&world).await?;
    for namespace_id in 1..=150 {
        emit(&world, namespace_id, "order.paid", 2).await?;
    }
    let mut taker = OutboxTaker::default();

    let mut served: BTreeMap<i32, usize> = BTreeMap::new();
    for _ in 0..3 {
        let taken = taker.take(&world.cell, session, LEASE).await?;
        taker.note_served(&taken);
        for (namespace_id, count) in counts(&taken) {
            *served.entry(namespace_id).or_default() += count;
        }
    }

    assert_eq!(served.len(), 150, "each had its turn");
    assert!(served.values().all(|count| *count == 2), "{served:?}");
    Ok(())
}

#[tokio::test]
async fn whoever_hands_over_a_few_events_of_many_serves_the_namespaces_alike() -> Result<()> {
    let world = World::start().await?;
    let session = server(&world).await?;
    for namespace_id in 1..=20 {
        emit(&world, namespace_id, "order.paid", 5).await?;
    }
    let every = world.cell.every();
    let mut taker = OutboxTaker::default();

    let mut served = Vec::new();
    for _ in 0..5 {
        let taken = taker.take(&world.cell, session, LEASE).await?;
        let (handed, rest) = taken.split_at(8);
        outbox::settle(every, session, &ids(handed)).await?;
        outbox::give_back(every, session, &ids(rest)).await?;
        taker.note_served(handed);
        served.extend(handed.iter().map(|it| it.event.namespace_id));
    }

    let round: Vec<i32> = (1..=20).collect();
    assert_eq!(served, [round.clone(), round].concat());
    Ok(())
}

fn receiver(event: EffectId, flow_id: i32, of: &Delivery) -> NewReceiver {
    NewReceiver {
        event,
        flow_id,
        release_id: 10 + flow_id,
        claim: of.claim,
    }
}

#[tokio::test]
async fn a_receiver_is_recorded_once_with_the_last_run_that_the_event_may_make() -> Result<()> {
    let world = World::start().await?;
    let (session, other) = (server(&world).await?, server(&world).await?);
    emit(&world, 1, "order.paid", 1).await?;
    let [absent, held, free] = ["absent", "held", "free"].map(|key| delivery(key, "{}", None));
    let (absent, held, free) = (absent?, held?, free?);
    start_accepting(&world.cell).write(held.clone()).await?;
    world.bring_back(&free, 3).await?;
    let every = world.cell.every();
    let event = take(&world, session).await?[0].event.id;
    let new = [
        receiver(event, 1, &absent),
        receiver(event, 2, &held),
        receiver(event, 3, &free),
    ];

    let foreign = outbox::ask(every, other, &new).await?;
    let recorded = outbox::ask(every, session, &new).await?;
    let again = outbox::ask(every, session, &new).await?;
    let of = world.cell.of(event);
    outbox::mark(of, other, event, &[(1, 11)]).await?;
    outbox::mark(of, session, event, &[(2, 12), (4, 14)]).await?;
    outbox::free_own(every, session).await?;
    let known = take(&world, other).await?.remove(0).receivers;

    assert!(foreign.is_empty(), "another server has the event");
    let numbers = HashMap::from([((event, 1), 0), ((event, 2), 0), ((event, 3), 4)]);
    assert_eq!(recorded, numbers);
    assert!(again.is_empty(), "recorded before");
    let mut known: Vec<(i32, i32, i32, bool)> = known
        .iter()
        .map(|it| (it.flow_id, it.release_id, it.run_max, it.has_it))
        .collect();
    known.sort_unstable();
    let expected = [
        (1, 11, 0, false),
        (2, 12, 0, true),
        (3, 13, 4, false),
        (4, 14, 0, true),
    ];
    assert_eq!(known, expected);
    Ok(())
}

#[tokio::test]
async fn receivers_go_with_their_event() -> Result<()> {
    let world = World::start().await?;
    let session = server(&world).await?;
    emit(&world, 1, "order.paid", 1).await?;
    let every = world.cell.every();
    let taken = take(&world, session).await?;
    let of = delivery("a", "{}", None)?;
    outbox::ask(every, session, &[receiver(taken[0].event.id, 1, &of)]).await?;

    outbox::settle(every, session, &ids(&taken)).await?;

    let client = world.connect().await?;
    let left = "SELECT count(*) FROM outbox_receivers";
    let left: i64 = client.query_one(left, &[]).await?.get(0);
    assert_eq!(left, 0);
    Ok(())
}

/// A delivery of a key that may make no run beyond a number.
fn limited(key: &str, payload: &str, run_max: i32) -> Result<Delivery> {
    Ok(Delivery {
        run_max: Some(run_max),
        ..delivery(key, payload, None)?
    })
}

#[tokio::test]
async fn a_delivery_that_may_make_no_further_run_gets_the_last_one_although_its_key_is_free()
-> Result<()> {
    let world = World::start().await?;
    let accept = start_accepting(&world.cell);
    for key in ["a", "b"] {
        world.bring_back(&delivery(key, "{}", None)?, 1).await?;
    }
    let run = |of: &Delivery, number| RunId::derive(of.claim, number);

    let spent = limited("a", "{}", 1)?;
    let repeat = accept.write(spent.clone()).await?;
    let other = accept.write(limited("a", r#"{"n":1}"#, 1)?).await?;
    let next = accept.write(limited("a", "{}", 2)?).await?;
    let client = world.connect().await?;
    let gone = limited("b", "{}", 0)?;
    let delete = "DELETE FROM runs WHERE claim_id = $1";
    client.execute(delete, &[gone.claim.as_uuid()]).await?;
    let of_no_record = accept.write(gone.clone()).await?;
    let first = accept.write(limited("new", "{}", 0)?).await?;

    assert_eq!(repeat.verdict, ClaimVerdict::Duplicate);
    assert_eq!(repeat.run, run(&spent, 1));
    assert_eq!(other.verdict, ClaimVerdict::Mismatch);
    assert_eq!(
        (&next.verdict, next.run),
        (&ClaimVerdict::New, run(&spent, 2))
    );
    assert_eq!(of_no_record.verdict, ClaimVerdict::Duplicate);
    assert_eq!(of_no_record.run, run(&gone, 1));
    assert_eq!(first.verdict, ClaimVerdict::New);
    Ok(())
}

#[tokio::test]
async fn a_new_delivery_makes_its_run_although_an_old_event_of_its_key_comes_with_it() -> Result<()>
{
    let world = World::start().await?;
    let accept = start_accepting(&world.cell);
    let first = delivery("a", "{}", None)?;
    world.bring_back(&first, 0).await?;

    // They are gathered into batches as they come.
    let old = (0..20).map(|_| limited("a", "{}", 0));
    let mut all: Vec<Delivery> = old.collect::<Result<_>>()?;
    all.insert(10, delivery("a", "{}", None)?);
    let writes = all.into_iter().map(|one| accept.write(one));
    let met = futures_util::future::try_join_all(writes).await?;

    let made: Vec<Uuid> = met
        .iter()
        .filter(|met| met.verdict == ClaimVerdict::New)
        .map(|met| *met.run.as_uuid())
        .collect();
    assert_eq!(made, [*RunId::derive(first.claim, 1).as_uuid()]);
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_read_is_counted_and_raises_one_alert() -> Result<()> {
    let world = World::start().await?;
    let session = server(&world).await?;
    let client = world.connect().await?;
    let alerts = "INSERT INTO alert_settings (namespace_id, set_by) VALUES (1, 'test')";
    client.batch_execute(alerts).await?;
    emit(&world, 1, "order.paid", 2).await?;
    let every = world.cell.every();

    let taken = ids(&take(&world, session).await?);
    let (newer, damaged) = (taken[0], taken[1]);
    outbox::defer(world.cell.of(newer), session, newer, REST, true).await?;
    let is_new = outbox::keep(world.cell.of(damaged), session, damaged, REST).await?;
    clock::move_ahead(&world.cell, Duration::from_secs(700)).await?;
    let depth = outbox::depth(every).await?;
    take(&world, session).await?;
    let again = outbox::keep(world.cell.of(damaged), session, damaged, REST).await?;
    let at_rest = take(&world, session).await?;

    assert_eq!((is_new, again), (true, false));
    assert_eq!((depth.unread, depth.unreadable), (1, 1));
    assert!(depth.oldest_secs >= 700.0, "{depth:?}");
    assert!(at_rest.is_empty(), "one is leased, one is left alone");
    let raised = "SELECT count(*) FROM alert_events WHERE kind = 'event_unreadable'";
    let raised: i64 = client.query_one(raised, &[]).await?.get(0);
    assert_eq!(raised, 1);
    Ok(())
}
