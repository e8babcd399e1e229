//! Counts requests by address, in a table that never grows beyond its places.
//!
//! Who has more addresses than the table has places must neither fill the memory nor escape the limit.
//! So an address that finds no place is counted together with all others that find none, and addresses
//! that have a place keep their own count. The limiter that counts the deliveries of a hook (`governor`) keeps every key that
//! it saw, which is for keys that we know.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How many addresses have a count of their own.
const PLACES: usize = 10_000;

/// How often a full table is searched for idle addresses, at most: a search looks at every place.
const TIDIED_EVERY: Duration = Duration::from_secs(1);

/// How many times as much as one address those without a place may ask, all together.
const SHARED: u32 = 30;

/// Requests of addresses, each limited to a burst that is given back within a minute.
pub(super) struct BySource {
    burst: u32,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    places: HashMap<IpAddr, Credit>,
    shared: Credit,
    tidied_at: Option<Instant>,
}

impl BySource {
    /// Admits this many requests of one address within a minute.
    pub(super) fn per_minute(burst: u32) -> Self {
        Self {
            burst,
            table: Mutex::default(),
        }
    }

    /// Counts a request that comes now. Past the limit, says when to retry.
    pub(super) fn check(&self, address: IpAddr) -> Result<(), Duration> {
        self.check_at(address, Instant::now())
    }

    fn check_at(&self, address: IpAddr, now: Instant) -> Result<(), Duration> {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        match table.place(address, now) {
            Some(own) => own.spend(self.burst, now),
            None => table.shared.spend(self.burst.saturating_mul(SHARED), now),
        }
    }
}

impl Table {
    /// The count of an address, where it has one or there is room for it.
    fn place(&mut self, address: IpAddr, now: Instant) -> Option<&mut Credit> {
        if !self.places.contains_key(&address) && self.places.len() >= PLACES {
            self.tidy(now);
            if self.places.len() >= PLACES {
                return None;
            }
        }
        Some(self.places.entry(address).or_default())
    }

    /// Frees the places of addresses that have their whole burst again.
    fn tidy(&mut self, now: Instant) {
        let is_soon = |at: Instant| now.saturating_duration_since(at) < TIDIED_EVERY;
        if self.tidied_at.is_some_and(is_soon) {
            return;
        }
        self.tidied_at = Some(now);
        self.places.retain(|_, credit| !credit.is_whole(now));
    }
}

/// What may still be asked, by when the whole burst is available again; none if it is now.
#[derive(Clone, Copy, Default)]
struct Credit {
    whole_at: Option<Instant>,
}

impl Credit {
    /// Uses up one of a burst, each of which comes back in its share of a minute.
    fn spend(&mut self, burst: u32, now: Instant) -> Result<(), Duration> {
        const MINUTE: Duration = Duration::from_secs(60);
        let one = MINUTE / burst.max(1);
        let whole_at = self.whole_at.map_or(now, |at| at.max(now)) + one;
        let owed = whole_at - now;
        // Shares are rounded down, so that all of a burst fits into the minute.
        if owed > MINUTE {
            return Err(owed - MINUTE);
        }
        self.whole_at = Some(whole_at);
        Ok(())
    }

    fn is_whole(&self, now: Instant) -> bool {
        self.whole_at.is_none_or(|at| at <= now)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(number: usize) -> IpAddr {
        let number = u32::try_from(number).unwrap();
        IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number))
    }

    /// Sources whose places are all taken, at this time.
    fn full(now: Instant) -> BySource {
        let sources = BySource::per_minute(10);
        assert!((0..PLACES).all(|n| sources.check_at(address(n), now).is_ok()));
        sources
    }

    fn admitted(sources: &BySource, addresses: impl Iterator<Item = usize>, now: Instant) -> usize {
        addresses
            .filter(|n| sources.check_at(address(*n), now).is_ok())
            .count()
    }

    #[test]
    fn an_address_has_its_burst_within_a_minute_and_is_told_when_to_retry() {
        let (sources, now) = (BySource::per_minute(10), Instant::now());

        assert_eq!(admitted(&sources, [7; 11].into_iter(), now), 10);
        let wait = sources.check_at(address(7), now).unwrap_err();
        assert_eq!(wait, Duration::from_secs(6));
        assert!(sources.check_at(address(7), now + wait).is_ok());
        assert!(sources.check_at(address(7), now + wait).is_err());
    }

    #[test]
    fn who_has_more_addresses_than_there_are_places_is_limited_all_the_same() {
        let now = Instant::now();
        let sources = full(now);

        let asked = admitted(&sources, PLACES..PLACES + 5_000, now);

        assert_eq!(asked, 300, "those without a place share one limit");
        assert_eq!(sources.table.lock().unwrap().places.len(), PLACES);
    }

    #[test]
    fn an_address_that_has_a_place_keeps_its_count_while_the_table_is_full() {
        let now = Instant::now();
        let sources = full(now);
        admitted(&sources, PLACES..PLACES + 5_000, now);

        assert_eq!(admitted(&sources, [3; 20].into_iter(), now), 9);
    }

    #[test]
    fn idle_addresses_leave_their_places_and_a_search_for_them_is_rare() {
        let now = Instant::now();
        let sources = full(now);
        let searched = || sources.table.lock().unwrap().tidied_at;
        let newcomer = |n: usize, at| sources.check_at(address(PLACES + n), at).is_ok();

        assert!(newcomer(1, now) && searched() == Some(now));
        let soon = now + TIDIED_EVERY / 2;
        assert!(newcomer(2, soon) && searched() == Some(now));
        let later = now + Duration::from_secs(6);
        assert!(newcomer(3, later) && searched() == Some(later));

        let places = sources.table.lock().unwrap().places.len();
        assert_eq!(places, 1, "all others had their burst again");
    }
}
