//! Signing in through an identity provider: OpenID Connect's authorization code flow with PKCE.
//!
//! - `flow` is what a browser holds between leaving for the provider and coming back. The server keeps
//!   nothing of it.
//! - `discovery` is what the provider says of itself, and `provider` exchanges codes with it, within limits of time and size.
//! - `keys` are the provider's public keys, and `claims` what a token has to say to be believed.
//!
//! The pages that use it are in `console`, and what follows for people is in `semel_store::people`.

pub(crate) mod claims;
mod discovery;
mod fetch;
pub(crate) mod flow;
mod keys;
pub(crate) mod provider;

use std::fmt;

use semel_api::Code;
use semel_model::SecretText;
use url::{Host, Url};

use crate::error::ApiError;
pub(crate) use provider::Provider;

/// The claim that names a person's groups where an operator says no other.
pub const GROUPS_CLAIM: &str = "groups";

/// What is asked for where an operator says nothing else.
pub const SCOPES: &str = "openid profile";

/// The most characters of a provider's own words that are shown.
const SHOWN_CHARS_MAX: usize = 300;

/// Which identity provider signs people in, and how this server is known there.
#[derive(Clone)]
pub struct OidcOptions {
    /// The provider, exactly as it names itself.
    pub issuer: String,
    /// What the provider knows this server by.
    pub client_id: String,
    /// What this server proves that with; a client without a secret has only PKCE.
    pub client_secret: Option<SecretText>,
    /// The claim that names a person's groups.
    pub groups_claim: String,
    /// What is asked for, `openid` among it.
    pub scopes: String,
    /// What people call the provider.
    pub name: String,
}

/// Without the secret.
impl fmt::Debug for OidcOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("OidcOptions");
        shown.field("issuer", &self.issuer);
        shown
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
}

impl OidcOptions {
    /// A provider and what it knows this server by.
    ///
    /// # Errors
    ///
    /// Where the issuer is no https address, or http of this machine, or names more than a place.
    pub fn new(issuer: &str, client_id: &str) -> Result<Self, String> {
        let url =
            Url::parse(issuer).map_err(|error| format!("`{issuer}` is no address: {error}"))?;
        if !is_safe(&url, is_loopback(&url)) {
            return Err(format!(
                "`{issuer}` is neither an https address nor http of this machine"
            ));
        }
        let bare = url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
        if !bare || url.password().is_some() {
            return Err(format!("`{issuer}` has more than a host and a path"));
        }
        Ok(Self {
            issuer: issuer.to_owned(),
            client_id: client_id.to_owned(),
            client_secret: None,
            groups_claim: GROUPS_CLAIM.to_owned(),
            scopes: SCOPES.to_owned(),
            name: url.host_str().unwrap_or(issuer).to_owned(),
        })
    }

    /// Whether the provider is on this machine, and may be reached without encryption.
    fn is_local(&self) -> bool {
        Url::parse(&self.issuer).is_ok_and(|url| is_loopback(&url))
    }
}

/// Whether an address may be used: https, or http of this machine for a provider of this machine.
fn is_safe(url: &Url, local: bool) -> bool {
    url.scheme() == "https" || (local && url.scheme() == "http" && is_loopback(url))
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// Says in one sentence that a provider can be used, or what is wrong with it.
///
/// # Errors
///
/// Where its documents cannot be read or do not fit.
pub async fn check_provider(options: &OidcOptions) -> Result<String, String> {
    let provider = Provider::new(options.clone())?;
    let keys = provider.look().await.map_err(|error| error.to_string())?;
    Ok(format!("{} answers, with {keys} keys", options.issuer))
}

/// Why a provider's word does not let anybody in.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProviderError {
    /// It cannot be reached, or its documents do not fit.
    #[error("{0}")]
    Unavailable(String),
    /// It says no, in these words.
    #[error("{0}")]
    Refused(String),
    /// What it says cannot be believed.
    #[error("{0}")]
    Invalid(&'static str),
}

impl From<ProviderError> for ApiError {
    fn from(error: ProviderError) -> Self {
        let code = match &error {
            ProviderError::Unavailable(_) => Code::ProviderUnavailable,
            ProviderError::Refused(_) => Code::ProviderRefused,
            ProviderError::Invalid(_) => Code::IdentityInvalid,
        };
        tracing::warn!(code = code.as_str(), cause = %error, "a sign-in through the identity provider failed");
        Self::new(code, error.to_string())
    }
}

/// The provider's own words, cut, as one line.
pub(crate) fn shown(error: &str, description: &str) -> String {
    let text = match description.is_empty() {
        true => error.to_owned(),
        false => format!("{error}: {description}"),
    };
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    plain.take(SHOWN_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_is_reached_by_https_or_on_this_machine() {
        for good in [
            "https://id.example",
            "https://id.example/realms/main",
            "http://127.0.0.1:4000",
            "http://[::1]:4000/x",
            "http://localhost:4000",
        ] {
            assert!(OidcOptions::new(good, "semel").is_ok(), "{good}");
        }
        for bad in [
            "http://id.example",
            "ftp://id.example",
            "id.example",
            "https://id.example/?a=b",
            "https://id.example/#a",
            "https://me:hush@id.example",
            "http://localhost.evil.example",
        ] {
            assert!(OidcOptions::new(bad, "semel").is_err(), "{bad}");
        }
    }

    #[test]
    fn the_secret_is_not_printed() {
        let mut options = OidcOptions::new("https://id.example", "semel").unwrap();
        options.client_secret = Some(SecretText::new("hush".to_owned()));

        let printed = format!("{options:?}");

        assert!(!printed.contains("hush"), "{printed}");
    }

    #[test]
    fn the_words_of_a_provider_are_one_line_and_cut() {
        assert_eq!(shown("a\nb", ""), "a b");
        assert_eq!(
            shown("no", "x".repeat(1_000).as_str()).len(),
            SHOWN_CHARS_MAX
        );
    }
}
