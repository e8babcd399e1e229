//! Duties: idle servers ask the database for little, and a duty never stays without a server.

use std::time::Duration;

use anyhow::Result;
use semel_engine::{DUTIES, Engine};
use semel_model::Span;
use semel_store::sessions;
use semel_testkit::{let_pass, until};

use crate::world::World;

/// How long servers are watched.
const WATCHED: Duration = Duration::from_secs(20);

/// PostgreSQL counts a transaction a moment after it has ended.
const COUNTED_AFTER: Duration = Duration::from_secs(2);

/// The lease of a server that dies in a story.
const SHORT: Span = Span::from_const_secs(1);

/// Longer than any test waits.
const LONG: Span = Span::from_const_secs(3_600);

/// How many transactions were committed in this database.
async fn transactions(world: &World) -> Result<i64> {
    // Its own connection, made each time: statistics are read once per transaction.
    let client = world.database().connect().await?;
    let counted = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()";
    Ok(client.query_one(counted, &[]).await?.get(0))
}

#[tokio::test]
async fn ten_idle_servers_make_at_most_five_times_the_transactions_of_one() -> Result<()> {
    // Beside each other, so that whatever holds the machine up holds up both.
    let (one, ten) = (World::start().await?, World::start().await?);
    let mut others: Vec<Engine> = Vec::new();
    for _ in 0..9 {
        others.push(ten.start_another().await?);
    }

    let_pass(COUNTED_AFTER, "because PostgreSQL counts later").await;
    let before = (transactions(&one).await?, transactions(&ten).await?);
    let_pass(WATCHED, "because what idle servers do is due by time alone").await;
    let of_ten = transactions(&ten).await? - before.1;
    let of_one = transactions(&one).await? - before.0;

    println!("transactions in {WATCHED:?}: one idle server {of_one}, ten {of_ten}");
    for other in others {
        other.shutdown().await;
    }
    assert!(of_one > 0, "one server looks");
    assert!(
        of_ten <= 5 * of_one,
        "one makes {of_one}, ten make {of_ten}"
    );
    Ok(())
}

/// How many runs there are.
async fn runs(engine: &Engine) -> Result<i64> {
    let client = engine.cell().reader().await?;
    let count = "SELECT count(*) FROM runs";
    Ok(client.query_one(count, &[]).await?.get(0))
}

/// Leaves a broadcast without waits, as a server does that dies after it began one, and waits until
/// the holder of that duty has ended it.
async fn until_the_duty_is_done(engine: &Engine) -> Result<()> {
    let client = engine.cell().reader().await?;
    let left = "
        INSERT INTO broadcasts (event_id, namespace_id, run_id, event, data, emitted_at, begun_at, due_at)
        VALUES (gen_random_uuid(), 1, gen_random_uuid(), 'e', '{}', moment(), moment(), moment())";
    client.execute(left, &[]).await?;
    drop(client);
    let look = async || -> Result<i64> {
        let client = engine.cell().reader().await?;
        let count = "SELECT count(*) FROM broadcasts";
        Ok(client.query_one(count, &[]).await?.get(0))
    };
    until("the duty to be done", look, |left| *left == 0).await?;
    Ok(())
}

#[tokio::test]
async fn a_duty_passes_on_when_its_server_dies_and_when_it_stops() -> Result<()> {
    let world = World::start().await?;
    let first = world.start_another_with(SHORT).await?;
    world.engine.shutdown().await;
    until_the_duty_is_done(&first).await?;

    // Whichever of the two holds the duty: each of them dies in turn, and its lease ends.
    let second = world.start_another_with(SHORT).await?;
    first.suspend();
    until_the_duty_is_done(&second).await?;
    let third = world.start_another_with(LONG).await?;
    second.suspend();
    until_the_duty_is_done(&third).await?;
    let fourth = world.start_another_with(LONG).await?;
    // No dead server is left that may hold the duty.
    let live = async || {
        let listed = sessions::list(fourth.cell().every()).await?;
        Ok(listed.iter().filter(|session| session.is_live).count())
    };
    until("the dead servers' leases to end", live, |live| *live == 2).await?;
    third.shutdown().await;
    // Nobody waits for the lease of a server that stopped.
    until_the_duty_is_done(&fourth).await
}

const EMITTER: &str = "flow: emitter\ntrigger:\n  webhook: { auth: none, key: input.id }\n\
    steps:\n  - { id: tell, emit: { event: order.paid, data: { id: 1 } } }\n";

const TAKER: &str = "flow: taker\ntrigger:\n  event: { name: order.paid }\n\
    steps:\n  - { id: one, function: '1' }\n";

#[tokio::test]
async fn what_a_server_emits_does_not_wait_for_the_holder_of_the_duty() -> Result<()> {
    let world = World::start().await?;
    for source in [EMITTER, TAKER] {
        world.publish_source(source).await?;
    }
    // Two servers hold the duty of the outbox: of so many hardly ever this one. The others do nothing at all.
    let others = "INSERT INTO sessions (id, process, expires_at)
                  SELECT gen_random_uuid(), 'another', moment() + interval '1 hour'
                    FROM generate_series(1, 1000)";
    let client = world.database().connect().await?;
    client.execute(others, &[]).await?;
    world.until_looked(1).await?;

    for delivered in 1..=3 {
        let payload = format!(r#"{{"id":"{delivered}"}}"#);
        world.deliver_to("emitter", &payload).await?;
        let look = async || runs(&world.engine).await;
        until("the run of the event", look, |runs| *runs == 2 * delivered).await?;
    }
    Ok(())
}

#[tokio::test]
async fn the_list_of_duties_has_each_that_a_server_does() -> Result<()> {
    let world = World::start().await?;

    let services = world.engine.list_services();
    let duties = services.iter().filter(|service| service.is_duty);
    let mut registered: Vec<&str> = duties.map(|service| service.name).collect();
    let mut known = DUTIES.to_vec();

    registered.sort_unstable();
    known.sort_unstable();
    assert_eq!(known, registered);
    Ok(())
}
