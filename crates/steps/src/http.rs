//! HTTP: one request, one outcome.
//!
//! What counts as *failed* is what is known not to have happened: no connection, nothing sent, or
//! a refusal by the destination (4xx). What counts as *in doubt*: bytes may have left and no final
//! answer came back, or a 5xx, behind which anything may have happened.
//!
//! ```text
//! gate ─▶ address checked ─▶ authenticated ─▶ gate ─▶ connect to a checked address ─▶ gate ─▶ pieces ─▶ answer
//! ```
//!
//! What stands before *pieces* sends nothing of the request, so whatever goes wrong there has
//! failed. Nothing here tries twice: a redirect and a next page are followed by reads alone.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use semel_model::connection::Target;
use semel_model::request::HttpRequest;
use semel_model::{Doubt, EffectId, Fault, FaultKind, Guard, Outcome, SecretText};
use tokio::time::Instant;
use url::Url;

use crate::destination::Destination;
use crate::executor::{Attempt, Executor, Route, Setup, not_offered};
use crate::gate::SendGate;
use crate::reach::Reach;
use crate::redact::Redactor;

mod answer;
mod auth;
mod body;
mod classify;
mod client;
mod clients;
mod connect;
mod head;
mod multipart;
mod pages;
mod redirect;
mod resolve;
mod send_state;
mod token;
mod unzip;

pub use clients::{Pooling, SetupError};
pub use token::Tokens;

use answer::{Answer, Room};
use auth::Signed;
use body::{Outgoing, Pieces};
use classify::describe;
use client::{Client, ExchangeError, OutgoingRequest};
use send_state::{SENDING, SendState};

/// The most bytes of an answer that are held in memory. What is longer is kept by reference.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;

/// The most redirects that a read follows, whatever its connection says.
const REDIRECTS_MAX: u8 = 3;

/// Makes HTTP calls.
#[derive(Clone)]
pub struct HttpExecutor {
    clients: Arc<clients::Clients>,
    gate: Arc<dyn SendGate>,
    reach: Reach,
}

/// One request on its way.
struct Sending<'a> {
    request: &'a HttpRequest,
    route: Route<'a>,
    key: Option<EffectId>,
    method: Method,
    url: Url,
    headers: HeaderMap,
    signed: Signed,
    client: Client,
    pooling: Pooling,
    deadline: Instant,
}

impl Executor for HttpExecutor {
    const KIND: &'static str = "http";
    type Request = HttpRequest;

    fn set_up(setup: &Setup) -> Self {
        setup.http.clone()
    }

    async fn perform(&self, attempt: Attempt<'_, HttpRequest>) -> Outcome {
        let pooling = match attempt.guard {
            Guard::Review | Guard::Probe => Pooling::Fresh,
            Guard::Transaction | Guard::Key | Guard::Natural | Guard::Repeat => Pooling::Shared,
        };
        let (request, route) = (attempt.request, attempt.route);
        self.send_request(request, route, Some(attempt.key), pooling)
            .await
    }

    async fn read(&self, route: Route<'_>, request: &HttpRequest) -> Outcome {
        self.send_request(request, route, None, Pooling::Shared)
            .await
    }

    async fn find_marker(&self, _: Route<'_>, _: &HttpRequest, _: EffectId) -> Outcome {
        not_offered(Self::KIND)
    }
}

impl HttpExecutor {
    /// A caller that sends only while the gate is open.
    ///
    /// # Errors
    ///
    /// If the system's TLS cannot be set up, or the proxy's address cannot be used.
    pub fn new(gate: Arc<dyn SendGate>, reach: &Reach) -> Result<Self, SetupError> {
        let clients = clients::Clients::new(gate.clone(), reach.egress.clone())?;
        Ok(Self {
            clients: Arc::new(clients),
            gate,
            reach: reach.clone(),
        })
    }

    /// Sends the request once, under the effect's key where it has one, authenticated as its
    /// connection says. Without a key it is a read, and may follow redirects and pages.
    pub async fn send_request(
        &self,
        request: &HttpRequest,
        route: Route<'_>,
        key: Option<EffectId>,
        pooling: Pooling,
    ) -> Outcome {
        if !self.gate.is_open() {
            return Outcome::Failed(lease_lost());
        }
        match self.prepare(request, route, key, pooling).await {
            Ok(sending) => self.exchange(&sending).await,
            Err(fault) => Outcome::Failed(fault),
        }
    }

