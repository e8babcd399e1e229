//! HTTP: one request, one outcome.
//!
//! What counts as *failed* is what is known not to have happened: no connection, nothing sent, or
//! a refusal by the destination (4xx). What counts as *in doubt*: bytes may have left and no final
//! answer came back, or a 5xx, behind which anything may have happened.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Body, Client, Method, Response, StatusCode};
use semel_model::request::HttpRequest;
use semel_model::{Doubt, EffectId, Fault, Outcome, Receipt, Span};
use serde_json::{Map, Value};

use crate::fault;
use crate::gate::SendGate;

mod body;
mod connect;

/// How long a connection may take to stand.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// How long an unused connection is kept. Shorter than the five seconds after which common servers
/// close theirs, so that a request rarely meets a connection that is being closed.
const IDLE_MAX: Duration = Duration::from_secs(4);

/// The most bytes of an answer that are kept.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Which connections a request may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// One that was used before: for what may be repeated.
    Shared,
    /// One of its own: a kept connection that closes at the wrong moment would leave a doubt that
    /// only a person can settle.
    Fresh,
}

/// The HTTP client could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("cannot set up the HTTP client")]
pub struct SetupError(#[from] reqwest::Error);

/// Makes HTTP calls.
#[derive(Clone)]
pub struct HttpCaller {
    shared: Client,
    fresh: Client,
    gate: Arc<dyn SendGate>,
}

impl HttpCaller {
    /// A caller that sends only while the gate is open.
    pub fn new(gate: Arc<dyn SendGate>) -> Result<Self, SetupError> {
        let build = |idle_max: usize| {
            Client::builder()
                .no_proxy()
                .redirect(reqwest::redirect::Policy::none())
                .retry(reqwest::retry::never())
                .connect_timeout(CONNECT_PATIENCE)
                .pool_idle_timeout(IDLE_MAX)
                .pool_max_idle_per_host(idle_max)
                .user_agent(concat!("semel/", env!("CARGO_PKG_VERSION")))
                .connector_layer(connect::GateLayer::new(gate.clone()))
                .build()
        };
        Ok(Self {
            shared: build(usize::MAX)?,
            fresh: build(0)?,
            gate,
        })
    }

    /// Sends the request once, under the effect's key where it has one.
    pub async fn perform(
        &self,
        request: &HttpRequest,
        key: Option<EffectId>,
        pooling: Pooling,
    ) -> Outcome {
        if !self.gate.is_open() {
            return Outcome::Failed(lease_lost());
        }
        let client = match pooling {
            Pooling::Shared => &self.shared,
            Pooling::Fresh => &self.fresh,
        };
        let (method, headers) = match read_head(request, key) {
            Ok(head) => head,
            Err(fault) => return Outcome::Failed(fault),
        };
        let mut call = client
            .request(method, &request.url)
            .headers(headers)
            .timeout(request.timeout.to_duration());
        let begun = Arc::new(AtomicBool::new(
            request.body.as_ref().is_none_or(String::is_empty),
        ));
        if let Some(body) = &request.body {
            let subject = key.map(|key| key.to_string()).unwrap_or_default();
            let pieces = body::Pieces::new(body, self.gate.clone(), begun.clone(), subject);
            call = call.body(Body::wrap(pieces));
        }
        match call.send().await {
            Ok(response) => read_answer(response).await,
            Err(error) if error.is_builder() => {
                Outcome::Failed(Fault::permanent("bad-request", describe(&error)))
            }
            Err(error) if error.is_connect() => {
                Outcome::Failed(Fault::passing("no-connection", describe(&error)))
            }
            // The gate closed before the first piece: the head is still in our hands, too.
            Err(_) if !begun.load(Ordering::Acquire) && !self.gate.is_open() => {
                Outcome::Failed(lease_lost())
            }
            // The request may have left before this broke: nobody can say that nothing happened.
            Err(error) => Outcome::InDoubt(Doubt::new("no-answer", describe(&error))),
        }
    }
}

fn lease_lost() -> Fault {
    Fault::passing("lease-lost", "the lease ran out before sending")
}

fn read_head(request: &HttpRequest, key: Option<EffectId>) -> Result<(Method, HeaderMap), Fault> {
    let refuse = |what: &str| Fault::permanent("bad-request", format!("{what} cannot be sent"));
    let method = Method::from_bytes(request.method.as_bytes())
        .map_err(|_| refuse(&format!("the method {:?}", request.method)))?;
    let mut headers = HeaderMap::with_capacity(request.headers.len() + 1);
    for (name, value) in &request.headers {
        let header = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| refuse(&format!("the header {name:?}")))?;
        let value = HeaderValue::from_str(value)
            .map_err(|_| refuse(&format!("the value of the header {name:?}")))?;
        headers.append(header, value);
    }
    // The effect's key goes out on every call that can carry it, whatever the guard.
    if let Some(key) = key
        && !headers.contains_key("idempotency-key")
        && let Ok(value) = HeaderValue::from_str(&key.to_string())
    {
        headers.insert("idempotency-key", value);
    }
    Ok((method, headers))
}

