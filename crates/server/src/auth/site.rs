//! Where a browser reaches the console: what its cookie is called, and where its forms come from.
//!
//! The host is checked on every request. A name that somebody else controls and that leads to this
//! machine would otherwise be the console's own origin to a browser.

use std::net::IpAddr;

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName};
use semel_api::Code;
use url::Url;

use crate::error::ApiError;

/// What a browser says about the page that a request comes from.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What a browser says about what it will do with a response.
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// Says that a page asks by itself, and that no person did something.
const BY_ITSELF: HeaderName = HeaderName::from_static("semel-live");

/// The origin of the console, as a request reaches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    origin: String,
    secure: bool,
}

impl Site {
    /// The origin that a request reaches: the installation's own address if that is https, and otherwise
    /// this machine by its own names.
    pub(crate) fn of(headers: &HeaderMap, public_url: &str) -> Result<Self, ApiError> {
        let host = read(headers, &HOST)
            .unwrap_or_default()
            .to_ascii_lowercase();
        let own = Url::parse(public_url).ok();
        let own = own.filter(|url| url.scheme() == "https" && authority(url) == host);
        match own {
            Some(url) => Ok(Self {
                origin: url.origin().ascii_serialization(),
                secure: true,
            }),
            // Behind https, this machine's own name means a proxy that does not pass the host on.
            None if is_this_machine(&host) && !public_url.starts_with("https://") => Ok(Self {
                origin: format!("http://{host}"),
                secure: false,
            }),
            None => Err(ApiError::plain(Code::ConsoleAddress)),
        }
    }

    /// The origin itself.
    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    /// Whether browsers reach it over https only.
    pub(crate) fn is_secure(&self) -> bool {
        self.secure
    }

    /// The cookie's name. Browsers tie `__Host-` to https and to this host alone.
    pub(crate) fn cookie_name(&self) -> &'static str {
        match self.secure {
            true => "__Host-semel",
            false => "semel_dev",
        }
    }

    /// The name of the cookie of a browser that is at the identity provider.
    pub(crate) fn flow_cookie_name(&self) -> &'static str {
        match self.secure {
            true => "__Host-semel-oidc",
            false => "semel_dev_oidc",
        }
    }

    /// Sets the cookie, or removes it where it lasts for no time.
    pub(crate) fn cookie(&self, value: &str, seconds: u64) -> String {
        self.set(self.cookie_name(), value, seconds)
    }

    /// Sets the cookie of a browser that goes to the identity provider, or removes it.
    pub(crate) fn flow_cookie(&self, value: &str, seconds: u64) -> String {
        self.set(self.flow_cookie_name(), value, seconds)
    }

    /// Lax: it comes along when the provider sends the browser back, and on no request of another site.
    fn set(&self, name: &str, value: &str, seconds: u64) -> String {
        let secure = if self.secure { "; Secure" } else { "" };
        format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}")
    }

    /// Refuses a form that comes from another origin, or from who does not say where it comes from.
    ///
    /// Our pages send no referrer, and browsers then name no origin either (`null`): what such a
    /// browser says of the site counts.
    pub(crate) fn check_form(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let site = read(headers, &FETCH_SITE).map(|site| site == "same-origin");
        let origin = read(headers, &ORIGIN);
        let unnamed = site == Some(true) && origin == Some("null");
        let origin = origin.filter(|_| !unnamed);
        let origin = origin.map(|origin| origin == self.origin);
        match (site, origin) {
            (Some(true), Some(true) | None) | (None, Some(true)) => Ok(()),
            (Some(false), _) | (_, Some(false)) | (None, None) => {
                Err(ApiError::plain(Code::FormRefused))
            }
        }
    }
}

/// Whether an address was opened by itself, from the command line or a bookmark, and not by a link.
pub(crate) fn is_typed(headers: &HeaderMap) -> bool {
    read(headers, &FETCH_SITE).is_none_or(|site| site == "none")
}

/// Whether a request comes from a page of this origin, or was typed. Other sites' pages lead nobody to
/// the identity provider: they could end or change a sign-in by a link.
pub(crate) fn is_own(headers: &HeaderMap) -> bool {
    read(headers, &FETCH_SITE).is_none_or(|site| site == "same-origin" || site == "none")
}

/// Whether a browser would show what it asks for as a page: it can be led elsewhere and back.
pub(crate) fn is_page(headers: &HeaderMap) -> bool {
    read(headers, &FETCH_DEST).is_none_or(|dest| dest == "document")
}

/// Whether a page asks by itself, and no person did something. Who says so without need only has a sign-in
/// that ends earlier.
pub(crate) fn is_by_itself(headers: &HeaderMap) -> bool {
    headers.contains_key(&BY_ITSELF)
}

fn read<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// The host of an address, with the port that a browser would name.
fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

fn is_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.chars().all(|c| c.is_ascii_digit()) => name,
        Some(_) | None => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    let address = address.parse::<IpAddr>();
    name == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn the_console_is_at_its_own_https_address_and_on_this_machine() {
        let own = "https://semel.example";
        let site = |host: &str, url: &str| Site::of(&headers(&[("host", host)]), url).ok();

        assert!(site("semel.example", own).unwrap().secure);
        for host in ["127.0.0.1:7171", "[::1]:7171", "localhost", "127.8.8.8"] {
            let here = site(host, "http://semel.example").unwrap();
            assert_eq!((here.secure, here.cookie_name()), (false, "semel_dev"));
            assert_eq!(site(host, own), None, "behind https: {host}");
        }
        for host in [
            "evil.example",
            "semel.example:8080",
            "localhost.evil.example",
            "",
        ] {
            assert_eq!(site(host, own), None, "{host}");
        }
        assert_eq!(site("semel.example", "http://semel.example"), None);
    }

    #[test]
    fn the_cookie_of_an_https_console_goes_to_this_host_alone_and_to_no_script() {
        let own = "https://semel.example";
        let site = Site::of(&headers(&[("host", "semel.example")]), own).unwrap();

        assert_eq!(
            site.cookie("v", 60),
            "__Host-semel=v; Path=/; Max-Age=60; HttpOnly; SameSite=Lax; Secure"
        );
    }

    #[test]
    fn a_form_comes_from_this_origin_or_is_refused() {
        let site = Site::of(&headers(&[("host", "127.0.0.1:1")]), "http://127.0.0.1:1").unwrap();
        let own = ("origin", "http://127.0.0.1:1");
        let (same, cross) = (
            ("sec-fetch-site", "same-origin"),
            ("sec-fetch-site", "cross-site"),
        );
        let foreign = ("origin", "http://127.0.0.1:2");

        let opaque = ("origin", "null");
        for taken in [vec![same], vec![own], vec![same, own], vec![same, opaque]] {
            assert!(site.check_form(&headers(&taken)).is_ok(), "{taken:?}");
        }
        let none = ("sec-fetch-site", "none");
        for refused in [
            vec![],
            vec![cross],
            vec![foreign],
            vec![same, foreign],
            vec![cross, own],
            vec![none],
            vec![opaque],
            vec![cross, opaque],
        ] {
            assert!(site.check_form(&headers(&refused)).is_err(), "{refused:?}");
        }
    }
}
