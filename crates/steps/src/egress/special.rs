//! Special addresses: those that mean something else than a host on the public internet.
//!
//! IPv4 is public unless a range says otherwise. IPv6 is the other way round: only `2000::/3` was
//! ever given out, so everything outside it is special without a list.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4 ranges of the IANA registry of special addresses, as address and prefix length.
const SPECIAL_V4: [(Ipv4Addr, u32); 17] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),          // this network
    (Ipv4Addr::new(10, 0, 0, 0), 8),         // private
    (Ipv4Addr::new(100, 64, 0, 0), 10),      // shared by carriers
    (Ipv4Addr::new(127, 0, 0, 0), 8),        // loopback
    (Ipv4Addr::new(168, 63, 129, 16), 32),   // a cloud's machine agent, outside every range
    (Ipv4Addr::new(169, 254, 0, 0), 16),     // link-local, and the metadata of clouds
    (Ipv4Addr::new(172, 16, 0, 0), 12),      // private
    (Ipv4Addr::new(192, 0, 0, 0), 24),       // protocol assignments
    (Ipv4Addr::new(192, 0, 2, 0), 24),       // documentation
    (Ipv4Addr::new(192, 88, 99, 0), 24),     // 6to4 relays
    (Ipv4Addr::new(192, 168, 0, 0), 16),     // private
    (Ipv4Addr::new(198, 18, 0, 0), 15),      // benchmarks
    (Ipv4Addr::new(198, 51, 100, 0), 24),    // documentation
    (Ipv4Addr::new(203, 0, 113, 0), 24),     // documentation
    (Ipv4Addr::new(224, 0, 0, 0), 4),        // multicast
    (Ipv4Addr::new(240, 0, 0, 0), 4),        // reserved
    (Ipv4Addr::new(255, 255, 255, 255), 32), // broadcast
];

/// What was given out of IPv6.
const GIVEN_OUT_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Special ranges within [`GIVEN_OUT_V6`].
const SPECIAL_V6: [(Ipv6Addr, u32); 4] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23), // protocols: Teredo, benchmarks, ORCHID
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32), // documentation
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16), // 6to4
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20), // documentation
];

/// Whether an address is anything but a host on the public internet.
pub(super) fn is_special(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => SPECIAL_V4.iter().any(|range| v4_in(v4, *range)),
        IpAddr::V6(v6) => {
            !v6_in(v6, GIVEN_OUT_V6) || SPECIAL_V6.iter().any(|range| v6_in(v6, *range))
        }
    }
}

/// The IPv4 address that an IPv6 address stands for, where it does: mapped, compatible, NAT64,
/// 6to4, Teredo.
pub(super) fn embedded(address: IpAddr) -> Option<IpAddr> {
    let IpAddr::V6(v6) = address else {
        return None;
    };
    let bits = v6.to_bits();
    let low = |bits: u128| Ipv4Addr::from_bits((bits & u128::from(u32::MAX)) as u32);
    let inside = match v6.segments() {
        // `::` and `::1` stand for themselves.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => return None,
        [0, 0, 0, 0, 0, 0 | 0xffff, _, _] | [0x64, 0xff9b, 0, 0, 0, 0, _, _] => low(bits),
        [0x64, 0xff9b, 1, ..] => low(bits),
        [0x2002, ..] => low(bits >> 80),
        [0x2001, 0, ..] => low(!bits),
        _ => return None,
    };
    Some(inside.into())
}

fn v4_in(address: Ipv4Addr, (net, prefix): (Ipv4Addr, u32)) -> bool {
    (address.to_bits() ^ net.to_bits()) >> (32 - prefix) == 0
}

fn v6_in(address: Ipv6Addr, (net, prefix): (Ipv6Addr, u32)) -> bool {
    (address.to_bits() ^ net.to_bits()) >> (128 - prefix) == 0
}
