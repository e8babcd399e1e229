//! Rate limits of requests from outside.
//!
//! Two things are counted. Verified deliveries, by hook, so that one source cannot use up the
//! capacity that all share. And deliveries that fail verification, by hook and by source address,
//! so that guessing does not flood the logs. Both are counted after the signature check: a verified
//! delivery is never refused because of unverified ones. A hook at its limit is refused before
//! another body is read.

mod by_source;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use semel_api::Code;
use semel_model::Span;

use self::by_source::BySource;
use crate::error::ApiError;

/// How many deliveries without a valid signature a hook answers as such within a minute.
const AUTH_FAILURES_BY_HOOK: NonZeroU32 = NonZeroU32::new(60).unwrap();

/// How many deliveries without a valid signature of one address are answered as such within a minute.
const AUTH_FAILURES_BY_SOURCE: u32 = 10;

/// The address of the client: of the connection, or as a trusted proxy says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// Recent requests, by hook and by address.
pub(crate) struct RateLimits {
    hooks: Option<DefaultKeyedRateLimiter<String>>,
    /// Until when hooks take nothing, because they are at their limit.
    exhausted: Mutex<HashMap<String, Instant>>,
    auth_failures_by_hook: DefaultKeyedRateLimiter<String>,
    auth_failures_by_source: BySource,
    clock: DefaultClock,
}

impl RateLimits {
    /// Limits each hook to this many deliveries a second, and twice as many in a burst; nothing is
    /// no limit.
    pub(crate) fn new(hook_rate: Option<NonZeroU32>) -> Self {
        let quota = |rate: NonZeroU32| {
            let burst = rate.saturating_add(rate.get());
            Quota::per_second(rate).allow_burst(burst)
        };
        Self {
            hooks: hook_rate.map(|rate| RateLimiter::keyed(quota(rate))),
            exhausted: Mutex::default(),
            auth_failures_by_hook: RateLimiter::keyed(Quota::per_minute(AUTH_FAILURES_BY_HOOK)),
            auth_failures_by_source: BySource::per_minute(AUTH_FAILURES_BY_SOURCE),
            clock: DefaultClock::default(),
        }
    }

    /// Admits a verified delivery, or says when to retry. The hook must exist: its counter is never
    /// removed.
    pub(crate) fn admit(&self, hook: &str) -> Result<(), ApiError> {
        let Some(hooks) = &self.hooks else {
            return Ok(());
        };
        match hooks.check_key(&hook.to_owned()) {
            Ok(()) => Ok(()),
            Err(until) => {
                let wait = until.wait_time_from(self.clock.now());
                let until = Instant::now() + wait;
                self.exhausted().insert(hook.to_owned(), until);
                Err(too_many(wait))
            }
        }
    }

    /// Whether a hook takes anything now, checked before a body is read. It uses up nothing: only a
    /// verified delivery does.
    pub(crate) fn admits_some(&self, hook: &str) -> Result<(), ApiError> {
        let mut exhausted = self.exhausted();
        let now = Instant::now();
        match exhausted.get(hook) {
            Some(until) if *until > now => Err(too_many(*until - now)),
            Some(_) => {
                exhausted.remove(hook);
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn exhausted(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.exhausted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to a delivery that fails verification. Past the limits it is a 429.
    pub(crate) fn refuse_auth_failure(&self, hook: &str, peer: Peer) -> ApiError {
        let by_hook = self.auth_failures_by_hook.check_key(&hook.to_owned());
        let by_hook = by_hook.map_err(|until| until.wait_time_from(self.clock.now()));
        match by_hook.err().max(self.count_source(peer).err()) {
            Some(wait) => too_many(wait),
            None => ApiError::plain(Code::SignatureInvalid),
        }
    }

    /// The answer to an unknown address, or to a token that does not work. A client that guesses gets a 429.
    pub(crate) fn refuse_unknown(&self, peer: Peer, code: Code) -> ApiError {
        match self.count_source(peer) {
            Err(wait) => too_many(wait),
            Ok(()) => ApiError::plain(code),
        }
    }

    fn count_source(&self, peer: Peer) -> Result<(), Duration> {
        self.auth_failures_by_source
            .check(neighbourhood(peer.0.ip()))
    }
}

fn too_many(wait: Duration) -> ApiError {
    let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    ApiError::plain(Code::TooManyRequests).retry_in(Span::from_millis(wait))
}

/// One sender's addresses as one: the owner of an IPv6 address usually has its whole /64.
pub(crate) fn neighbourhood(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: &str) -> Peer {
        Peer(SocketAddr::new(address.parse().unwrap(), 1))
    }

    fn code(refusal: &ApiError) -> Option<Code> {
        refusal.problem().code()
    }

    #[test]
    fn a_hook_has_its_burst_and_the_others_have_theirs() {
        let edge = RateLimits::new(NonZeroU32::new(1));

        let answers = [(); 3].map(|()| edge.admit("main/orders").is_ok());

        assert_eq!(answers, [true, true, false]);
        assert!(edge.admit("main/others").is_ok());
        let refusal = edge.admit("main/orders").unwrap_err();
        assert_eq!(code(&refusal), Some(Code::TooManyRequests));
        assert!(refusal.problem().retry_in.is_some());
    }

    #[test]
    fn no_limit_is_no_limit() {
        let edge = RateLimits::new(None);

        assert!((0..10_000).all(|_| edge.admit("main/orders").is_ok()));
    }

    #[test]
    fn one_address_runs_out_before_the_hook_does() {
        let edge = RateLimits::new(None);
        let ask = |from: &str| code(&edge.refuse_auth_failure("main/orders", peer(from)));

        let own: Vec<_> = (0..11).map(|_| ask("192.0.2.1")).collect();

        assert!(
            own[..10]
                .iter()
                .all(|code| *code == Some(Code::SignatureInvalid))
        );
        assert_eq!(own[10], Some(Code::TooManyRequests));
        assert_eq!(ask("192.0.2.2"), Some(Code::SignatureInvalid));
    }

    #[test]
    fn a_hook_runs_out_however_many_addresses_ask() {
        let edge = RateLimits::new(None);
        let ask =
            |n: u8| code(&edge.refuse_auth_failure("main/orders", peer(&format!("192.0.2.{n}"))));

        let asked: Vec<_> = (0..61).map(ask).collect();

        assert_eq!(asked[59], Some(Code::SignatureInvalid));
        assert_eq!(asked[60], Some(Code::TooManyRequests));
    }

    #[test]
    fn guessing_is_limited_however_many_addresses_ask() {
        let edge = RateLimits::new(None);
        let ask = |n: u32| {
            let ip = std::net::Ipv4Addr::from(0x0a00_0000 + n);
            let peer = Peer(SocketAddr::new(ip.into(), 1));
            code(&edge.refuse_unknown(peer, Code::WaitNotFound))
        };

        let limited = (0..20_000).filter(|n| ask(*n) == Some(Code::TooManyRequests));

        assert!(limited.count() > 9_000, "the table of addresses is full");
    }

    #[test]
    fn addresses_of_one_network_count_as_one() {
        let (one, other) = (peer("2001:db8::1"), peer("2001:db8::ffff:2"));

        assert_eq!(neighbourhood(one.0.ip()), neighbourhood(other.0.ip()));
        let mapped: IpAddr = "::ffff:192.0.2.1".parse().unwrap();
        assert_eq!(neighbourhood(mapped).to_string(), "192.0.2.1");
    }
}
