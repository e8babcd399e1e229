//! Where a request comes from, compared with the networks of its token.
//!
//! The address is the one at the other end of the connection, or the client's where that is a proxy that the
//! operator trusts (`forwarded.rs`). What a request says of itself is never believed otherwise.

use std::num::NonZeroU32;

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use prometheus_client::metrics::counter::Counter;
use semel_model::{Networks, SeededBug, TokenId};
use uuid::Uuid;

use crate::rate_limit::Peer;

/// How often the log says of one token that it is used from outside its networks, in a minute.
const LOGGED_BY_TOKEN: NonZeroU32 = NonZeroU32::new(1).unwrap();

/// Uses of tokens, and of their codes and sign-ins, from outside their networks. Each has the same answer
/// as an unknown one, so that only the count and the log say what it was.
pub(crate) struct OutsideUses {
    counted: Counter,
    /// By token. Only who has its secret gets as far as this, so there are few.
    logged: DefaultKeyedRateLimiter<Uuid>,
}

impl Default for OutsideUses {
    fn default() -> Self {
        Self {
            counted: Counter::default(),
            logged: RateLimiter::keyed(Quota::per_minute(LOGGED_BY_TOKEN)),
        }
    }
}

impl OutsideUses {
    /// How many there were.
    pub(crate) fn counter(&self) -> Counter {
        self.counted.clone()
    }
}

/// Compares where a request comes from with the networks of its token.
#[derive(Clone, Copy)]
pub(crate) struct PeerCheck<'a> {
    peer: Option<Peer>,
    outside: &'a OutsideUses,
}

impl<'a> PeerCheck<'a> {
    /// For a request from this address. One whose address is not known comes from no network.
    pub(crate) fn new(peer: Option<Peer>, outside: &'a OutsideUses) -> Self {
        Self { peer, outside }
    }

    /// The address.
    pub(crate) fn peer(&self) -> Option<Peer> {
        self.peer
    }

    /// Whether a token with these networks may be used.
    pub(crate) fn is_inside(&self, networks: &Networks) -> bool {
        networks.admit(self.peer.map(|peer| peer.0.ip()))
            || SeededBug::TokenNetworksIgnored.is_seeded()
    }

    /// Counts a use that was refused, and logs it now and then.
    pub(crate) fn note_outside(&self, token: TokenId, name: &str) {
        self.outside.counted.inc();
        if self.outside.logged.check_key(token.as_uuid()).is_ok() {
            let peer = self.peer.map(|peer| peer.0.ip().to_canonical().to_string());
            tracing::warn!(token.id = %token, name, peer, "a token was used from outside its networks");
        }
    }
}
