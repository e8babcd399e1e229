//! The address of a client behind a proxy that the operator trusts.
//!
//! A request can say anything of where it comes from, so it is believed only where the connection itself
//! comes from a trusted proxy, and only as far as trusted proxies wrote it: the list is read from its end,
//! past the trusted ones, and the first other address is the client. What stands before that may be made up.
//!
//! Where a trusted proxy brings something that cannot be read, or two headers that disagree, the client is
//! not known. It then counts as [`UNKNOWN`], which is in no network of a token; it never counts as the proxy,
//! whose address may open what the client's does not.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use semel_model::Networks;

/// The header of RFC 7239.
const FORWARDED: HeaderName = HeaderName::from_static("forwarded");

/// The header that came before it.
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
    let standard = read(headers, &FORWARDED, elements);
    let older = read(headers, &FORWARDED_FOR, addresses);
    let found = match (standard, older) {
        // The proxy itself asks, or one that tells nothing.
        (None, None) => return peer,
        (Some(chain), None) | (None, Some(chain)) => first_untrusted(trusted, chain),
        (Some(one), Some(other)) => {
            let (one, other) = (
                first_untrusted(trusted, one),
                first_untrusted(trusted, other),
            );
            // A proxy that writes one of them passes the other on as the client wrote it.
            one.filter(|one| other == Some(*one))
        }
    };
    SocketAddr::new(found.unwrap_or(UNKNOWN), 0)
}

/// What a header says, from all of its lines; nothing where it is not there.
fn read(
    headers: &HeaderMap,
    name: &HeaderName,
    split: impl Fn(&str) -> Option<Vec<Hop>>,
) -> Option<Vec<Hop>> {
    let lines: Vec<&HeaderValue> = headers.get_all(name).iter().collect();
    if lines.is_empty() {
        return None;
    }
    let lines: Option<Vec<&str>> = lines.iter().map(|line| line.to_str().ok()).collect();
    let hops = lines.and_then(|lines| split(&lines.join(",")));
    // What cannot be read as a whole has no hop that can be told from the others.
    Some(hops.unwrap_or_else(|| vec![None]))
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

/// The addresses of `X-Forwarded-For`.
fn addresses(text: &str) -> Option<Vec<Hop>> {
    Some(text.split(',').map(|hop| address(hop.trim())).collect())
}

/// The elements of `Forwarded`, each with the address in its `for`.
fn elements(text: &str) -> Option<Vec<Hop>> {
    let elements = split_outside_quotes(text, ',')?;
    let elements = elements.iter().map(|element| {
        let mut found = None;
        for pair in split_outside_quotes(element, ';')? {
            let (name, value) = pair.split_once('=')?;
            if !name.trim().eq_ignore_ascii_case("for") {
                continue;
            }
            if found.replace(address(unquoted(value.trim())?)?).is_some() {
                return None;
            }
        }
        found
    });
    Some(elements.collect())
}

/// Splits at a sign that stands in no quotes. Nothing where quotes are not closed, or hold a sign that is
/// written with a backslash: no address has one.
fn split_outside_quotes(text: &str, at: char) -> Option<Vec<&str>> {
    let (mut parts, mut start, mut in_quotes) = (Vec::new(), 0, false);
    for (index, letter) in text.char_indices() {
        match letter {
            '\\' => return None,
            '"' => in_quotes = !in_quotes,
            letter if letter == at && !in_quotes => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    (!in_quotes).then_some(parts)
}

/// A value without its quotes, which stand around all of it or nowhere.
fn unquoted(value: &str) -> Option<&str> {
    let inner = match value.strip_prefix('"') {
        Some(rest) => rest.strip_suffix('"')?,
        None => value,
    };
    (!inner.contains('"')).then_some(inner)
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
            (
                vec![(RFC, "for=192.0.2.7;proto=https;by=10.0.0.1")],
                "192.0.2.7",
            ),
            (
                vec![(RFC, "For=\"[2001:db8:2::7]:443\", for=10.9.9.9")],
                "2001:db8:2::7",
            ),
            (
                vec![(RFC, "for=192.0.2.7"), (XFF, "192.0.2.7")],
                "192.0.2.7",
            ),
            (vec![], "10.0.0.1"),
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
            vec![(RFC, "for=10.0.0.9, for=\"")],
            vec![(RFC, "for=10.0.0.9;x=\", for=\"[2001:db8:2::7]\"")],
            vec![(RFC, "for=\"10.0.0.9\\\"\"")],
            vec![(RFC, "for=10.0.0.9;for=10.0.0.8")],
            vec![(RFC, "by=10.0.0.9")],
            vec![(RFC, "for")],
            // The proxy wrote one of the two, and the client the other.
            vec![(RFC, "for=10.0.0.9"), (XFF, "192.0.2.7")],
            vec![(RFC, "for=198.51.100.1"), (XFF, "192.0.2.7")],
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
