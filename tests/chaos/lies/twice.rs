//! A destination that acts twice on one request, and closes its half of the connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What it says before it closes its half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// That it created something.
    Answers,
    /// Nothing.
    ClosesItsHalf,
}

/// The destination, which ends with this value.
pub(super) struct Twice {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
    effects: Arc<AtomicUsize>,
    listening: JoinHandle<()>,
}

impl Twice {
    pub(super) async fn start(manner: Manner) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (requests, effects) = (Arc::default(), Arc::default());
        let counters = (Arc::clone(&requests), Arc::clone(&effects));
        let listening = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(attend(stream, manner, counters.clone()));
            }
        });
        Ok(Self {
            address,
            requests,
            effects,
            listening,
        })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    pub(super) fn effects(&self) -> usize {
        self.effects.load(Ordering::SeqCst)
    }
}

impl Drop for Twice {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

type Counters = (Arc<AtomicUsize>, Arc<AtomicUsize>);

async fn attend(mut stream: TcpStream, manner: Manner, (requests, effects): Counters) {
    let mut heard = Vec::new();
    // The body is one object of JSON, so its last brace is the request's end.
    while !(heard.ends_with(b"}") && heard.starts_with(b"POST ")) {
        match stream.read_buf(&mut heard).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
    requests.fetch_add(1, Ordering::SeqCst);
    effects.fetch_add(2, Ordering::SeqCst);
    if manner == Manner::Answers {
        let answer = b"HTTP/1.1 201 Created\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
        stream.write_all(answer).await.ok();
    }
    stream.shutdown().await.ok();
    // The other half stays open for as long as the caller likes.
    while let Ok(1..) = stream.read_buf(&mut heard).await {}
}
