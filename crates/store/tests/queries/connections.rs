//! Connections: each has an owner, none is waited for without a limit, and each is asserted.

use anyhow::{Result, ensure};
use semel_model::{SessionId, Span};
use semel_store::claims::start_accepting;
use semel_store::{ReadError, flows, sessions};
use semel_testkit::{Proxy, until};

use crate::world::{World, delivery};

/// How many connections the engine's pool has.
const POOL: usize = 8;

const OWN_PID: &str = "SELECT pg_backend_pid()";

#[tokio::test]
async fn a_session_is_renewed_while_every_pooled_connection_is_taken() -> Result<()> {
    let world = World::start().await?;
    let session = SessionId::generate();
    let lease = Span::from_secs(600);
    sessions::open(&world.cell, session, "test", lease).await?;
    let mut taken = Vec::new();
    for _ in 0..POOL {
        taken.push(world.cell.reader().await?);
    }

    let renewed = sessions::renew(&world.cell, session, lease).await?;
    let crowded_out = world.cell.reader().await;

    assert!(renewed.is_some(), "the session is renewed");
    assert!(matches!(crowded_out, Err(ReadError::Unreachable(_))));
    Ok(())
}

#[tokio::test]
async fn requests_and_the_engine_do_not_wait_for_each_other() -> Result<()> {
    let world = World::start().await?;
    let people = world.cell.for_people();
    let mut taken = Vec::new();
    let crowded_out = loop {
        match people.reader().await {
            Ok(reader) => taken.push(reader),
            Err(error) => break error,
        }
        ensure!(taken.len() < 100, "the pool of requests has no end");
    };

    // The requests keep their connections meanwhile.
    flows::version(world.cell.home()).await?;

    assert!(!taken.is_empty(), "requests have connections");
    assert!(matches!(crowded_out, ReadError::Unreachable(_)));
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

    let pid = drop_a_request(&world).await?;

    until_gone(&world, pid).await
}

#[tokio::test]
async fn a_statement_of_the_engine_is_never_cancelled() -> Result<()> {
    let world = World::start().await?;
    let reader = world.cell.reader().await?;
    let pid: i32 = reader.query_one(OWN_PID, &[]).await?.get(0);
    reader
        .batch_execute("CREATE TABLE kept (n int); SET statement_timeout = 0")
        .await?;
    // Parsing takes the lock as well: what waits for it must be the whole statement.
    let insert = "INSERT INTO kept VALUES (1)";
    reader.prepare_cached(insert).await?;
    let locking = world.connect().await?;
    locking
        .batch_execute("BEGIN; LOCK TABLE kept IN SHARE MODE")
        .await?;

    let asked = tokio::spawn(async move { reader.execute(insert, &[]).await });
    world.until_waiting_for_a_lock().await?;
    asked.abort();
    let gone = asked.await;
    // A request that goes away after the engine's caller is cancelled: so would the engine's be by then.
    let later = drop_a_request(&world).await?;
    until_gone(&world, later).await?;
    locking.batch_execute("COMMIT").await?;

    assert!(
        gone.is_err_and(|error| error.is_cancelled()),
        "the caller went away"
    );
    let count = async || -> Result<i64> {
        let kept = locking.query_one("SELECT count(*) FROM kept", &[]);
        Ok(kept.await?.get(0))
    };
    until("the statement to be carried out", count, |kept| *kept == 1).await?;
    ensure!(
        count_backends(&world, pid).await? == 1,
        "the connection went back to the pool"
    );
    Ok(())
}

#[tokio::test]
async fn a_server_that_may_lose_commits_is_refused_at_every_reconnect() -> Result<()> {
    let world = World::start().await?;
    let (cell, proxy) = world.counted().await?;
    let accepting = start_accepting(&cell);
    accepting.write(delivery("first", "{}", None)?).await?;

    world
        .set_for_new_sessions("synchronous_commit", "off")
        .await?;
    let pooled = cell.for_people().reader().await;
    let before = proxy.accepted();
    let (writer, second) = (accepting.clone(), delivery("second", "{}", None)?);
    let writing = tokio::spawn(async move { writer.write(second).await });
    until_refused_twice(&proxy, before).await?;
    let acknowledged_too_soon = writing.is_finished();
    world
        .set_for_new_sessions("synchronous_commit", "on")
        .await?;
    let written = writing.await?;
    let again = accepting.write(delivery("third", "{}", None)?).await;

    assert!(pooled.is_err(), "a pool takes no such connection");
    assert!(!acknowledged_too_soon, "nothing is acknowledged");
    assert!(
        written.is_ok() && again.is_ok(),
        "it works again once commits are durable: {written:?} {again:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_writer_waits_for_a_primary() -> Result<()> {
    let world = World::start().await?;
    let (cell, proxy) = world.counted().await?;
    let accepting = start_accepting(&cell);
    world
        .set_for_new_sessions("default_transaction_read_only", "on")
        .await?;

    let before = proxy.accepted();
    let first = delivery("key", "{}", None)?;
    let writing = tokio::spawn(async move { accepting.write(first).await });
    until_refused_twice(&proxy, before).await?;
    let answered_too_soon = writing.is_finished();
    world
        .set_for_new_sessions("default_transaction_read_only", "off")
        .await?;
    let written = writing.await?;

    assert!(!answered_too_soon, "read-only is neither yes nor no");
    assert!(written.is_ok(), "{written:?}");
    Ok(())
}

/// Drops a request while its statement runs, which nothing but a cancellation ends. Gives its connection.
async fn drop_a_request(world: &World) -> Result<i32> {
    let reader = world.cell.for_people().reader().await?;
    let pid: i32 = reader.query_one(OWN_PID, &[]).await?.get(0);
    reader.batch_execute("SET statement_timeout = 0").await?;

    let asked = tokio::spawn(async move { reader.query("SELECT pg_sleep(600)", &[]).await });
    let client = world.connect().await?;
    let runs = "SELECT count(*) FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep'";
    let look = async || -> Result<i64> { Ok(client.query_one(runs, &[&pid]).await?.get(0)) };
    until("the statement to run", look, |count| *count == 1).await?;
    asked.abort();
    let gone = asked.await;

    ensure!(
        gone.is_err_and(|error| error.is_cancelled()),
        "the request was dropped in the middle"
    );
    Ok(pid)
}

async fn count_backends(world: &World, pid: i32) -> Result<i64> {
    let client = world.connect().await?;
    let count = "SELECT count(*) FROM pg_stat_activity WHERE pid = $1";
    Ok(client.query_one(count, &[&pid]).await?.get(0))
}

async fn until_gone(world: &World, pid: i32) -> Result<()> {
    let look = async || count_backends(world, pid).await;
    until("the end of a cancelled statement", look, |count| {
        *count == 0
    })
    .await?;
    Ok(())
}

/// Waits until a cell connects for the third time: two connections were refused by then.
async fn until_refused_twice(proxy: &Proxy, before: u64) -> Result<()> {
    let look = async || -> Result<u64> { Ok(proxy.accepted() - before) };
    until("a third connection", look, |made| *made > 2).await?;
    Ok(())
}
