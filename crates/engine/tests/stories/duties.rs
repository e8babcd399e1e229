//! Duties: idle servers ask the database for little, and a duty never stays without a server.

use std::time::Duration;

use anyhow::Result;
use semel_engine::Engine;
use semel_testkit::Stopwatch;

use crate::world::{World, soon};

/// How long servers are watched.
const WATCHED: Duration = Duration::from_secs(20);

/// PostgreSQL counts a transaction a moment after it has ended.
const COUNTED_AFTER: Duration = Duration::from_secs(2);

/// How many transactions were committed in this database.
async fn transactions(world: &World) -> Result<i64> {
    // Its own connection, made each time: statistics are read once per transaction.
    let client = world.database().connect().await?;
    let counted = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()";
    Ok(client.query_one(counted, &[]).await?.get(0))
}

/// How many transactions servers without work make in a second.
async fn idle_rate(world: &World) -> Result<f64> {
    tokio::time::sleep(COUNTED_AFTER).await;
    let before = transactions(world).await?;
    tokio::time::sleep(WATCHED).await;
    let made = transactions(world).await? - before;
    Ok(made as f64 / WATCHED.as_secs_f64())
}

#[tokio::test]
async fn ten_idle_servers_make_at_most_twice_the_transactions_of_one() -> Result<()> {
    let world = World::start_with_default_lease().await?;

    let one = idle_rate(&world).await?;
    let mut others: Vec<Engine> = Vec::new();
    for _ in 0..9 {
        others.push(world.start_another().await?);
    }
    let ten = idle_rate(&world).await?;

    println!("transactions a second: one idle server {one:.1}, ten {ten:.1}");
    for other in others {
        other.shutdown().await;
    }
    assert!(one > 1.0, "one server looks: {one}");
    assert!(ten <= 2.0 * one, "one makes {one}, ten make {ten}");
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
    soon(async || {
        let client = engine.cell().reader().await?;
        let count = "SELECT count(*) FROM broadcasts";
        let count: i64 = client.query_one(count, &[]).await?.get(0);
        Ok((count == 0).then_some(()))
    })
    .await
}

#[tokio::test]
async fn a_duty_passes_on_when_its_server_dies_and_when_it_stops() -> Result<()> {
    let world = World::start().await?;
    until_the_duty_is_done(&world.engine).await?;

    // Whichever of the two holds the duty: each of them dies in turn, with a lease of three seconds.
    let second = world.start_another().await?;
    world.engine.suspend();
    let died = Stopwatch::start();
    until_the_duty_is_done(&second).await?;
    let third = world.start_another().await?;
    let first_took = died.elapsed();
    second.suspend();
    let died = Stopwatch::start();
    until_the_duty_is_done(&third).await?;
    let second_took = died.elapsed();
    let fourth = world.start_another().await?;
    // The lease of the second is over, so that no dead server is left that may hold the duty.
    tokio::time::sleep(Duration::from_secs(4).saturating_sub(second_took)).await;
    third.shutdown().await;
    let stopped = Stopwatch::start();
    until_the_duty_is_done(&fourth).await?;
    let third_took = stopped.elapsed();

    let lease_and_a_look = Duration::from_secs(5);
    assert!(first_took < lease_and_a_look, "it took {first_took:?}");
    assert!(second_took < lease_and_a_look, "it took {second_took:?}");
    assert!(
        third_took < Duration::from_secs(2),
        "it took {third_took:?}"
    );
    Ok(())
}

/// Sooner than a server looks for what others left.
const AT_ONCE: Duration = Duration::from_millis(700);

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
    // Of five servers two hold the duty of the outbox.
    let mut others = Vec::new();
    for _ in 0..4 {
        others.push(world.start_another().await?);
    }
    // Each has seen the others by now.
    tokio::time::sleep(Duration::from_secs(1)).await;

    let mut delivered = 0;
    for engine in others.iter().chain([&world.engine]) {
        let mut best = Duration::MAX;
        // The machine may be busy with something else, twice at most.
        for _ in 0..3 {
            if best < AT_ONCE {
                break;
            }
            delivered += 1;
            let begun = Stopwatch::start();
            let payload = format!(r#"{{"id":"{delivered}"}}"#);
            world.deliver_at(engine, "emitter", &payload).await?;
            soon(async || Ok((runs(engine).await? == 2 * delivered).then_some(()))).await?;
            best = best.min(begun.elapsed());
        }
        assert!(best < AT_ONCE, "it took {best:?}");
    }
    for other in others {
        other.shutdown().await;
    }
    Ok(())
}
