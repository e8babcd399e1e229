//! `http` and an API that honours idempotency keys.

use std::net::SocketAddr;

use anyhow::Result;
use semel_model::connection::HttpAuth;
use semel_model::request::{ExternalRequest, HttpRequest};
use semel_model::{Guard, Span};
use semel_steps::Destination;
use semel_testkit::{Peer, Proxy};

use crate::conformance::subject::{AskedFor, At, Repeat, Subject, Wanted};
use crate::http::stage::{destination, request, target};

pub(crate) struct Http {
    peer: Peer,
}

impl Subject for Http {
    const KIND: &'static str = "http";
    const ASKED_FOR: AskedFor = AskedFor::Effects(Guard::Key);
    const REPEAT: Repeat = Repeat::Once;

    async fn start() -> Result<Self> {
        let peer = Peer::start().await?;
        Ok(Self { peer })
    }

    fn server(&self) -> SocketAddr {
        self.peer.address()
    }

    fn destination(&self, at: At, _: Wanted) -> Result<Destination> {
        Ok(destination(target(&at.url(""), HttpAuth::None), &[]))
    }

    fn request(&self, at: At, wanted: Wanted, timeout: Span) -> ExternalRequest {
        let path = match wanted {
            Wanted::Done | Wanted::Slow => "/keyed/pay",
            Wanted::Refused => "/status/422/keyed/pay?refuse",
        };
        ExternalRequest::Http(HttpRequest {
            connection: Some("books".to_owned()),
            body: Some("{}".to_owned()),
            timeout,
            ..request("POST", &at.url(path))
        })
    }

    fn hold_answer(&self, proxy: &Proxy) {
        proxy.hold_answers();
    }

    async fn effects(&self) -> Result<usize> {
        Ok(usize::try_from(self.peer.totals().await?.effects)?)
    }
}