async fn read_answer(response: Response) -> Outcome {
    let status = response.status();
    let retry_after = read_retry_after(response.headers());
    let headers = read_headers(response.headers());
    let body = match read_body(response).await {
        Ok(body) => body,
        Err(error) if status.is_success() => {
            let message = format!("{status}, but the answer broke off: {}", describe(&error));
            return Outcome::InDoubt(Doubt::new("answer-broken", message));
        }
        Err(_) => Bytes::new(),
    };
    fault::point("answer.read", "").await;
    let code = format!("http-{}", status.as_u16());
    match Meaning::of(status) {
        Meaning::Done => Outcome::Done(Receipt::new(
            describe_response(status, headers, &body),
            Some(status.as_u16()),
        )),
        Meaning::Refused { retryable } => Outcome::Failed(Fault {
            code,
            message: excerpt(status, &body),
            retryable,
            retry_after,
        }),
        Meaning::Unclear => Outcome::InDoubt(Doubt {
            code,
            message: excerpt(status, &body),
            retry_after,
        }),
    }
}

/// What a status says about whether the effect happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Done,
    Refused { retryable: bool },
    Unclear,
}

impl Meaning {
    fn of(status: StatusCode) -> Self {
        match status.as_u16() {
            // "See other" answers a request that was carried out; "not modified" one that need not be.
            200..=299 | 303 | 304 => Self::Done,
            301 | 307 | 308 => Self::Refused { retryable: false },
            408 | 425 | 429 => Self::Refused { retryable: true },
            400..=499 => Self::Refused { retryable: false },
            _ => Self::Unclear,
        }
    }
}

fn read_retry_after(headers: &HeaderMap) -> Option<Span> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Span::from_secs)
}

fn read_headers(headers: &HeaderMap) -> Value {
    let mut map = Map::new();
    for (name, value) in headers {
        if name != "set-cookie"
            && let Ok(text) = value.to_str()
        {
            map.insert(name.as_str().to_owned(), Value::String(text.to_owned()));
        }
    }
    Value::Object(map)
}

async fn read_body(mut response: Response) -> Result<Bytes, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        let room = ANSWER_BYTES_MAX.saturating_sub(body.len());
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            break;
        }
    }
    Ok(body.into())
}

/// The answer as expressions see it.
fn describe_response(status: StatusCode, headers: Value, body: &[u8]) -> Value {
    let mut response = Map::new();
    response.insert("status".to_owned(), status.as_u16().into());
    response.insert("headers".to_owned(), headers);
    response.insert(
        "json".to_owned(),
        serde_json::from_slice(body).unwrap_or_default(),
    );
    response.insert("text".to_owned(), String::from_utf8_lossy(body).into());
    Value::Object(response)
}

fn excerpt(status: StatusCode, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(300)]);
    let text = text.trim();
    if text.is_empty() {
        status.to_string()
    } else {
        format!("{status}: {text}")
    }
}

/// The error and its causes, without the address: it may carry secrets in its query.
fn describe(error: &reqwest::Error) -> String {
    let mut text = String::new();
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(error);
    while let Some(error) = cause {
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&error.to_string());
        cause = error.source();
    }
    match text.as_str() {
        "" if error.is_timeout() => "no answer in time".to_owned(),
        "" => "the exchange broke off".to_owned(),
        _ => text,
    }
}
