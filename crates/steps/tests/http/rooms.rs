//! Large answers: each is read into values when there is memory for them, however long that takes.

use std::net::SocketAddr;
use std::sync::Arc;

use semel_model::{Outcome, Span};
use semel_steps::{HttpExecutor, Pooling, Reach, Route};
use semel_testkit::{until, until_some};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::stage::{caller, done, get};

/// So much memory that the values of one answer are all that a namespace may have.
const ANSWER_BYTES: usize = 2 << 20;

/// A megabyte of small values.
fn numbers() -> String {
    format!("[{}0]", "0,".repeat(500_000))
}

/// Answers every request with many small values, except those for `/hang`.
async fn listen() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream));
        }
    });
    address
}

async fn answer(mut stream: TcpStream) {
    let mut asked = Vec::new();
    while !asked.ends_with(b"\r\n\r\n") {
        match stream.read_buf(&mut asked).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
    if asked.starts_with(b"GET /hang") {
        std::future::pending::<()>().await;
    }
    let body = numbers();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all((head + &body).as_bytes()).await;
}

async fn ask(caller: HttpExecutor, namespace_id: i32, url: String) -> Outcome {
    let mut read = get(&url);
    read.timeout = Span::from_millis(500);
    let route = Route {
        namespace_id,
        to: None,
        origin: None,
    };
    let asked = caller.send_request(&read, route, None, Pooling::Fresh);
    asked.await
}

#[tokio::test]
async fn an_answer_that_has_come_waits_for_memory_beyond_its_time_and_stays_what_it_is() {
    let reach = Reach::open().with_answer_bytes(ANSWER_BYTES);
    let (caller, room) = (caller(&reach), Arc::clone(&reach.answers));
    let address = listen().await;
    let url = format!("http://{address}/");
    // The time of a request that is not answered; it may be cut short by a machine that stands still, so it is asked again.
    let first = until_some("the first answer", async || {
        let outcome = ask(caller.clone(), 1, url.clone()).await;
        Ok(matches!(outcome, Outcome::Done(_)).then_some(outcome))
    })
    .await
    .unwrap();

    let (again, asked) = (caller.clone(), url.clone());
    let second = tokio::spawn(async move {
        loop {
            let outcome = ask(again.clone(), 1, asked.clone()).await;
            if matches!(outcome, Outcome::Done(_)) {
                return outcome;
            }
        }
    });
    let waiting = async || Ok(room.waiting());
    until("the second answer to wait", waiting, |count| *count == 1)
        .await
        .unwrap();
    // Another request has all of its time meanwhile, and another namespace has its own memory.
    let hung = ask(caller.clone(), 3, format!("http://{address}/hang")).await;
    let other = until_some("an answer to another namespace", async || {
        let outcome = ask(caller.clone(), 2, url.clone()).await;
        Ok(matches!(outcome, Outcome::Done(_)).then_some(outcome))
    })
    .await
    .unwrap();
    let still = room.waiting();
    drop(first);
    let second = done(second.await.unwrap());

    assert!(!matches!(hung, Outcome::Done(_)), "{hung:?}");
    assert_eq!(still, 1, "the first was not dropped yet");
    assert_eq!(second.response["json"].as_array().unwrap().len(), 500_001);
    drop((other, second));
    assert_eq!((room.taken_bytes(), room.waiting()), (0, 0));
}
