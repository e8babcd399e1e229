//! The limits of a server.

use std::num::NonZeroU32;
use std::time::Duration;

use semel_engine::memory;
use semel_model::Networks;

use crate::body_budget::BodyBudget;
use crate::inspect::Inspector;
use crate::oidc::OidcOptions;

/// The limits of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The most bytes of a request's head.
    pub header_bytes_max: usize,
    /// The most bytes of a request's body.
    pub body_bytes_max: usize,
    /// How many genuine deliveries a second each hook takes, and twice as many at once; nothing is
    /// no limit.
    pub hook_rate: Option<NonZeroU32>,
    /// How long a body may take to arrive.
    pub body_patience: Duration,
    /// How long the next head on a connection may take to arrive.
    pub header_patience: Duration,
    /// How long a client may take nothing of a response that waits to be written; it is cut off then.
    pub write_patience: Duration,
    /// How long a delivery may take to be committed before its sender is told to come again.
    /// Below the ten seconds that common senders wait.
    pub accept_patience: Duration,
    /// How long a request may wait for a run's end.
    pub wait_max: Duration,
    /// How many connections are served at once; further ones wait to be accepted.
    pub connections_max: usize,
    /// How many of them one address may have, this machine aside; zero is no limit.
    pub connections_per_source: usize,
    /// The proxies that are believed when they say where a request comes from; none listed is none.
    pub trusted_proxies: Networks,
    /// How much memory bodies may take.
    pub body_budget: BodyBudget,
    /// Whether a release must have a passing rehearsal before it is promoted.
    pub require_rehearsal: bool,
    /// How often live releases are looked at that may have to be rehearsed again.
    pub prove_every: Duration,
    /// How long requests may take to finish once the server goes down.
    pub drain_patience: Duration,
    /// The identity provider that signs people in to the console.
    pub oidc: Option<OidcOptions>,
    /// Looks at every response, in tests.
    pub inspector: Option<Inspector>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            header_bytes_max: 16 * 1024,
            body_bytes_max: 1024 * 1024,
            hook_rate: NonZeroU32::new(50),
            body_patience: Duration::from_secs(10),
            header_patience: Duration::from_secs(10),
            write_patience: Duration::from_secs(30),
            accept_patience: Duration::from_secs(8),
            wait_max: Duration::from_secs(60),
            connections_max: 8192,
            connections_per_source: 2048,
            trusted_proxies: Networks::default(),
            body_budget: BodyBudget::quarter_of(memory::limit_bytes()),
            require_rehearsal: false,
            prove_every: Duration::from_secs(60),
            drain_patience: Duration::from_secs(15),
            oidc: None,
            inspector: None,
        }
    }
}
