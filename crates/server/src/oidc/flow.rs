//! A sign-in in progress: what the browser holds while it is at the provider.
//!
//! ```text
//! 256 random bits in a cookie ──┬──▶ state      goes to the provider and comes back in the address
//!                               ├──▶ nonce      comes back inside the signed identity
//!                               └──▶ verifier   goes to the provider with the code, and no other way
//! ```
//!
//! Each follows from the bits under a word of its own, so none leads to another. Only the browser that
//! has the cookie can end what it began, and the server remembers nothing.

use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::error::ApiError;

/// How long a browser may stay at the provider, in seconds.
pub(crate) const FLOW_SECS: u64 = 600;

/// The longest address to return to.
const BACK_BYTES_MAX: usize = 1024;

/// A sign-in in progress.
pub(crate) struct Flow {
    secret: [u8; 32],
    /// Whether the provider may show nothing: an earlier sign-in is renewed.
    pub(crate) is_quiet: bool,
    /// Where to return to. It comes from the browser, and is checked before it is used.
    pub(crate) back: String,
}

impl Flow {
    /// Begins one.
    pub(crate) fn begin(is_quiet: bool, back: &str) -> Result<Self, ApiError> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)
            .map_err(|_| ApiError::internal("the system gives no randomness"))?;
        let back = if back.len() > BACK_BYTES_MAX {
            ""
        } else {
            back
        };
        Ok(Self {
            secret,
            is_quiet,
            back: back.to_owned(),
        })
    }

    /// The same one, which leads elsewhere: two pages of a browser that are renewed at the same time
    /// must not keep ending each other.
    pub(crate) fn leading_to(self, back: &str) -> Self {
        let back = if back.len() > BACK_BYTES_MAX {
            ""
        } else {
            back
        };
        Self {
            back: back.to_owned(),
            ..self
        }
    }

    /// The cookie's value.
    pub(crate) fn to_cookie(&self) -> String {
        let secret = URL_SAFE_NO_PAD.encode(self.secret);
        let back = URL_SAFE_NO_PAD.encode(&self.back);
        let quiet = if self.is_quiet { "quiet" } else { "asked" };
        format!("{secret}.{quiet}.{back}")
    }

    /// The one that a browser has the cookie of.
    pub(crate) fn read(headers: &HeaderMap, cookie: &str) -> Option<Self> {
        let value = crate::auth::signed_in::read_cookie(headers, cookie)?;
        let mut parts = value.splitn(3, '.');
        let secret = URL_SAFE_NO_PAD
            .decode(parts.next()?)
            .ok()?
            .try_into()
            .ok()?;
        let is_quiet = parts.next()? == "quiet";
        let back = URL_SAFE_NO_PAD.decode(parts.next()?).ok()?;
        let back = String::from_utf8(back).ok()?;
        (back.len() <= BACK_BYTES_MAX).then_some(Self {
            secret,
            is_quiet,
            back,
        })
    }

    fn derive(&self, domain: &[u8]) -> String {
        let digest = Sha256::new_with_prefix(domain).chain_update(self.secret);
        URL_SAFE_NO_PAD.encode(digest.finalize())
    }

    /// What comes back in the address.
    pub(crate) fn state(&self) -> String {
        self.derive(b"semel.oidc.state.1")
    }

    /// Whether an address comes from this sign-in.
    pub(crate) fn owns_state(&self, state: &str) -> bool {
        self.state().as_bytes().ct_eq(state.as_bytes()).into()
    }

    /// What the identity carries.
    pub(crate) fn nonce(&self) -> String {
        self.derive(b"semel.oidc.nonce.1")
    }

    /// What proves to the provider that the code is asked for by who began.
    pub(crate) fn verifier(&self) -> String {
        self.derive(b"semel.oidc.verifier.1")
    }

    /// What the provider compares that with.
    pub(crate) fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(self.verifier()))
    }
}

#[cfg(test)]
mod tests {
    use axum::http::header::COOKIE;

    use super::*;

    #[test]
    fn a_sign_in_in_progress_reads_back_from_its_cookie() {
        let flow = Flow::begin(true, "/console/main/runs?q=a.b").unwrap();
        let mut headers = HeaderMap::new();
        let cookie = format!("c={}", flow.to_cookie());
        headers.insert(COOKIE, cookie.parse().unwrap());

        let read = Flow::read(&headers, "c").unwrap();

        assert!(read.owns_state(&flow.state()));
        assert_eq!((read.is_quiet, read.back), (true, flow.back.clone()));
        assert!(Flow::read(&headers, "d").is_none());
    }

    #[test]
    fn nothing_that_travels_leads_to_what_does_not() {
        let (one, other) = (
            Flow::begin(false, "").unwrap(),
            Flow::begin(false, "").unwrap(),
        );
        let parts = [one.state(), one.nonce(), one.verifier(), one.challenge()];

        for (at, part) in parts.iter().enumerate() {
            assert_eq!(part.len(), 43, "43 to 128 characters, as RFC 7636 says");
            assert!(!parts[at + 1..].contains(part));
        }
        assert!(!one.owns_state(&other.state()) && !one.owns_state(""));
        assert_eq!(Flow::begin(false, &"x".repeat(2_000)).unwrap().back, "");
    }
}
