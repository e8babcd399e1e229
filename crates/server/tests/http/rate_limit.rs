//! Rate limits and slow clients.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::time::Duration;

use anyhow::Result;
use semel_api::Problem;
use semel_server::{BodyBudget, ServerOptions};
use semel_testkit::{patience, until_some};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::authentic::SECRETS;
use crate::signing::sign;
use crate::world::World;

const OPEN: &str = "trigger:\n  webhook: { auth: none, key: input.id }\n\
    steps:\n  - id: note\n    kv: { add: seen }\n";

#[tokio::test]
async fn a_hook_takes_its_burst_and_says_when_to_retry() -> Result<()> {
    let world = World::start_with(ServerOptions {
        hook_rate: NonZeroU32::new(1),
        ..ServerOptions::default()
    })
    .await?;
    world.publish("hook", OPEN).await?;
    world.publish("other", OPEN).await?;

    let mut statuses = Vec::new();
    for n in 0..3 {
        let body = format!(r#"{{"id":"{n}"}}"#);
        let answer = world.bare.post("/hooks/main/hook", body).await?;
        statuses.push(answer.status.as_u16());
        if n == 2 {
            assert_eq!(answer.json::<Problem>()?.code, "too-many-requests");
            assert_eq!(answer.header("retry-after"), Some("1"));
        }
    }
    let other = world
        .bare
        .post("/hooks/main/other", r#"{"id":"1"}"#)
        .await?;

    assert_eq!(statuses, [202, 202, 429]);
    assert_eq!(other.status, 202);
    Ok(())
}

#[tokio::test]
async fn unverified_deliveries_are_rate_limited_and_never_block_verified_ones() -> Result<()> {
    let world = World::start().await?;
    world.publish_signed("hook", "github", SECRETS[0]).await?;
    let now = world.now().await?;
    let make = |secret: &str, id: u32| sign("github", secret, "/hooks/main/hook", id, now);

    let mut statuses = Vec::new();
    for id in 0..12 {
        let answer = world.send(&make(SECRETS[1], id)).await?;
        statuses.push(answer.status.as_u16());
        let waits = answer.header("retry-after").is_some();
        assert_eq!(waits, answer.status == 429);
    }
    let genuine = world.send(&make(SECRETS[0], 100)).await?;

    assert_eq!(statuses[..10], [401; 10]);
    assert_eq!(statuses[10..], [429; 2]);
    assert_eq!(genuine.status, 202);
    Ok(())
}

#[tokio::test]
async fn a_missing_head_or_body_times_out() -> Result<()> {
    let world = World::start().await?;
    world.publish("hook", OPEN).await?;
    // Of a server that these two requests come to and no other, which could be cut short as well.
    let (hasty, _down) = world
        .serve_also(ServerOptions {
            header_patience: Duration::from_secs(1),
            body_patience: Duration::from_millis(200),
            ..ServerOptions::default()
        })
        .await?;
    let head = "POST /hooks/main/hook HTTP/1.1\r\nhost: x\r\n";
    let announced = format!("{head}content-length: 100\r\n\r\n{{");

    let (slow_head, slow_body) =
        tokio::try_join!(read_answer(hasty, head), read_answer(hasty, &announced))?;

    assert!(
        slow_head.is_empty() || slow_head.starts_with("HTTP/1.1 408"),
        "{slow_head}"
    );
    assert!(slow_body.starts_with("HTTP/1.1 408"), "{slow_body}");
    assert!(slow_body.contains("body-incomplete"), "{slow_body}");
    Ok(())
}

#[tokio::test]
async fn no_body_is_read_for_an_unknown_hook() -> Result<()> {
    let world = World::start().await?;
    let head = "POST /hooks/main/nowhere HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n";

    // The body never comes, and is not waited for.
    let answer = read_answer(world.address, head).await?;

    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    assert!(answer.contains("hook-not-found"), "{answer}");
    Ok(())
}

#[tokio::test]
async fn a_hook_at_its_limit_refuses_before_a_body_is_read() -> Result<()> {
    let world = World::start_with(ServerOptions {
        hook_rate: NonZeroU32::new(1),
        ..ServerOptions::default()
    })
    .await?;
    world.publish("hook", OPEN).await?;
    let mut statuses = Vec::new();
    for n in 0..3 {
        let body = format!(r#"{{"id":"{n}"}}"#);
        let answer = world.bare.post("/hooks/main/hook", body).await?;
        statuses.push(answer.status.as_u16());
    }

    let head = "POST /hooks/main/hook HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n";
    let answer = read_answer(world.address, head).await?;

    assert_eq!(statuses, [202, 202, 429]);
    assert!(answer.starts_with("HTTP/1.1 429"), "{answer}");
    Ok(())
}

#[tokio::test]
async fn bodies_that_do_not_fit_into_memory_are_asked_to_retry() -> Result<()> {
    let world = World::start_with(ServerOptions {
        body_budget: BodyBudget::of_bytes(200_000),
        body_patience: patience(),
        ..ServerOptions::default()
    })
    .await?;
    world.publish("hook", OPEN).await?;
    // Holds most of what there is for bodies, and does not end.
    let mut stream = TcpStream::connect(world.address).await?;
    let head = "POST /hooks/main/hook HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&vec![b' '; 90_000]).await?;

    let large = format!(r#"{{"id":"{}"}}"#, "x".repeat(30_000));
    // Until the server has read what was sent, there is memory left.
    let refused = until_some("a body to be refused", async || {
        let answer = world.bare.post("/hooks/main/hook", large.clone()).await?;
        Ok((answer.status == 503).then_some(answer))
    })
    .await?;
    drop(stream);
    let accepted = until_some("a body to be taken", async || {
        let answer = world.bare.post("/hooks/main/hook", r#"{"id":"2"}"#).await?;
        Ok((answer.status == 202).then_some(answer))
    })
    .await?;

    assert_eq!(refused.status, 503);
    assert_eq!(refused.json::<Problem>()?.code, "overloaded");
    assert_eq!(refused.header("retry-after"), Some("2"));
    assert_eq!(accepted.status, 202);
    Ok(())
}

#[tokio::test]
async fn one_address_cannot_hold_the_memory_for_the_bodies_of_others() -> Result<()> {
    let world = World::start_with(ServerOptions {
        body_budget: BodyBudget::of_bytes(16 << 20),
        body_patience: patience(),
        ..ServerOptions::default()
    })
    .await?;
    world.publish("hook", OPEN).await?;
    let holder = Ipv4Addr::new(127, 0, 0, 2);
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((holder, 0)))?;
    let mut stream = socket.connect(world.address).await?;
    let head = "POST /hooks/main/hook HTTP/1.1\r\nhost: x\r\ncontent-length: 1048576\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&vec![b' '; 1_040_000]).await?;

    let body = |id: &str| format!(r#"{{"id":"{id}","more":"{}"}}"#, "x".repeat(30_000));
    let own = semel_testkit::Client::new(world.address, 2).with_source(holder);
    // An eighth of 8 MiB. Until the server has read what was sent, there is memory left.
    let refused = until_some("a body of the same address to be refused", async || {
        let answer = own.post("/hooks/main/hook", body("1")).await?;
        Ok((answer.status == 503).then_some(answer))
    })
    .await?;
    let other = semel_testkit::Client::new(world.address, 2);
    let other = other.with_source(Ipv4Addr::new(127, 0, 0, 3));
    let accepted = other.post("/hooks/main/hook", body("2")).await?;
    drop(stream);

    assert_eq!(refused.json::<Problem>()?.code, "overloaded");
    assert_eq!(accepted.status, 202, "{}", accepted.text());
    Ok(())
}

/// Sends the beginning of a request, and reads until the server hangs up.
pub(crate) async fn read_answer(address: SocketAddr, text: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(text.as_bytes()).await?;
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    tokio::time::timeout(patience(), read).await??;
    Ok(answer)
}
