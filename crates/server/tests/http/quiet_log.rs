//! The log outlives an erasure: what destinations answer and the keys of runs stay out of it.

use std::net::SocketAddr;

use anyhow::{Result, ensure};
use semel_api::types::{RunStatus, StartRun};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::log::Log;
use crate::world::{World, patience_span};

/// A destination that answers every request with the status 500 and this text.
async fn broken(text: &'static str) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut caller, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                match caller.read_u8().await {
                    Ok(byte) => head.push(byte),
                    Err(_) => break,
                }
            }
            let length = text.len();
            let answer = format!(
                "HTTP/1.1 500 Broken\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{text}"
            );
            let _ = caller.write_all(answer.as_bytes()).await;
        }
    });
    Ok(address)
}

#[tokio::test]
async fn neither_what_a_destination_answered_nor_the_key_of_a_run_is_logged() -> Result<()> {
    let log = Log::default();
    // The engine runs on the thread of the test.
    let _heard = tracing::subscriber::set_default(log.clone());
    let world = World::start().await?;
    let address = broken("planted-answer").await?;
    let steps = format!(
        "trigger: {{ api: {{}} }}\nsteps:\n  - id: charge\n    guard: review\n    \
         http: {{ post: 'http://{address}/charges' }}\n"
    );
    let flow = world.publish("charging", &steps).await?;
    let start = StartRun {
        key: Some("planted-key".to_owned()),
        ..StartRun::default()
    };

    let patience = Some(patience_span());
    let started = world.client.start_run(&flow, &start, patience).await?.body;
    let shown = world.client.get_run(started.run).await?;

    assert_eq!(started.state, RunStatus::InDoubt);
    let shown = serde_json::to_string(&shown)?;
    ensure!(shown.contains("planted-answer"), "the run has it: {shown}");
    let logged = log.text();
    ensure!(
        logged.contains("run stopped until an operator acts"),
        "{logged}"
    );
    ensure!(logged.contains("http-500"), "{logged}");
    ensure!(logged.contains(&started.run.to_string()), "{logged}");
    ensure!(!logged.contains("planted-"), "{logged}");
    Ok(())
}
