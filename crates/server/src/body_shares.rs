//! Shares of the memory for bodies by source: a body arrives before anybody knows who sends it, so one
//! address may hold an eighth of it, and not what the others need.
//!
//! A proxy on this machine connects from 127.0.0.1 or ::1 and brings the bodies of all clients: these two
//! are not counted. A proxy that is trusted says whose each request is. Addresses that find no place in
//! the table share one share, as with the limits of failures (`rate_limit::by_source`).

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use semel_engine::Budget;

use crate::body_budget::BodyBudget;
use crate::rate_limit::{Peer, neighbourhood};

/// How much memory is taken at a time at most.
pub(crate) const STEP_BYTES_MAX: usize = 16 * 1024;

/// Which part of the memory one address may hold.
const PART: usize = 8;

/// How many addresses have a share of their own.
const PLACES: usize = 10_000;

/// How often a full table is searched for idle addresses, at most: a search looks at every place.
const TIDIED_EVERY: Duration = Duration::from_secs(1);

/// The share of one source.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    /// For bodies while they arrive.
    pub(crate) arriving: Budget,
    /// For what they become when they are parsed.
    pub(crate) parsed: Budget,
}

/// The shares of all sources.
pub(crate) struct BodyShares {
    arriving_bytes: usize,
    parsed_bytes: usize,
    table: Mutex<Table>,
    /// For all addresses without a place.
    rest: Share,
}

#[derive(Default)]
struct Table {
    places: HashMap<IpAddr, Share>,
    tidied_at: Option<Instant>,
}

impl BodyShares {
    /// An eighth of the memory for each source; more where one body of the largest size needs it.
    pub(crate) fn new(budget: &BodyBudget, body_bytes_max: usize) -> Self {
        let part = |all: &Budget| all.even_share(PART).max(body_bytes_max + STEP_BYTES_MAX);
        let (arriving_bytes, parsed_bytes) = (part(&budget.arriving), part(&budget.parsed));
        Self {
            arriving_bytes,
            parsed_bytes,
            table: Mutex::default(),
            rest: Share::of_bytes(arriving_bytes, parsed_bytes),
        }
    }

    /// The share of a source; none where it is not counted.
    pub(crate) fn of(&self, peer: Option<Peer>) -> Option<Share> {
        let address = peer?.0.ip().to_canonical();
        if [
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::LOCALHOST),
        ]
        .contains(&address)
        {
            return None;
        }
        Some(self.of_address(neighbourhood(address), Instant::now()))
    }

    fn of_address(&self, address: IpAddr, now: Instant) -> Share {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = table.places.get(&address) {
            return share.clone();
        }
        if table.places.len() >= PLACES {
            table.tidy(now);
            if table.places.len() >= PLACES {
                return self.rest.clone();
            }
        }
        let share = Share::of_bytes(self.arriving_bytes, self.parsed_bytes);
        table.places.insert(address, share.clone());
        share
    }
}

impl Table {
    /// Frees the places of addresses that hold nothing.
    fn tidy(&mut self, now: Instant) {
        let is_soon = |at: Instant| now.saturating_duration_since(at) < TIDIED_EVERY;
        if self.tidied_at.is_some_and(is_soon) {
            return;
        }
        self.tidied_at = Some(now);
        self.places.retain(|_, share| !share.is_idle());
    }
}

impl Share {
    fn of_bytes(arriving: usize, parsed: usize) -> Self {
        Self {
            arriving: Budget::of_bytes(arriving),
            parsed: Budget::of_bytes(parsed),
        }
    }

    fn is_idle(&self) -> bool {
        self.arriving.is_whole() && self.parsed.is_whole()
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    const MIB: usize = 1 << 20;

    fn peer(address: &str) -> Option<Peer> {
        Some(Peer(SocketAddr::new(address.parse().unwrap(), 1)))
    }

    #[test]
    fn one_address_holds_an_eighth_and_the_others_have_theirs() {
        let shares = BodyShares::new(&BodyBudget::of_bytes(64 * MIB), MIB);
        let one = shares.of(peer("192.0.2.1")).unwrap();

        let held = one.arriving.try_take(4 * MIB);
        let again = shares.of(peer("192.0.2.1")).unwrap();
        let other = shares.of(peer("192.0.2.2")).unwrap();

        assert!(held.is_some());
        assert!(
            again.arriving.try_take(1).is_none(),
            "an eighth of half of 64 MiB"
        );
        assert!(again.parsed.try_take(1).is_some());
        assert!(other.arriving.try_take(4 * MIB).is_some());
    }

    #[test]
    fn a_body_of_the_largest_size_fits_into_every_share() {
        let shares = BodyShares::new(&BodyBudget::of_bytes(2 * MIB), MIB);

        let share = shares.of(peer("192.0.2.1")).unwrap();

        assert!(share.arriving.try_take(MIB).is_some());
    }

    #[test]
    fn a_proxy_on_this_machine_is_not_counted_and_a_network_counts_as_one() {
        let shares = BodyShares::new(&BodyBudget::of_bytes(64 * MIB), MIB);

        for local in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            assert!(shares.of(peer(local)).is_none(), "{local}");
        }
        assert!(shares.of(None).is_none());
        let held = shares.of(peer("2001:db8::1")).unwrap();
        let held = held.arriving.try_take(4 * MIB);
        let neighbour = shares.of(peer("2001:db8::2")).unwrap();
        assert!(held.is_some() && neighbour.arriving.try_take(1).is_none());
    }

    #[test]
    fn addresses_without_a_place_share_one_and_idle_ones_leave_theirs() {
        let shares = BodyShares::new(&BodyBudget::of_bytes(64 * MIB), MIB);
        let now = Instant::now();
        let of = |number: u32, now| {
            let address = IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number));
            shares.of_address(address, now)
        };
        let places = u32::try_from(PLACES).unwrap();
        let held: Vec<_> = (0..places)
            .map(|n| of(n, now).arriving.try_take(1))
            .collect();

        let beyond = of(places, now).arriving.try_take(4 * MIB);
        let another = of(places + 1, now).arriving.try_take(1);
        drop(held);
        let later = of(places + 2, now + TIDIED_EVERY);

        assert!(beyond.is_some() && another.is_none());
        assert!(later.arriving.try_take(4 * MIB).is_some());
        assert_eq!(shares.table.lock().unwrap().places.len(), 1);
    }
}
