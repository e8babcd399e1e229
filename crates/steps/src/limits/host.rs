//! The host and port of an address, whose limits a request without a connection counts against.

use std::net::Ipv4Addr;

use url::Url;

/// The host and port of an address; nothing where the address is none. What is spelled plainly is
/// not parsed twice.
pub(crate) fn host_of(url: &str) -> Option<String> {
    if let Some(host) = plain_host(url) {
        return Some(host);
    }
    let url = Url::parse(url).ok()?;
    let port = url.port_or_known_default().unwrap_or_default();
    Some(format!("{}:{port}", url.host_str()?))
}

/// The same for an address that spells its host as a parser would write it.
fn plain_host(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let host = rest.split(['/', '?', '#']).next()?;
    let (name, port) = match host.split_once(':') {
        Some((name, port)) => (name, Some(port)),
        None => (host, None),
    };
    let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-');
    // A last part of digits may be another spelling of an address, and two hyphens of another script.
    let last = name.rsplit('.').next()?;
    let is_name = last.starts_with(|first: char| first.is_ascii_lowercase());
    let is_host = is_name || name.parse::<Ipv4Addr>().is_ok();
    if !is_host || name.contains("--") || !name.bytes().all(is_plain) {
        return None;
    }
    match (scheme, port) {
        (_, Some(port)) => {
            let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
            (is_port && !port.is_empty() && !port.starts_with('0')).then(|| host.to_owned())
        }
        ("https", None) => Some(format!("{name}:443")),
        ("http", None) => Some(format!("{name}:80")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_the_same_however_it_is_spelled() {
        let parsed = |text: &str| {
            let url = Url::parse(text).unwrap();
            let port = url.port_or_known_default().unwrap();
            format!("{}:{port}", url.host_str().unwrap())
        };

        for url in [
            "http://127.0.0.1:9/a",
            "http://127.1:9/a",
            "http://0x7f.0.0.1:9/",
            "http://0x7f000001:9/",
            "http://2130706433:9",
            "https://api.example.com/v1?a=b:c",
            "https://api.example.com:443/v1",
            "http://api.example.com#x",
            "https://API.example.com/v1",
            "https://u:p@api.example.com/v1",
            "https://xn--bcher-kva.example/x",
            "https://bücher.example:08/x",
            "http://a.example.:80/",
            "http://[::1]:80/",
            "http://a.0x1:1/",
        ] {
            match Url::parse(url) {
                Ok(_) => assert_eq!(host_of(url).as_deref(), Some(parsed(url).as_str()), "{url}"),
                Err(_) => assert_eq!(host_of(url), None, "{url}"),
            }
        }
        assert_eq!(host_of("nonsense"), None);
    }
}
