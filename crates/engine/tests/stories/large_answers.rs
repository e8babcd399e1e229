//! Large answers of destinations: they are read in turns, and no run waits for another for ever.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use futures_util::future::try_join_all;
use semel_engine::{Engine, Options};
use semel_model::run::RunState;
use semel_store::{Cell, CellOptions};
use semel_testkit::patience;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::world::World;

/// How many runs hear of their destination at once.
const RUNS: usize = 6;

/// Less memory than the values of two answers take.
const ANSWER_BYTES: usize = 2 << 20;

/// A destination that answers as soon as so many ask, all of them together and each with many small values.
async fn answer_together(count: usize) -> Result<(SocketAddr, JoinHandle<Result<()>>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let answering = async move {
        let mut asked = Vec::new();
        while asked.len() < count {
            let (mut stream, _) = listener.accept().await?;
            read_head(&mut stream).await?;
            asked.push(stream);
        }
        let body = format!("[{}0]", "0,".repeat(250_000));
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n",
            body.len()
        );
        let text = head + &body;
        try_join_all(
            asked
                .iter_mut()
                .map(|stream| stream.write_all(text.as_bytes())),
        )
        .await?;
        Ok(())
    };
    Ok((address, tokio::spawn(answering)))
}

async fn read_head(stream: &mut TcpStream) -> Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        anyhow::ensure!(stream.read_buf(&mut head).await? > 0, "a whole head");
    }
    Ok(())
}

#[tokio::test]
async fn runs_whose_destinations_answer_together_read_them_in_turns_and_all_succeed() -> Result<()>
{
    let mut world = World::start().await?;
    world.engine.shutdown().await;
    let options = Options {
        answer_bytes: ANSWER_BYTES,
        ..world.engine.options().clone()
    };
    let cell = Cell::connect(&world.database().url(), CellOptions::default()).await?;
    world.engine = Engine::start(cell, options).await?;
    let (address, answering) = answer_together(RUNS).await?;
    world
        .publish(&format!(
            "steps:\n  - {{ id: act, http: {{ post: 'http://{address}/', json: {{}}, timeout: 10m }}, \
             result: 'response.json.size()' }}\n  - {{ id: note, kv: {{ add: answered }} }}\n\
             result: steps.act.result\n"
        ))
        .await?;

    let payloads: Vec<String> = (0..RUNS).map(|id| format!(r#"{{"id":"{id}"}}"#)).collect();
    let accepted = try_join_all(payloads.iter().map(|payload| world.deliver(payload))).await?;
    let ends = accepted
        .iter()
        .map(|it| world.engine.await_end(it.run, patience()));
    let ends = try_join_all(ends).await?;

    answering.await??;
    for end in ends {
        let end = end.context("a run")?;
        assert_eq!(end.state, RunState::Succeeded, "{end:?}");
        assert_eq!(end.result.as_deref(), Some("250001"));
    }
    world.until_sound().await
}
