//! Retention beside accepting: in any order of commits, a key never has two active runs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use futures_util::future::try_join_all;
use semel_model::{ClaimVerdict, RunId};
use semel_store::{claims, clock, retention};
use uuid::Uuid;

use crate::world::{World, delivery};

/// How many keys are forgotten and claimed at the same time.
const KEYS: usize = 200;

/// How often every key is delivered meanwhile.
const TIMES: usize = 6;

/// How often all of that is played.
const ROUNDS: usize = 4;

fn key(index: usize) -> String {
    format!("key-{index}")
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_are_forgotten_under_load_never_have_two_active_runs() -> Result<()> {
    let world = World::start().await?;
    let servers = [
        claims::start_accepting(&world.cell),
        claims::start_accepting(&world.cell),
    ];
    let mut first: HashMap<usize, RunId> = HashMap::new();
    for index in 0..KEYS {
        let met = servers[0].write(delivery(&key(index), "{}", None)?).await?;
        first.insert(index, met.run);
    }
    let kept: Vec<Uuid> = (1..KEYS)
        .step_by(2)
        .map(|it| *first[&it].as_uuid())
        .collect();

    let mut new = 0;
    for _ in 0..ROUNDS {
        end_all_but(&world, &kept).await?;
        clock::move_ahead(&world.cell, Duration::from_secs(2 * 3600)).await?;
        let done = AtomicBool::new(false);
        let deliveries = (0..KEYS * TIMES).map(|number| {
            let (server, index) = (&servers[number % 2], number % KEYS);
            async move {
                let met = server.write(delivery(&key(index), "{}", None)?).await?;
                anyhow::Ok((index, met))
            }
        });
        let delivering = async {
            let met = try_join_all(deliveries).await;
            done.store(true, Ordering::Release);
            met
        };
        let forgetting = async {
            while !done.load(Ordering::Acquire) {
                retention::forget_keys(world.cell.every()).await?;
            }
            anyhow::Ok(())
        };
        let (met, ()) = tokio::try_join!(delivering, forgetting)?;

        for (index, met) in &met {
            new += usize::from(met.verdict == ClaimVerdict::New);
            if index % 2 == 1 {
                let stands = (&ClaimVerdict::Duplicate, first[index]);
                assert_eq!(
                    (&met.verdict, met.run),
                    stands,
                    "key {index} was never free"
                );
            }
        }
        assert_each_key_names_its_active_run(&world).await?;
    }

    assert!(new > 0, "keys were forgotten and came again");
    Ok(())
}

/// Ends every run but some, so that their keys may be forgotten.
async fn end_all_but(world: &World, kept: &[Uuid]) -> Result<()> {
    let text = "UPDATE runs SET state = 'succeeded', ended_at = moment() WHERE id <> ALL ($1)";
    world.cell.reader().await?.execute(text, &[&kept]).await?;
    Ok(())
}

async fn assert_each_key_names_its_active_run(world: &World) -> Result<()> {
    let client = world.cell.reader().await?;
    for index in 0..KEYS {
        let claim = delivery(&key(index), "{}", None)?.claim;
        let text = "SELECT id FROM runs WHERE claim_id = $1 AND state = 'active'";
        let active = client.query(text, &[claim.as_uuid()]).await?;
        assert!(
            active.len() < 2,
            "key {index} has {} active runs",
            active.len()
        );
        let held = claims::find(world.cell.of(claim), claim).await?;
        if let Some(active) = active.first() {
            let held = held.context("an active run keeps its key")?;
            assert_eq!(*held.run.as_uuid(), active.get::<_, Uuid>(0), "key {index}");
        }
    }
    Ok(())
}
