//! What the suite must know about an executor and its destination.

use std::net::SocketAddr;

use anyhow::Result;
use semel_model::request::ExternalRequest;
use semel_model::{Guard, Span};
use semel_steps::Destination;
use semel_testkit::Proxy;

/// One executor, and a real server that it speaks to.
pub(crate) trait Subject: Sized {
    /// The kind of step.
    const KIND: &'static str;
    /// What the engine asks it for.
    const ASKED_FOR: AskedFor;
    /// What a second attempt under the same key comes to.
    const REPEAT: Repeat;

    /// Starts the server.
    async fn start() -> Result<Self>;

    /// Where the server listens.
    fn server(&self) -> SocketAddr;

    /// The server as a destination.
    fn destination(&self, at: At, wanted: Wanted) -> Result<Destination>;

    /// A request to it.
    fn request(&self, at: At, wanted: Wanted, timeout: Span) -> ExternalRequest;

    /// Has the answer to the next request wait at the proxy, where the server itself does not wait
    /// with it.
    fn hold_answer(&self, proxy: &Proxy);

    /// Lets the answer go.
    fn let_answer_go(&self, proxy: &Proxy) -> Result<()> {
        proxy.resume();
        Ok(())
    }

    /// How often the server did what it was asked.
    async fn effects(&self) -> Result<usize>;
}

/// What the engine asks an executor for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AskedFor {
    /// Effects, under this guard.
    Effects(Guard),
    /// Reads.
    Reads,
}

/// What a second attempt under the same key comes to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Repeat {
    /// The destination recognises the key: it happens once.
    Once,
    /// It happens again, for this reason.
    Again(&'static str),
}

/// How the server is to treat a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// It acts and answers.
    Done,
    /// It does not act and says so.
    Refused,
    /// It acts at once. Its answer comes seconds later, or waits until it is let go.
    Slow,
}

/// Where a destination is reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub(crate) address: SocketAddr,
    /// Whether what speaks HTTP is to shake hands first: with a server that does not answer, that
    /// comes before the first byte of a request. The other protocols begin with a greeting.
    pub(crate) encrypted: bool,
}

impl At {
    /// The address of a path, which begins with a slash.
    pub(crate) fn url(self, path: &str) -> String {
        let scheme = match self.encrypted {
            true => "https",
            false => "http",
        };
        format!("{scheme}://{}{path}", self.address)
    }
}
