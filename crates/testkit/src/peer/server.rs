//! The peer's process: its listener, its connections, its end.

use std::fs::File;
use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::Result;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};

use super::paced::Paced;
use super::shared::{Closed, Shared};
use super::world::World;
use super::{control, respond};

/// What stands in the line that tells the port.
pub(super) const LISTENING: &str = "listening on ";

/// Serves on a free loopback port, which it prints on standard output, until standard input closes.
pub async fn serve(log: Option<&Path>) -> Result<()> {
    let log = log
        .map(|path| File::options().create(true).append(true).open(path))
        .transpose()?;
    let shared: &'static Shared = Box::leak(Box::new(Shared::new(World::with_log(log))));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    writeln!(io::stdout(), "{LISTENING}{}", listener.local_addr()?)?;
    tokio::select! {
        () = accept(listener, shared) => Ok(()),
        () = end_of_input() => Ok(()),
    }
}

/// The parent holds the other end, and its death closes it.
async fn end_of_input() {
    let mut input = tokio::io::stdin();
    let mut bytes = [0; 64];
    while matches!(input.read(&mut bytes).await, Ok(1..)) {}
}

async fn accept(listener: TcpListener, shared: &'static Shared) {
    loop {
        // An error here is a client that left early or a passing want of descriptors.
        if let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(converse(stream, shared));
        }
    }
}

async fn converse(stream: TcpStream, shared: &'static Shared) {
    stream.set_nodelay(true).ok();
    let service = service_fn(move |request| answer(request, shared));
    // A connection that ends badly is the client's business, or was asked for.
    http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await
        .ok();
}

/// Works on a task of its own: a server acts on what it has read though the client is gone.
async fn answer(
    request: Request<Incoming>,
    shared: &'static Shared,
) -> Result<Response<Paced>, Closed> {
    let work = tokio::spawn(async move {
        if request.uri().path().starts_with("/_/") {
            return Ok(control::answer(request, shared).await);
        }
        respond::answer(request, shared).await
    });
    work.await.unwrap_or(Err(Closed))
}
