//! Connections: each has an owner, none is waited for without a limit, and each is asserted.

use std::time::Duration;

use anyhow::{Result, ensure};
use semel_model::{SessionId, Span};
use semel_store::claims::start_accepting;
use semel_store::{Cell, ReadError, flows, sessions};
use semel_testkit::Stopwatch;
use tokio::time::timeout;

use crate::world::{World, delivery};

/// How many connections the engine's pool has.
const POOL: usize = 8;

#[tokio::test]
async fn a_session_is_renewed_while_every_pooled_connection_is_taken() -> Result<()> {
    let world = World::start().await?;
    let session = SessionId::generate();
    let lease = Span::from_secs(6);
    sessions::open(&world.cell, session, "test", lease).await?;
    let mut taken = Vec::new();
    for _ in 0..POOL {
        taken.push(world.cell.reader().await?);
    }

    let begun = Stopwatch::start();
    let renewed = sessions::renew(&world.cell, session, lease).await?;
    let took = begun.elapsed();
    let crowded_out = world.cell.reader().await;

    assert!(renewed.is_some(), "the session is renewed");
    assert!(took < Duration::from_secs(1), "it took {took:?}");
    assert!(matches!(crowded_out, Err(ReadError::Unreachable(_))));
    Ok(())
}

#[tokio::test]
async fn requests_and_the_engine_do_not_wait_for_each_other() -> Result<()> {
    let world = World::start().await?;
    let people = world.cell.for_people();
    let mut taken = Vec::new();
    while let Ok(Ok(reader)) = timeout(Duration::from_millis(500), people.reader()).await {
        taken.push(reader);
        ensure!(taken.len() < 100, "the pool of requests has no end");
    }

    let crowded_out = timeout(Duration::from_secs(4), people.reader()).await?;
    let engine = timeout(Duration::from_secs(1), flows::version(world.cell.home())).await?;

    assert!(matches!(crowded_out, Err(ReadError::Unreachable(_))));
    engine?;
    Ok(())
}

#[tokio::test]
async fn the_connections_of_requests_are_read_only() -> Result<()> {
    let world = World::start().await?;

    let people = world.cell.for_people().reader().await?;
    let refused = people.execute("DELETE FROM clock", &[]).await;

    let code = refused.unwrap_err().code().cloned();
    assert_eq!(
        code.map(|code| code.code().to_owned()),
        Some("25006".to_owned())
    );
    Ok(())
}

#[tokio::test]
async fn a_statement_whose_request_is_gone_is_cancelled_and_its_connection_closed() -> Result<()> {
    let world = World::start().await?;
    let people = world.cell.for_people();
    let reader = people.reader().await?;
    let pid: i32 = reader
        .query_one("SELECT pg_backend_pid()", &[])
        .await?
        .get(0);

    let asked = async move { reader.query("SELECT pg_sleep(60)", &[]).await };
    let gone = timeout(Duration::from_millis(300), asked).await;

    assert!(gone.is_err(), "the request was dropped in the middle");
    until_gone(&world.cell, pid).await
}

#[tokio::test]
async fn a_statement_of_the_engine_is_never_cancelled() -> Result<()> {
    let world = World::start().await?;
    let reader = world.cell.reader().await?;
    let pid: i32 = reader
        .query_one("SELECT pg_backend_pid()", &[])
        .await?
        .get(0);
    reader.batch_execute("CREATE TABLE kept (n int)").await?;

    let asked = async move {
        let text = "WITH slept AS (SELECT pg_sleep(1)) INSERT INTO kept SELECT 1 FROM slept";
        reader.execute(text, &[]).await
    };
    let gone = timeout(Duration::from_millis(200), asked).await;

    assert!(gone.is_err(), "the caller went away");
    for _ in 0..100 {
        let client = world.cell.reader().await?;
        let kept = client.query_one("SELECT count(*) FROM kept", &[]).await?;
        if kept.get::<_, i64>(0) == 1 {
            let there = client.query(BACKEND, &[&pid]).await?;
            ensure!(!there.is_empty(), "the connection went back to the pool");
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    anyhow::bail!("the statement was not carried out")
}

#[tokio::test]
async fn a_server_that_may_lose_commits_is_refused_at_every_reconnect() -> Result<()> {
    let world = World::start().await?;
    let accepting = start_accepting(&world.cell);
    accepting.write(delivery("first", "{}", None)?).await?;

    world
        .set_for_new_sessions("synchronous_commit", "off")
        .await?;
    let pooled = world.cell.for_people().reader().await;
    let writing = accepting.write(delivery("second", "{}", None)?);
    let refused = timeout(Duration::from_secs(2), writing).await;
    world
        .set_for_new_sessions("synchronous_commit", "on")
        .await?;
    let again = accepting.write(delivery("third", "{}", None)?).await;

    assert!(pooled.is_err(), "a pool takes no such connection");
    assert!(refused.is_err(), "nothing is acknowledged");
    assert!(
        again.is_ok(),
        "it works again once commits are durable: {again:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_writer_waits_for_a_primary() -> Result<()> {
    let world = World::start().await?;
    let accepting = start_accepting(&world.cell);
    world
        .set_for_new_sessions("default_transaction_read_only", "on")
        .await?;

    let writing = tokio::spawn(async move {
        accepting
            .write(delivery("key", "{}", None)?)
            .await
            .map_err(anyhow::Error::from)
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    let answered_too_soon = writing.is_finished();
    world
        .set_for_new_sessions("default_transaction_read_only", "off")
        .await?;
    let written = writing.await?;

    assert!(!answered_too_soon, "read-only is neither yes nor no");
    assert!(written.is_ok(), "{written:?}");
    Ok(())
}

const BACKEND: &str = "SELECT 1 FROM pg_stat_activity WHERE pid = $1";

async fn until_gone(cell: &Cell, pid: i32) -> Result<()> {
    for _ in 0..100 {
        let client = cell.reader().await?;
        if client.query(BACKEND, &[&pid]).await?.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    anyhow::bail!("the statement runs on")
}
