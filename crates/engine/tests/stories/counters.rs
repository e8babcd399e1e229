//! A counter that very many runs add to at once: exact, and each with its own result.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result};
use futures_util::future::try_join_all;
use futures_util::stream::{StreamExt as _, TryStreamExt as _};
use semel_model::run::RunState;
use semel_store::ReadError;
use semel_testkit::{Cut, pace, patience, until, until_some};
use serde_json::{Value, json};

use crate::world::World;

const COUNT: &str = "steps:\n  - { id: count, kv: { add: total } }\nresult: steps.count.result\n";

/// How many runs are under way at once: each asks the database for its end as well.
const TOGETHER: usize = 200;

/// The result of a delivery, which is repeated where the connection was cut on which its end was asked for.
async fn result(world: &World, payload: &str) -> Result<Value> {
    until_some("the result of a run", async || {
        match world.result(payload).await {
            Err(error) if error.downcast_ref::<ReadError>().is_some() => Ok(None),
            done => done.map(Some),
        }
    })
    .await
}

/// Delivers so many, many at once, and gives their results.
async fn count_together(world: &World, from: usize, runs: usize) -> Result<BTreeSet<i64>> {
    let payloads: Vec<String> = (from..from + runs)
        .map(|number| format!(r#"{{"id":"{number}"}}"#))
        .collect();
    let results = payloads.iter().map(|payload| result(world, payload));
    let results = futures_util::stream::iter(results).buffer_unordered(TOGETHER);
    let results: Vec<Value> = results.try_collect().await?;
    let numbers = results.iter().map(|result| result.as_i64());
    numbers
        .collect::<Option<BTreeSet<i64>>>()
        .context("numbers")
}

#[tokio::test]
async fn additions_of_many_runs_are_exact_and_each_has_its_own_result() -> Result<()> {
    let world = World::start().await?;
    world.publish(COUNT).await?;

    let results = count_together(&world, 0, 1_000).await?;

    let expected: BTreeSet<i64> = (1..=1_000).collect();
    assert_eq!(results, expected, "each sum once");
    assert_eq!(world.kv("total").await?, json!(1_000));
    let client = world.engine.cell().reader().await?;
    let version = "SELECT version FROM kv WHERE entry = 'total'";
    let version: i64 = client.query_one(version, &[]).await?.get(0);
    assert_eq!(version, 1_000, "each addition is a version");
    Ok(())
}

#[tokio::test]
async fn an_addition_that_fails_fails_alone() -> Result<()> {
    let world = World::start().await?;
    world
        .publish(
            "steps:\n  - { id: count, kv: { add: '${{ input.to }}', by: 1 } }\nresult: steps.count.result\n",
        )
        .await?;
    let client = world.engine.cell().reader().await?;
    let set = "
        INSERT INTO kv (slot, namespace_id, entry, value) VALUES ($1, $2, $3, $4::text::json)";
    for (entry, value) in [("word", "\"x\""), ("full", "999999999999997")] {
        let slot = semel_store::kv::slot(world.namespace_id, entry).number() as i16;
        let value = value.to_owned();
        client
            .execute(set, &[&slot, &world.namespace_id, &entry, &value])
            .await?;
    }
    drop(client);

    let plays = (0..300).map(|number| {
        let to = ["total", "word", "full"][number % 3];
        let payload = format!(r#"{{"id":"{number}","to":"{to}"}}"#);
        let world = &world;
        async move { anyhow::Ok((to, world.play(&payload).await?.1)) }
    });
    let mut sums = BTreeSet::new();
    let mut counts = [0; 3];
    for (to, end) in try_join_all(plays).await? {
        match (to, end.state) {
            ("total", RunState::Succeeded) => {
                counts[0] += 1;
                sums.insert(end.result.context("a result")?);
            }
            ("full", RunState::Succeeded) => counts[1] += 1,
            ("word" | "full", RunState::Failed) => {
                let fault = end.fault.context("a fault")?;
                assert!(fault.contains("kv-not-a-number"), "{fault}");
                counts[2] += 1;
            }
            other => panic!("{other:?}"),
        }
    }

    // The third addition makes the entry longer than a number may be.
    assert_eq!(counts, [100, 3, 197]);
    assert_eq!(sums.len(), 100);
    assert_eq!(world.kv("total").await?, json!(100));
    assert_eq!(world.kv("word").await?, json!("x"));
    assert_eq!(world.kv("full").await?, json!(1_000_000_000_000_000_i64));
    Ok(())
}

#[tokio::test]
async fn additions_are_exact_where_answers_to_commits_are_lost() -> Result<()> {
    let mut world = World::start().await?;
    world.publish(COUNT).await?;
    let proxy = world.go_behind_a_proxy().await?;

    let all = count_together(&world, 0, 600);
    let losses = async {
        for _ in 0..3 {
            // Commits reach the server, and their answers do not come back.
            pace(Duration::from_millis(200)).await;
            proxy.hold_commits();
            proxy.until_held(1, patience()).await?;
            proxy.cut(Cut::Reset);
            proxy.resume();
        }
        anyhow::Ok(())
    };
    let (results, lost) = tokio::join!(all, losses);
    lost?;

    let results = results?;
    until(
        "the total",
        async || world.kv("total").await,
        |total| *total == json!(600),
    )
    .await?;
    assert_eq!(results, (1..=600).collect::<BTreeSet<i64>>());
    Ok(())
}
