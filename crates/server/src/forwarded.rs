//! The address of a client behind a proxy that the operator trusts.
//!
//! A request can say anything of where it comes from, so it is believed only where the connection itself
//! comes from a trusted proxy, and only as far as trusted proxies wrote it: the list is read from its end,
//! past the trusted ones, and the first other address is the client. What stands before that may be made up.
//!
//! One header is read, `X-Forwarded-For`: a proxy that writes one header passes others on as the client wrote
//! them, so that a second one would be believed where the first is lost. Where a trusted proxy brings none, or one that
//! cannot be read, the client is not known. It then counts as [`UNKNOWN`], which is in no network of a token; it never
//! counts as the proxy, whose address may open what the client's does not.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::http::{HeaderMap, HeaderName};
use semel_model::Networks;

/// What trusted proxies write.
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The address of a client that is not known.
const UNKNOWN: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Whether an address is that of a trusted proxy. Without any, none is.
pub(crate) fn is_trusted(trusted: &Networks, address: IpAddr) -> bool {
    !trusted.is_empty() && trusted.admit(Some(address))
}

/// Where a request comes from, whose connection is from `peer`.
pub(crate) fn client(trusted: &Networks, peer: SocketAddr, headers: &HeaderMap) -> SocketAddr {
    if !is_trusted(trusted, peer.ip()) {
        return peer;
    }
    let found = read(headers).and_then(|chain| first_untrusted(trusted, chain));
    SocketAddr::new(found.unwrap_or(UNKNOWN), 0)
}

/// What the header says, from all of its lines; nothing where it is not there or cannot be read.
fn read(headers: &HeaderMap) -> Option<Vec<Hop>> {
    let lines = headers.get_all(FORWARDED_FOR).iter();
    let lines: Option<Vec<&str>> = lines.map(|line| line.to_str().ok()).collect();
    let lines = lines.filter(|lines| !lines.is_empty())?.join(",");
    Some(lines.split(',').map(|hop| address(hop.trim())).collect())
}

/// The address of one hop, where it can be read.
type Hop = Option<IpAddr>;

/// From the end, the first hop that is no trusted proxy; the first of all where each is one. A hop that
/// cannot be read is where knowledge ends.
fn first_untrusted(trusted: &Networks, chain: Vec<Hop>) -> Hop {
    let mut last = None;
    for hop in chain.into_iter().rev() {
        let address = hop?.to_canonical();
        if !is_trusted(trusted, address) {
            return Some(address);
        }
        last = Some(address);
    }
    last
}

/// An address, with or without a port; one of IPv6 may stand in brackets.
fn address(text: &str) -> Hop {
    if let Some(rest) = text.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        let is_port = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
        let address = address.parse().ok().map(IpAddr::V6);
        return address.filter(|_| is_port);
    }
    match text.parse() {
        Ok(address) => Some(address),
        Err(_) => {
            let (address, port) = text.split_once(':')?;
            let address = address.parse().ok().map(IpAddr::V4);
            address.filter(|_| is_port(port))
        }
    }
}

fn is_port(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    /// A request through a proxy at 10.0.0.1, where 10.0.0.0/8 is trusted.
    fn seen(lines: &[(&'static str, &str)]) -> String {
        from("10.0.0.1", lines)
    }

    fn from(peer: &str, lines: &[(&'static str, &str)]) -> String {
        let trusted = ["10.0.0.0/8", "2001:db8:1::/48"];
        let trusted: Networks = trusted.iter().map(|it| it.parse().unwrap()).collect();
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            headers.append(*name, value);
        }
        let peer = SocketAddr::new(peer.parse().unwrap(), 4_711);
        client(&trusted, peer, &headers).ip().to_string()
    }

    const XFF: &str = "x-forwarded-for";
    const RFC: &str = "forwarded";

    #[test]
    fn the_last_address_that_is_no_trusted_proxy_is_the_client() {
        for (lines, client) in [
            (vec![(XFF, "192.0.2.7")], "192.0.2.7"),
            (vec![(XFF, "203.0.113.9, 192.0.2.7, 10.9.9.9")], "192.0.2.7"),
            (vec![(XFF, "203.0.113.9"), (XFF, "192.0.2.7")], "192.0.2.7"),
            (vec![(XFF, "192.0.2.7:5123")], "192.0.2.7"),
            (vec![(XFF, "::ffff:192.0.2.7")], "192.0.2.7"),
            (vec![(XFF, "[2001:db8:2::7]:443")], "2001:db8:2::7"),
            (vec![(XFF, "10.1.1.1, 10.2.2.2")], "10.1.1.1"),
            // What the client wrote in another header is not read.
            (vec![(RFC, "for=10.0.0.9"), (XFF, "192.0.2.7")], "192.0.2.7"),
        ] {
            assert_eq!(seen(&lines), client, "{lines:?}");
        }
    }

    #[test]
    fn who_is_no_trusted_proxy_is_not_believed() {
        for lines in [
            vec![(XFF, "10.0.0.9")],
            vec![(RFC, "for=10.0.0.9")],
            vec![(RFC, "for=10.0.0.9"), (XFF, "10.0.0.9")],
        ] {
            assert_eq!(from("192.0.2.66", &lines), "192.0.2.66", "{lines:?}");
            assert_eq!(
                from("2001:db8:2::66", &lines),
                "2001:db8:2::66",
                "{lines:?}"
            );
        }
        let mapped = from("::ffff:10.0.0.1", &[(XFF, "192.0.2.7")]);
        assert_eq!(mapped, "192.0.2.7", "a proxy of IPv4 on a socket of IPv6");
    }

    #[test]
    fn what_cannot_be_read_is_unknown_and_never_the_proxy() {
        for lines in [
            vec![(XFF, "")],
            vec![(XFF, "unknown")],
            vec![(XFF, "10.0.0.9,")],
            vec![(XFF, "192.0.2.7, _hidden")],
            vec![(XFF, "192.0.2.7 10.0.0.9")],
            vec![(XFF, "0300.0.2.7")],
            vec![(XFF, "192.0.2.7:x")],
            vec![(XFF, "10.0.0.9\u{e9}")],
            vec![],
            vec![(RFC, "for=192.0.2.7")],
        ] {
            assert_eq!(seen(&lines), "0.0.0.0", "{lines:?}");
        }
    }

    #[test]
    fn without_trusted_proxies_nothing_is_believed() {
        let mut headers = HeaderMap::new();
        headers.insert(XFF, HeaderValue::from_static("192.0.2.7"));
        let peer = SocketAddr::new("10.0.0.1".parse().unwrap(), 1);

        assert_eq!(client(&Networks::default(), peer, &headers), peer);
    }
}
