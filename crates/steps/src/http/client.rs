//! One exchange: a request leaves, a response comes back, both before one deadline.
//!
//! Connections are kept and shared by the client of `hyper-util`. What is built on it here is no more than an
//! exchange needs: no redirect, no cookie, no decompression, and no retry of anything that may have left.
//! Decision 20 has the reasons.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, HeaderMap, HeaderValue, PROXY_AUTHORIZATION, USER_AGENT};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::task::coop::consume_budget;
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::body::Outgoing;
use super::connect::Connector;

/// How long an unused connection is kept. Shorter than the five seconds after which common servers
/// close theirs, so that a request rarely meets a connection that is being closed.
const IDLE_MAX: Duration = Duration::from_secs(4);

/// How long a shared connection of HTTP/2 with open streams may be silent before it is asked whether it stands, and
/// then how long the answer may take. Without that, one that went silent would be used as long as requests come.
const HTTP2_PING: Duration = Duration::from_secs(5);

/// What this client calls itself.
pub(super) const NAME: HeaderValue =
    HeaderValue::from_static(concat!("semel/", env!("CARGO_PKG_VERSION")));

/// What a request accepts that does not say.
const ANYTHING: HeaderValue = HeaderValue::from_static("*/*");

/// A client with connections of its own. Cheap to clone.
#[derive(Clone)]
pub(super) struct Client {
    connections: legacy::Client<Connector, Outgoing>,
    /// What opens the proxy, for requests that it reads. A tunnel is opened where it is made.
    proxy_auth: Option<HeaderValue>,
}

/// A request that is about to be sent.
pub(super) struct OutgoingRequest<'a> {
    pub(super) method: Method,
    pub(super) url: &'a Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Outgoing,
    /// Until when all of the response has to be there.
    pub(super) deadline: Instant,
}

/// Why there is no response, or not all of it.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExchangeError {
    /// It cannot be written down as HTTP. Nothing was sent.
    #[error("the address cannot be sent")]
    Address(#[from] hyper::http::uri::InvalidUri),
    /// Its time was over, before the response began or while it was read.
    #[error("no answer in time")]
    TimedOut,
    /// There is no connection, or it broke.
    #[error(transparent)]
    Exchange(#[from] legacy::Error),
    /// The connection broke while the response was read.
    #[error(transparent)]
    Body(#[from] hyper::Error),
}

impl Client {
    /// A client that keeps so many unused connections to a destination.
    pub(super) fn new(
        connector: Connector,
        proxy_auth: Option<HeaderValue>,
        idle_max: usize,
    ) -> Self {
        let connections = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_MAX)
            .pool_max_idle_per_host(idle_max)
            // Only a request that came back whole from a kept connection, which was closed before it was written.
            .retry_canceled_requests(true)
            .timer(TokioTimer::new())
            .http2_keep_alive_interval(HTTP2_PING)
            .http2_keep_alive_timeout(HTTP2_PING)
            .build(connector);
        Self {
            connections,
            proxy_auth,
        }
    }

    /// Sends the request once.
    pub(super) async fn send(
        &self,
        outgoing: OutgoingRequest<'_>,
    ) -> Result<Response, ExchangeError> {
        let uri: Uri = outgoing.url.as_str().parse()?;
        let mut headers = outgoing.headers;
        headers.entry(USER_AGENT).or_insert(NAME);
        headers.entry(ACCEPT).or_insert(ANYTHING);
        if let (Some(auth), "http") = (&self.proxy_auth, outgoing.url.scheme()) {
            headers.insert(PROXY_AUTHORIZATION, auth.clone());
        }
        let mut request = Request::new(outgoing.body);
        *request.method_mut() = outgoing.method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        let answered = before(outgoing.deadline, self.connections.request(request)).await?;
        let (head, body) = answered?.into_parts();
        Ok(Response {
            status: head.status,
            headers: head.headers,
            body,
            deadline: outgoing.deadline,
        })
    }
}

/// A response whose head is there.
pub(super) struct Response {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    body: Incoming,
    deadline: Instant,
}

impl Response {
    /// The next bytes of the body; none at its end.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, ExchangeError> {
        loop {
            // A body whose next bytes are always there would hold its thread.
            consume_budget().await;
            let frame = before(self.deadline, self.body.frame()).await?;
            match frame.transpose()? {
                None => return Ok(None),
                Some(frame) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }
}

/// Awaits what has to be there by a deadline. The clock is looked at first: what is ready after it is late all the
/// same, and nothing begins after it.
async fn before<T>(
    deadline: Instant,
    awaited: impl Future<Output = T>,
) -> Result<T, ExchangeError> {
    if Instant::now() >= deadline {
        return Err(ExchangeError::TimedOut);
    }
    let in_time = timeout_at(deadline, awaited).await;
    in_time.map_err(|_| ExchangeError::TimedOut)
}
