//! Limits how many connections each address holds.
//!
//! One address must not hold all places. This machine itself is not counted: a local proxy brings
//! the requests of all clients. So does a proxy elsewhere: one that is trusted is not counted either, and
//! for others the limit is high and a setting.

use std::net::{IpAddr, SocketAddr};

use crate::places::{Place, Places};
use crate::rate_limit::neighbourhood;

/// Who is connected.
#[derive(Debug)]
pub(crate) struct Crowd {
    /// Nothing where there is no limit.
    places: Option<Places<IpAddr>>,
}

/// One connection's place in the crowd, where it is counted. Dropping it leaves.
#[derive(Debug)]
pub(crate) struct Member {
    _place: Option<Place<IpAddr>>,
}

impl Member {
    /// The place of a connection that is not counted.
    pub(crate) fn uncounted() -> Self {
        Self { _place: None }
    }
}

impl Crowd {
    /// Allows at most this many connections of one address; zero is no limit.
    pub(crate) fn new(most: usize) -> Self {
        let places = (most > 0).then(|| Places::new(usize::MAX, most));
        Self { places }
    }

    /// Admits a connection; nothing where its address has too many.
    pub(crate) fn join(&self, peer: SocketAddr) -> Option<Member> {
        let ip = peer.ip().to_canonical();
        let place = match &self.places {
            Some(places) if !ip.is_loopback() => Some(places.take(neighbourhood(ip))?),
            Some(_) | None => None,
        };
        Some(Member { _place: place })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: &str) -> SocketAddr {
        SocketAddr::new(address.parse().unwrap(), 1)
    }

    #[test]
    fn one_address_cannot_hold_every_place() {
        let crowd = Crowd::new(2);

        let (one, two) = (crowd.join(peer("192.0.2.1")), crowd.join(peer("192.0.2.1")));
        let three = crowd.join(peer("192.0.2.1"));
        let other = crowd.join(peer("192.0.2.2"));
        drop(one);
        let again = crowd.join(peer("192.0.2.1"));

        assert!(two.is_some() && other.is_some() && again.is_some());
        assert!(three.is_none());
    }

    #[test]
    fn this_machine_is_not_counted_and_zero_is_no_limit() {
        let (crowd, boundless) = (Crowd::new(1), Crowd::new(0));

        let local: Vec<_> = (0..9).map(|_| crowd.join(peer("127.0.0.1"))).collect();
        let far: Vec<_> = (0..9).map(|_| boundless.join(peer("192.0.2.1"))).collect();

        assert!(local.iter().chain(&far).all(Option::is_some));
    }
}
