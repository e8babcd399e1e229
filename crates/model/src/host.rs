//! Hosts that a secret may be sent to.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The most characters of a host.
const HOST_CHARS_MAX: usize = 253;

/// Why a text names no host.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a host is a name or an address without port and path, as api.example.com or *.example.com"
)]
pub struct HostError;

/// A host, or all hosts below a domain: `*.example.com`. The folder of a socket is one too.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostPattern(Box<str>);

impl HostPattern {
    /// The pattern as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a host is this one, or is below the domain.
    pub fn matches(&self, host: &str) -> bool {
        let host = normal(host);
        match self.0.strip_prefix('*') {
            // What is left begins with a dot, so that no other domain ends like it.
            Some(domain) => {
                !host.starts_with('/') && host.len() > domain.len() && host.ends_with(domain)
            }
            None => host == *self.0,
        }
    }
}

/// A host as it is compared: names do not tell capitals apart, and an address may stand in brackets.
fn normal(host: &str) -> String {
    if host.starts_with('/') {
        return host.to_owned();
    }
    let host = host.strip_prefix('[').unwrap_or(host);
    let host = host.strip_suffix(']').unwrap_or(host);
    let host = host.strip_suffix('.').unwrap_or(host);
    match host.parse::<IpAddr>() {
        Ok(address) => address.to_string(),
        Err(_) => host.to_ascii_lowercase(),
    }
}

impl FromStr for HostPattern {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        let host = normal(text);
        let name = host.strip_prefix("*.").unwrap_or(&host);
        let is_domain = name.len() == host.len() || name.contains('.');
        let may_have =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        // A port would stand behind the only colon; an address of version 6 has at least two.
        let is_address =
            name.bytes().filter(|byte| *byte == b':').count() > 1 && name.parse::<IpAddr>().is_ok();
        let is_folder = text.starts_with('/') && !text.chars().any(char::is_control);
        let is_name = !name.is_empty() && !name.starts_with('.') && name.bytes().all(may_have);
        let fits = host.len() <= HOST_CHARS_MAX;
        match fits && is_domain && (is_name || is_address || is_folder) {
            true => Ok(Self(host.into())),
            false => Err(HostError),
        }
    }
}

impl TryFrom<String> for HostPattern {
    type Error = HostError;

    fn try_from(text: String) -> Result<Self, HostError> {
        text.parse()
    }
}

impl From<HostPattern> for String {
    fn from(host: HostPattern) -> Self {
        host.0.into()
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> HostPattern {
        text.parse().unwrap()
    }

    #[test]
    fn a_host_is_compared_as_names_are() {
        let bank = pattern("API.Bank.example");
        assert!(bank.matches("api.bank.example."));
        assert!(!bank.matches("api.bank.example.evil.example"));
        assert!(!bank.matches("xapi.bank.example"));
        assert!(pattern("::1").matches("[::1]"));
        assert!(pattern("2001:DB8:0:0::1").matches("[2001:db8::1]"));
        assert!(pattern("/run/postgresql").matches("/run/postgresql"));
        assert!(!pattern("/run/postgresql").matches("/RUN/postgresql"));
    }

    #[test]
    fn a_domain_has_only_hosts_below_it() {
        let below = pattern("*.bank.example");
        assert!(below.matches("api.bank.example"));
        assert!(below.matches("a.b.bank.example"));
        assert!(!below.matches("bank.example"));
        assert!(!below.matches("evilbank.example"));
        assert!(!below.matches(".bank.example"));
        assert!(!below.matches("/tmp/x.bank.example"), "a folder is no host");
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for text in [
            "",
            "*",
            "*.",
            "*.com",
            "https://a.example",
            "a.example:443",
            "a.example/x",
            "a b",
            "a@b",
            "*.*.a",
            ".a.example",
            "a.\u{430}.example",
            "x\n",
        ] {
            assert!(text.parse::<HostPattern>().is_err(), "{text:?}");
        }
        assert!("x".repeat(254).parse::<HostPattern>().is_err());
    }
}
