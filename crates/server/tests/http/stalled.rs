//! Clients that ask and do not read what they asked for.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use hyper::Method;
use semel_model::RunId;
use semel_server::{BodyBudget, ServerOptions};
use semel_testkit::{Client, until, until_some};
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};

use crate::world::World;

const ORDERS: &str = "trigger: { webhook: { auth: none, key: input.id } }\n\
    steps:\n  - { id: one, function: '1' }\n";

/// How many responses one client asks for at once: more than the buffers of a connection hold.
const ASKED: usize = 64;

/// The memory that all readers of the server share is one unit: whoever shows a large journal has all of it.
const BUDGET: usize = 4_096;

/// Longer than a reader waits for memory, so that one that waits behind a client that does not read is refused.
const WRITE_PATIENCE: Duration = Duration::from_secs(8);

#[tokio::test]
async fn a_client_that_does_not_read_is_cut_and_gives_its_memory_back() -> Result<()> {
    let world = World::start().await?;
    let run = start_large(&world).await?;
    let (address, _down) = world
        .serve_also(ServerOptions {
            body_budget: BodyBudget::of_bytes(BUDGET),
            write_patience: WRITE_PATIENCE,
            ..ServerOptions::default()
        })
        .await?;
    let path = format!("/v1/runs/{run}");
    let reader = Client::new(address, 2);
    let bearer = format!("Bearer {}", world.token);
    let look = async || {
        let headers = [("authorization", bearer.as_str())];
        let answer = reader.send(Method::GET, &path, &headers, "".into()).await?;
        Ok(answer.status.as_u16())
    };

    // Kept open to the end: nobody but the server closes them.
    let mut silent = Vec::new();
    let refuse = async || {
        silent.push(ask_and_never_read(address, &path, &bearer).await?);
        look().await
    };
    let refused = until("a reader to find no memory", refuse, |status| {
        *status == 503
    })
    .await?;
    let shown = until("a reader to find memory again", look, |status| {
        *status == 200
    })
    .await?;

    assert_eq!((refused, shown), (503, 200));
    drop(silent);
    Ok(())
}

/// A run whose journal is larger than what takes no memory.
async fn start_large(world: &World) -> Result<RunId> {
    world.publish("orders", ORDERS).await?;
    let body = format!(r#"{{"id":"1","more":"{}"}}"#, "x".repeat(900_000));
    let answer = world.bare.post("/hooks/main/orders", body).await?;
    let receipt: Value = answer.json()?;
    let run: RunId = receipt["run"].as_str().unwrap_or_default().parse()?;
    let ended = async || Ok(world.client.get_run(run).await?.run.ended_at);
    until_some("the run to end", ended).await?;
    Ok(run)
}

/// Asks for more than the buffers hold, and reads none of it.
async fn ask_and_never_read(address: SocketAddr, path: &str, bearer: &str) -> Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4_096)?;
    let mut stream = socket.connect(address).await?;
    let ask = format!("GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: {bearer}\r\n\r\n");
    // A server that has cut the connection takes no more: then it was cut.
    let _ = stream.write_all(ask.repeat(ASKED).as_bytes()).await;
    Ok(stream)
}
