//! Accepting: one key, one run, and everyone is told the same.

use anyhow::Result;
use futures_util::future::try_join_all;
use semel_model::Verdict;
use semel_store::claims;

use crate::world::{World, delivery};

#[tokio::test]
async fn the_first_delivery_makes_the_run_and_the_second_finds_it() -> Result<()> {
    let world = World::start().await?;
    let accept = claims::start_accepting(&world.cell);

    let first = accept
        .write(delivery("order-1", r#"{"a":1}"#, None)?)
        .await?;
    let again = accept
        .write(delivery("order-1", r#"{ "a": 1.0 }"#, None)?)
        .await?;
    let other = accept
        .write(delivery("order-1", r#"{"a":2}"#, None)?)
        .await?;

    assert_eq!(first.verdict, Verdict::New);
    assert_eq!(
        again.verdict,
        Verdict::Duplicate,
        "spelling does not matter"
    );
    assert_eq!(other.verdict, Verdict::Mismatch);
    assert_eq!((first.run, first.run), (again.run, other.run));
    Ok(())
}

#[tokio::test]
async fn a_thousand_at_once_from_two_servers_make_one_run() -> Result<()> {
    let world = World::start().await?;
    let servers = [
        claims::start_accepting(&world.cell),
        claims::start_accepting(&world.cell),
    ];

    let deliveries = (0..1000).map(|n| {
        let server = &servers[n % 2];
        async move { anyhow::Ok(server.write(delivery("same", "{}", None)?).await?) }
    });
    let met = try_join_all(deliveries).await?;

    let new = met.iter().filter(|met| met.verdict == Verdict::New).count();
    assert_eq!(new, 1);
    assert!(met.iter().all(|one| one.run == met[0].run));
    Ok(())
}

#[tokio::test]
async fn a_key_that_was_dropped_makes_a_new_run() -> Result<()> {
    let world = World::start().await?;
    let accept = claims::start_accepting(&world.cell);
    let first = accept.write(delivery("again", "{}", None)?).await?;

    for _ in 0..3 {
        claims::drop_claim(&world.cell, delivery("again", "{}", None)?.claim).await?;
        let next = accept.write(delivery("again", "{}", None)?).await?;
        assert_eq!(next.verdict, Verdict::New);
        assert_ne!(next.run, first.run);
        assert_eq!(
            next.run.slot(),
            first.run.slot(),
            "a key never leaves its slot"
        );
    }
    Ok(())
}
