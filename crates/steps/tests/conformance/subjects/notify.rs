//! `notify`, over each of its three kinds of connections.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result};
use semel_model::request::{ExternalRequest, Message};
use semel_model::{Guard, Span};
use semel_steps::Destination;
use semel_testkit::smtp::recipient;
use semel_testkit::{Peer, Proxy, Smtp};

use crate::conformance::subject::{AskedFor, At, Repeat, Subject, Wanted};
use crate::http::stage::Stage;
use crate::notify::world::{mail_to, message, slack, smtp, webhook};

pub(crate) struct Mail {
    server: Smtp,
}

pub(crate) struct Slack {
    stage: Stage,
}

pub(crate) struct Webhook {
    peer: Peer,
}

fn request(to: &str, timeout: Span) -> ExternalRequest {
    ExternalRequest::Notify(Message {
        timeout,
        ..message(&[to])
    })
}

impl Subject for Mail {
    const KIND: &'static str = "notify";
    const ASKED_FOR: AskedFor = AskedFor::Effects(Guard::Review);
    const REPEAT: Repeat =
        Repeat::Again("a mail server takes a second mail under the same `Message-ID`");

    async fn start() -> Result<Self> {
        let server = Smtp::start().await?;
        Ok(Self { server })
    }

    fn server(&self) -> SocketAddr {
        self.server.address()
    }

    fn destination(&self, at: At, _: Wanted) -> Result<Destination> {
        Ok(mail_to(smtp(at.address)))
    }

    fn request(&self, _: At, wanted: Wanted, timeout: Span) -> ExternalRequest {
        let to = match wanted {
            Wanted::Done => "ada@books.example",
            Wanted::Slow => recipient::SLOW,
            Wanted::Refused => recipient::REFUSED,
        };
        request(to, timeout)
    }

    /// The server itself takes its time.
    fn hold_answer(&self, _: &Proxy) {}

    async fn effects(&self) -> Result<usize> {
        Ok(self.server.mails()?.len())
    }
}

impl Subject for Slack {
    const KIND: &'static str = "notify";
    const ASKED_FOR: AskedFor = AskedFor::Effects(Guard::Review);
    const REPEAT: Repeat = Repeat::Again("Slack does not promise to recognise a `client_msg_id`");

    async fn start() -> Result<Self> {
        let stage = Stage::start().await?;
        Ok(Self { stage })
    }

    fn server(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.stage.port).into()
    }

    fn destination(&self, at: At, _: Wanted) -> Result<Destination> {
        Ok(slack(at.url("/api")))
    }

    fn request(&self, _: At, wanted: Wanted, timeout: Span) -> ExternalRequest {
        let to = match wanted {
            Wanted::Done | Wanted::Slow => "#orders",
            Wanted::Refused => "#refused",
        };
        request(to, timeout)
    }

    fn hold_answer(&self, proxy: &Proxy) {
        proxy.hold_answers();
    }

    async fn effects(&self) -> Result<usize> {
        let messages = self.stage.counts().await["messages"].as_u64();
        Ok(usize::try_from(messages.context("a count")?)?)
    }
}

impl Subject for Webhook {
    const KIND: &'static str = "notify";
    const ASKED_FOR: AskedFor = AskedFor::Effects(Guard::Review);
    const REPEAT: Repeat = Repeat::Once;

    async fn start() -> Result<Self> {
        let peer = Peer::start().await?;
        Ok(Self { peer })
    }

    fn server(&self) -> SocketAddr {
        self.peer.address()
    }

    fn destination(&self, at: At, wanted: Wanted) -> Result<Destination> {
        let path = match wanted {
            Wanted::Done | Wanted::Slow => "/keyed/in",
            Wanted::Refused => "/status/410/keyed/in?refuse",
        };
        Ok(webhook(at.url(path)))
    }

    fn request(&self, _: At, _: Wanted, timeout: Span) -> ExternalRequest {
        request("ops", timeout)
    }

    fn hold_answer(&self, proxy: &Proxy) {
        proxy.hold_answers();
    }

    async fn effects(&self) -> Result<usize> {
        Ok(usize::try_from(self.peer.totals().await?.effects)?)
    }
}
