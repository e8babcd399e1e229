//! A small, fast HTTP/1.1 client for load: many kept connections, bounded, no redirects, no pool
//! magic.
//!
//! It sends a request once. Only a request that provably never left is sent on another connection.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{HeaderMap, Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// How long an answer is awaited unless the caller says otherwise.
const PATIENCE: Duration = Duration::from_secs(60);

type Connection = SendRequest<Full<Bytes>>;

/// A client of one server.
#[derive(Debug)]
pub struct Client {
    authority: String,
    source: Option<Ipv4Addr>,
    patience: Duration,
    places: Semaphore,
    idle: Mutex<Vec<Connection>>,
}

impl Client {
    /// A client of `authority` (`host:port`) that opens at most so many connections.
    pub fn new(authority: impl ToString, connections_max: usize) -> Self {
        Self {
            authority: authority.to_string(),
            source: None,
            patience: PATIENCE,
            places: Semaphore::new(connections_max),
            idle: Mutex::default(),
        }
    }

    /// Waits at most so long for each answer.
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Connects from this address of the machine. The authority has to be an address then.
    pub fn with_source(mut self, source: Ipv4Addr) -> Self {
        self.source = Some(source);
        self
    }

    /// Gets a path.
    pub async fn get(&self, path: &str) -> Result<Answer, SendError> {
        self.send(Method::GET, path, &[], Bytes::new()).await
    }

    /// Posts a JSON text to a path.
    pub async fn post(&self, path: &str, json: impl Into<Bytes>) -> Result<Answer, SendError> {
        let content_type = (CONTENT_TYPE.as_str(), "application/json");
        self.send(Method::POST, path, &[content_type], json.into())
            .await
    }

    /// Sends one request and reads the whole answer.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Result<Answer, SendError> {
        let mut request = Request::builder().method(method).uri(path);
        request = request.header(HOST, &self.authority);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request
            .body(Full::new(body))
            .map_err(SendError::Malformed)?;
        let _place = self
            .places
            .acquire()
            .await
            .map_err(|_| SendError::TimedOut)?;
        match timeout(self.patience, self.exchange(request)).await {
            Ok(answer) => answer,
            // The connection goes with the exchange: its late answer must not meet another request.
            Err(_) => Err(SendError::TimedOut),
        }
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Answer, SendError> {
        let (mut connection, response) = self.dispatch(request).await?;
        let (head, body) = response.map_err(SendError::Lost)?.into_parts();
        let body = body.collect().await.map_err(SendError::Lost)?.to_bytes();
        if connection.ready().await.is_ok() {
            self.idle
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(connection);
        }
        Ok(Answer {
            status: head.status,
            headers: head.headers,
            body,
        })
    }

    /// Sends on a kept connection, or on a new one when the kept one turns out to be closed.
    async fn dispatch(&self, request: Request<Full<Bytes>>) -> Result<Sent, SendError> {
        let mut request = request;
        while let Some(mut connection) = self.take_idle() {
            match connection.try_send_request(request).await {
                Ok(response) => return Ok((connection, Ok(response))),
                Err(mut error) => match error.take_message() {
                    // The request came back whole, so no byte of it has left.
                    Some(unsent) => request = unsent,
                    None => return Err(SendError::Lost(error.into_error())),
                },
            }
        }
        let mut connection = self.connect().await?;
        let response = connection.send_request(request).await;
        Ok((connection, response))
    }

    fn take_idle(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|connection| !connection.is_closed());
        idle.pop()
    }

    async fn connect(&self) -> Result<Connection, SendError> {
        let stream = self.open().await.map_err(SendError::Connect)?;
        stream.set_nodelay(true).map_err(SendError::Connect)?;
        let (sender, connection) = handshake(TokioIo::new(stream))
            .await
            .map_err(SendError::Lost)?;
        tokio::spawn(connection);
        Ok(sender)
    }

    async fn open(&self) -> io::Result<TcpStream> {
        let Some(source) = self.source else {
            return TcpStream::connect(&self.authority).await;
        };
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((source, 0)))?;
        let address = self.authority.parse().map_err(io::Error::other)?;
        socket.connect(address).await
    }
}

type Sent = (
    Connection,
    Result<hyper::Response<hyper::body::Incoming>, hyper::Error>,
);

/// A server's whole answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Answer {
    /// The body read as JSON.
    pub fn json<T: DeserializeOwned>(&self) -> anyhow::Result<T> {
        Ok(serde_json::from_slice(&self.body)?)
    }

    /// A header's text, if it is there and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The body as text, for messages.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// Nothing was sent: the server cannot be reached.
    #[error("cannot connect")]
    Connect(#[source] std::io::Error),

    /// Nothing was sent: this is no request.
    #[error("the request is malformed")]
    Malformed(#[source] hyper::http::Error),

    /// The request may have arrived: the connection broke before the answer was complete.
    #[error("the connection was lost")]
    Lost(#[source] hyper::Error),

    /// The request may have arrived: no answer came in time.
    #[error("no answer in time")]
    TimedOut,
}
