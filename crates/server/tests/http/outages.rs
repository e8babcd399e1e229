//! A database outage: nothing is acknowledged, and everything continues afterwards.

use anyhow::{Context, Result};
use hyper::Method;
use semel_api::types::Started;
use semel_api::{Code, Problem};
use semel_testkit::{Cut, patience, until, until_some};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::world::{World, refused};

const ORDERS: &str = "trigger: { webhook: { auth: none, key: input.id } }\n\
    steps:\n  - id: note\n    kv: { add: orders }\n";

#[tokio::test]
async fn a_delivery_is_not_acknowledged_during_a_database_outage() -> Result<()> {
    let (world, proxy) = World::start_behind_proxy().await?;
    world.publish("orders", ORDERS).await?;
    proxy.refuse();
    proxy.cut(Cut::Reset);

    let away = world
        .bare
        .post("/hooks/main/orders", r#"{"id":"1"}"#)
        .await?;
    let read = refused(world.client.list_runs(&Default::default()).await);
    let look = async || Ok(world.client.is_ready().await?);
    let ready = until("the server to be unready", look, |ready| !ready).await?;
    proxy.resume();
    let back = until_some("the delivery to be taken", async || {
        let again = world
            .bare
            .post("/hooks/main/orders", r#"{"id":"1"}"#)
            .await?;
        Ok(again.status.is_success().then_some(again))
    })
    .await?;

    assert_eq!(away.status, 503);
    assert_eq!(away.header("retry-after"), Some("1"));
    assert_eq!(away.json::<Problem>()?.code, "database-unavailable");
    assert_eq!((read?, ready), (Code::DatabaseUnavailable, false));
    assert_eq!(back.json::<Started>()?.key, "1");
    Ok(())
}

#[tokio::test]
async fn a_hook_is_unknown_only_where_the_database_says_so() -> Result<()> {
    let (world, proxy) = World::start_behind_proxy().await?;
    let unknown = world.bare.post("/hooks/main/nowhere", "{}").await?;
    proxy.refuse();
    proxy.cut(Cut::Reset);

    let away = world.bare.post("/hooks/main/nowhere", "{}").await?;

    assert_eq!(unknown.status, 404);
    assert_eq!(away.status, 503);
    assert_eq!(away.json::<Problem>()?.code, "database-unavailable");
    Ok(())
}

#[tokio::test]
async fn a_sender_that_hangs_up_does_not_strand_its_run() -> Result<()> {
    let (world, proxy) = World::start_behind_proxy().await?;
    world.publish("orders", ORDERS).await?;
    proxy.hold_answers();
    let body = r#"{"id":"1"}"#;
    let request = format!(
        "POST /hooks/main/orders HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );

    let mut sender = TcpStream::connect(world.address).await?;
    sender.write_all(request.as_bytes()).await?;
    proxy.until_held(1, patience()).await?;
    // The server sees the end of the connection while the commit is in flight, and closes its own.
    sender.shutdown().await?;
    let mut rest = Vec::new();
    let closed = timeout(patience(), sender.read_to_end(&mut rest)).await;
    closed.context("the server closes the connection")?.ok();
    proxy.resume();

    until_some("the run to end", async || {
        let runs = world.client.list_runs(&Default::default()).await;
        let ended = |run: &semel_api::types::Run| run.state.is_ended();
        Ok(runs
            .ok()
            .filter(|runs| runs.items.first().is_some_and(ended)))
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_silent_client_does_not_delay_others() -> Result<()> {
    let world = World::start().await?;
    let mut silent = Vec::new();
    for _ in 0..50 {
        silent.push(TcpStream::connect(world.address).await?);
    }

    let answer = world.bare.send(Method::GET, "/healthz", &[], "".into());
    let answer = answer.await?;

    assert_eq!(answer.status, 200);
    Ok(())
}
