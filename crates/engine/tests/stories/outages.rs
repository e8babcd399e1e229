//! Outages of the database: what a destination answered meanwhile is not lost.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use semel_model::Span;
use semel_model::run::RunState;
use semel_testkit::proxy::Cut;
use semel_testkit::{let_pass, patience, until};

use crate::world::World;

const HELD: &str = "steps:\n  - id: pay\n    http: { post: PEER/hang/plain/pay, json: { id: '${{ input.id }}' }, timeout: 60s }\n    guard: review\n";

/// The database becomes unavailable while the destination works, for longer than the writer tries.
async fn answer_during_an_outage(lease: Span) -> Result<()> {
    let (world, proxy) = World::start_behind_proxy(lease, None).await?;
    world.publish(HELD).await?;
    let run = world.deliver(r#"{"id":"1"}"#).await?.run;
    world.peer.until_held(1, patience()).await?;

    proxy.refuse();
    proxy.cut(Cut::Reset);
    world.peer.let_go().await?;
    // The writer tries for a second each time, and the shorter of the two leases is over.
    let because = "because the writer and the lease go by the clock of their process";
    let_pass(Duration::from_millis(2_500), because).await;
    proxy.resume();

    let look = async || {
        // The engine's own connections were cut, so that its first reads may fail.
        let stands = world.engine.await_end(run, Duration::from_secs(1)).await;
        Ok(stands.ok().flatten().map(|stands| stands.state))
    };
    let succeeded = Some(RunState::Succeeded);
    until("the run to succeed", look, |state| *state == succeeded).await?;
    assert_eq!(world.peer.count("/hang/plain/pay").await?.effects, 1);
    Ok(())
}

#[tokio::test]
async fn a_response_during_a_database_outage_is_recorded_afterwards() -> Result<()> {
    answer_during_an_outage(Span::from_secs(60)).await
}

#[tokio::test]
async fn a_response_is_recorded_after_an_outage_that_outlasts_the_lease() -> Result<()> {
    answer_during_an_outage(Span::from_secs(2)).await
}

/// How many responses wait in a state folder.
fn count_left(folder: &Path) -> Result<usize> {
    let mut left = 0;
    for entry in std::fs::read_dir(folder)? {
        if entry?.file_name() != "lock" {
            left += 1;
        }
    }
    Ok(left)
}

#[tokio::test]
async fn a_process_that_stops_during_an_outage_leaves_responses_on_disk() -> Result<()> {
    let state = tempfile::tempdir()?;
    let folder = state.path().join("state");
    let lease = Span::from_secs(2);
    let (world, proxy) = World::start_behind_proxy(lease, Some(folder.clone())).await?;
    world.publish(HELD).await?;
    let run = world.deliver(r#"{"id":"1"}"#).await?.run;
    world.peer.until_held(1, patience()).await?;

    proxy.refuse();
    proxy.cut(Cut::Reset);
    world.peer.let_go().await?;
    let stopping = world.engine.shutdown_within(Duration::from_secs(4));
    tokio::time::timeout(patience(), stopping).await.ok();
    let left = count_left(&folder)?;
    let next = world.start_another().await?;
    let end = next.await_end(run, patience()).await?.context("the run")?;

    assert_eq!(left, 1, "one answer, one file");
    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(world.peer.count("/hang/plain/pay").await?.effects, 1);
    assert_eq!(count_left(&folder)?, 0, "it is done with");
    Ok(())
}