    /// Sends the request once to a destination of any kind that speaks HTTP, with headers that the
    /// caller made of its secrets. They go to the destination's own origin alone.
    pub async fn send_signed(
        &self,
        request: &HttpRequest,
        to: &Destination,
        headers: &[(HeaderName, SecretText)],
        key: Option<EffectId>,
        pooling: Pooling,
    ) -> Outcome {
        if !self.gate.is_open() {
            return Outcome::Failed(lease_lost());
        }
        let route = Route {
            namespace_id: to.namespace_id,
            to: Some(to),
            origin: None,
        };
        let client = self
            .clients
            .usual(route.namespace_id, pooling, timeout_of(request, route));
        let sending = Sending::new(request, route, key, (client, pooling))
            .and_then(|sending| Signed::with(to, &sending.url, headers).map(|s| (sending, s)));
        match sending {
            Ok((sending, signed)) => self.exchange(&Sending { signed, ..sending }).await,
            Err(fault) => Outcome::Failed(fault),
        }
    }

    /// Everything that can be known before a byte of the request leaves.
    async fn prepare<'a>(
        &self,
        request: &'a HttpRequest,
        route: Route<'a>,
        key: Option<EffectId>,
        pooling: Pooling,
    ) -> Result<Sending<'a>, Fault> {
        let Some(to) = route.to else {
            if let Some(name) = &request.connection {
                route.destination(name)?;
            }
            let client =
                self.clients
                    .usual(route.namespace_id, pooling, timeout_of(request, route));
            return Sending::new(request, route, key, (client, pooling));
        };
        let Target::Http(target) = &to.connection.to else {
            return Err(to.unfit("http"));
        };
        let timeout = timeout_of(request, route);
        let client = self.clients.of(to, target, pooling, timeout)?;
        let sending = Sending::new(request, route, key, (client, pooling))?;
        // Before a token is fetched: what may not be reached is not worth one.
        self.check_address(&sending.url)?;
        let with = (&sending.client, sending.deadline);
        let signed = Signed::in_to(to, target, &sending.url, &self.reach.tokens, with).await?;
        Ok(Sending { signed, ..sending })
    }

    /// Makes the exchange, and takes the token that it sent out of what came back: the connection may
    /// have another by then, and knows none.
    async fn exchange(&self, sending: &Sending<'_>) -> Outcome {
        let outcome = self.gather(sending).await;
        match &sending.signed.token {
            Some(token) => token.redactor.redact(outcome),
            None => outcome,
        }
    }

    async fn gather(&self, sending: &Sending<'_>) -> Outcome {
        if let (Some(pages), None) = (&sending.request.pages, sending.key) {
            return pages::gather(self, sending, pages).await;
        }
        let store = (&*self.reach.resources, sending.route.namespace_id);
        let answer = self
            .follow(sending, &sending.url, ANSWER_BYTES_MAX, Some(store))
            .await;
        match answer {
            Ok(answer) => {
                let answers = &self.reach.answers;
                answer
                    .read_outcome(answers, sending.route.namespace_id)
                    .await
            }
            Err(outcome) => outcome,
        }
    }

    /// Sends to an address and, for reads, to where its answers lead.
    async fn follow(
        &self,
        sending: &Sending<'_>,
        first: &Url,
        memory_max: usize,
        store: Option<(&dyn crate::resources::ResourceStore, i32)>,
    ) -> Result<Answer, Outcome> {
        let redactor = sending.redactor();
        let room = Room {
            memory_max,
            store,
            may_repeat: sending.key.is_none(),
            redactor: &redactor,
        };
        let mut url = first.clone();
        for _ in 0..sending.redirects() {
            let answer = self.send(sending, &url, room).await?;
            match redirect::find(&url, &answer).map_err(Outcome::Failed)? {
                Some(next) => url = next,
                None => return Ok(answer),
            }
        }
        self.send(sending, &url, room).await
    }

    /// Sends once and reads the answer.
    async fn send(
        &self,
        sending: &Sending<'_>,
        url: &Url,
        room: Room<'_>,
    ) -> Result<Answer, Outcome> {
        self.check_address(url).map_err(Outcome::Failed)?;
        let request = sending.request;
        let content = body::Content::of(
            request,
            sending.key,
            &*self.reach.resources,
            sending.route.namespace_id,
        );
        let content = content.await.map_err(Outcome::Failed)?;
        let mut headers = sending.signed.headers(url, &sending.headers);
        if let Some(media_type) = &content.media_type
            && (!headers.contains_key(CONTENT_TYPE) || !request.parts.is_empty())
            && let Ok(media_type) = HeaderValue::from_str(media_type)
        {
            headers.insert(CONTENT_TYPE, media_type);
        }
        let port = url.port_or_known_default().unwrap_or_default();
        let sending_state = Arc::new(SendState::new(port, !content.is_empty(), sending.pooling));
        let subject = sending.key.map(|key| key.to_string()).unwrap_or_default();
        let (gate, state) = (self.gate.clone(), sending_state.clone());
        let body = Outgoing::Left(Pieces::new(content, gate, state, subject));
        let outgoing = OutgoingRequest {
            method: sending.method.clone(),
            url,
            headers,
            body,
            deadline: sending.deadline,
        };
        // Opening resources and fetching tokens takes time.
        if !self.gate.is_open() {
            return Err(Outcome::Failed(lease_lost()));
        }
        let client = match sending.signed.is_at_home(url) {
            true => sending.client.clone(),
            // The certificate of the connection and what it trusts besides stay at its origin, as its headers do.
            false => {
                let timeout = timeout_of(request, sending.route);
                let namespace_id = sending.route.namespace_id;
                self.clients.usual(namespace_id, sending.pooling, timeout)
            }
        };
        let exchange = client.send(outgoing);
        match SENDING.scope(sending_state.clone(), exchange).await {
            Ok(response) if response.status == StatusCode::UNAUTHORIZED => {
                let answer = Answer::read(response, room).await?;
                Err(self.unauthorized(sending, answer).await)
            }
            Ok(response) => Answer::read(response, room).await,
            Err(error) => Err(self.broken(&error, &sending_state)),
        }
    }

    /// What it means that there is no answer.
    fn broken(&self, error: &ExchangeError, sending_state: &SendState) -> Outcome {
        if let Some(fault) = classify::find_refusal(error) {
            return Outcome::Failed(fault.clone());
        }
        match error {
            ExchangeError::Address(_) => {
                return Outcome::Failed(Fault::permanent("bad-request", describe(error)));
            }
            ExchangeError::Exchange(broken) if broken.is_connect() => {
                return Outcome::Failed(Fault::passing("no-connection", describe(error)));
            }
            ExchangeError::Exchange(_) | ExchangeError::TimedOut | ExchangeError::Body(_) => {}
        }
        if classify::is_stranger(error) {
            return Outcome::Failed(Fault::permanent("sign-in-refused", describe(error)));
        }
        if sending_state.call_off() {
            return Outcome::Failed(match self.gate.is_open() {
                true => Fault::passing("no-connection", describe(error)),
                false => lease_lost(),
            });
        }
        // The request may have left before this broke: the outcome is unknown.
        Outcome::InDoubt(Doubt::new("no-answer", describe(error)))
    }

    /// A kept token may have been taken back: the next attempt fetches another. One that was
    /// fetched for this very request will not get better.
    async fn unauthorized(&self, sending: &Sending<'_>, answer: Answer) -> Outcome {
        let outcome = answer.outcome();
        let (Some(to), Some(token)) = (sending.route.to, &sending.signed.token) else {
            return outcome;
        };
        self.reach.tokens.forget(to, token).await;
        match outcome {
            Outcome::Failed(fault) if token.kept => Outcome::Failed(Fault {
                retryable: true,
                ..fault
            }),
            Outcome::Failed(_) | Outcome::Done(_) | Outcome::InDoubt(_) => outcome,
        }
    }

    /// Checks what stands in the address itself. Names are checked where they are resolved.
    fn check_address(&self, url: &Url) -> Result<(), Fault> {
        let host = url.host_str().unwrap_or_default();
        let port = url.port_or_known_default().unwrap_or_default();
        self.reach.egress.check_host(host, port).map(|_| ())
    }
}

