//! The proxy that HTTP requests go through.

use std::fmt;
use std::str::FromStr;

use url::Url;

/// The address of a proxy, which may carry a password.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpProxy(pub(super) Url);

/// The text is not the address of a proxy.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is no address such as http://proxy.example:3128")]
pub struct ParseProxyError;

impl FromStr for HttpProxy {
    type Err = ParseProxyError;

    fn from_str(text: &str) -> Result<Self, ParseProxyError> {
        let url = Url::parse(text).map_err(|_| ParseProxyError)?;
        let known = matches!(url.scheme(), "http" | "https");
        (known && url.has_host())
            .then_some(Self(url))
            .ok_or(ParseProxyError)
    }
}

impl fmt::Debug for HttpProxy {
    /// Without its user and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.0.host_str().unwrap_or_default();
        write!(f, "HttpProxy({host})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_an_http_address_and_shows_no_password() {
        let proxy: HttpProxy = "http://me:hunter2@proxy.example:3128".parse().unwrap();

        assert_eq!(format!("{proxy:?}"), "HttpProxy(proxy.example)");
        for wrong in ["", "proxy.example:3128", "ftp://proxy.example", "http://"] {
            assert_eq!(wrong.parse::<HttpProxy>(), Err(ParseProxyError), "{wrong}");
        }
    }
}
