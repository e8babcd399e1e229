//! `ssh` and OpenSSH: a plain command, and one that leaves a marker.

use std::net::SocketAddr;

use anyhow::Result;
use semel_model::request::{ExternalRequest, SshRequest};
use semel_model::{Guard, Span};
use semel_steps::Destination;
use semel_testkit::Proxy;

use crate::conformance::subject::{AskedFor, At, Repeat, Subject, Wanted};
use crate::ssh::world::{World, marked, request};

pub(crate) struct Ssh {
    world: World,
}

pub(crate) struct SshWithMarker(Ssh);

impl Ssh {
    fn command(&self, wanted: Wanted, timeout: Span) -> SshRequest {
        let command = match wanted {
            Wanted::Done => self.world.append(""),
            Wanted::Slow => self.world.append_and_wait(""),
            Wanted::Refused => request(&["sh", "-c", "exit 3"]),
        };
        SshRequest { timeout, ..command }
    }
}

impl Subject for Ssh {
    const KIND: &'static str = "ssh";
    const ASKED_FOR: AskedFor = AskedFor::Effects(Guard::Review);
    const REPEAT: Repeat = Repeat::Again("a command without a marker leaves nothing to recognise");

    async fn start() -> Result<Self> {
        let world = World::new().await?;
        Ok(Self { world })
    }

    fn server(&self) -> SocketAddr {
        self.world.server.address()
    }

    fn destination(&self, at: At, _: Wanted) -> Result<Destination> {
        self.world.destination_at(at.address)
    }

    fn request(&self, _: At, wanted: Wanted, timeout: Span) -> ExternalRequest {
        ExternalRequest::Ssh(self.command(wanted, timeout))
    }

    /// The command itself waits.
    fn hold_answer(&self, _: &Proxy) {}

    fn let_answer_go(&self, _: &Proxy) -> Result<()> {
        self.world.open_gate()
    }

    async fn effects(&self) -> Result<usize> {
        Ok(self.world.effects())
    }
}

impl Subject for SshWithMarker {
    const KIND: &'static str = "ssh";
    const ASKED_FOR: AskedFor = AskedFor::Effects(Guard::Probe);
    const REPEAT: Repeat = Repeat::Once;

    async fn start() -> Result<Self> {
        Ok(Self(Ssh::start().await?))
    }

    fn server(&self) -> SocketAddr {
        self.0.server()
    }

    fn destination(&self, at: At, wanted: Wanted) -> Result<Destination> {
        self.0.destination(at, wanted)
    }

    fn request(&self, _: At, wanted: Wanted, timeout: Span) -> ExternalRequest {
        ExternalRequest::Ssh(marked(self.0.command(wanted, timeout)))
    }

    fn hold_answer(&self, proxy: &Proxy) {
        self.0.hold_answer(proxy);
    }

    fn let_answer_go(&self, proxy: &Proxy) -> Result<()> {
        self.0.let_answer_go(proxy)
    }

    async fn effects(&self) -> Result<usize> {
        self.0.effects().await
    }
}