impl<'a> Sending<'a> {
    fn new(
        request: &'a HttpRequest,
        route: Route<'a>,
        key: Option<EffectId>,
        (client, pooling): (Client, Pooling),
    ) -> Result<Self, Fault> {
        Ok(Self {
            request,
            route,
            key,
            method: head::read_method(request)?,
            url: head::read_url(&request.url)?,
            headers: head::read_headers(request, key)?,
            signed: Signed::default(),
            client,
            pooling,
            deadline: Instant::now() + timeout_of(request, route),
        })
    }

    /// Finds the credentials that it carries, and the other secrets of its connection.
    fn redactor(&self) -> Arc<Redactor> {
        match (&self.signed.token, self.route.to) {
            (Some(token), _) => token.redactor.clone(),
            (None, Some(to)) => to.redactor(),
            (None, None) => Arc::default(),
        }
    }

    /// How many redirects it may follow: none, unless it is a read whose connection says so.
    fn redirects(&self) -> u8 {
        let is_read = self.key.is_none() && matches!(self.method, Method::GET | Method::HEAD);
        match self.route.to.map(|to| &to.connection.to) {
            Some(Target::Http(target)) if is_read => target.redirects.min(REDIRECTS_MAX),
            Some(_) | None => 0,
        }
    }
}

/// How long an exchange may take: as its step says, and no longer than its connection says.
fn timeout_of(request: &HttpRequest, route: Route<'_>) -> Duration {
    let most = route.to.and_then(|to| to.connection.timeout);
    let timeout = most.map_or(request.timeout, |most| most.min(request.timeout));
    timeout.to_duration()
}

fn lease_lost() -> Fault {
    Fault::passing("lease-lost", "the lease ran out before sending").of(FaultKind::Ours)
}
