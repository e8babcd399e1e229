//! What a provider says of itself (OpenID Connect Discovery).

use semel_engine::BoundedClient;
use serde::Deserialize;
use url::Url;

use super::fetch::fetch_json;
use super::{OidcOptions, ProviderError, is_safe, shown};

/// An address of the provider.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Endpoint(pub(super) Url);

impl TryFrom<String> for Endpoint {
    type Error = url::ParseError;

    fn try_from(text: String) -> Result<Self, url::ParseError> {
        Url::parse(&text).map(Self)
    }
}

impl Endpoint {
    /// The address.
    pub(super) fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

/// What a provider says of itself.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Discovery {
    issuer: String,
    pub(super) authorization_endpoint: Endpoint,
    pub(super) token_endpoint: Endpoint,
    pub(super) jwks_uri: Endpoint,
    #[serde(default)]
    pub(super) userinfo_endpoint: Option<Endpoint>,
    #[serde(default)]
    pub(super) end_session_endpoint: Option<Endpoint>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    pub(super) authorization_response_iss_parameter_supported: bool,
}

impl Discovery {
    /// Whether the secret goes into the head, which is what holds where a provider says nothing.
    pub(super) fn takes_basic(&self) -> bool {
        let methods = self.token_endpoint_auth_methods_supported.as_ref();
        methods.is_none_or(|them| {
            let takes = |method: &str| them.iter().any(|it| it == method);
            takes("client_secret_basic") || !takes("client_secret_post")
        })
    }
}

/// Reads what the provider says of itself, and checks that it is about itself.
pub(super) async fn read(
    client: &BoundedClient,
    options: &OidcOptions,
) -> Result<Discovery, ProviderError> {
    let base = options.issuer.trim_end_matches('/');
    let url = format!("{base}/.well-known/openid-configuration");
    let found = fetch_json(client, &url, "configuration").await?;
    let unfit = |why: String| ProviderError::Unavailable(why);
    let found: Discovery = serde_json::from_value(found).map_err(|error| {
        unfit(format!(
            "the provider's configuration does not fit: {error}"
        ))
    })?;
    if found.issuer != options.issuer {
        let named = shown(&found.issuer, "");
        return Err(unfit(format!(
            "the provider calls itself `{named}`, and not `{}`",
            options.issuer
        )));
    }
    let places = [
        Some(&found.authorization_endpoint),
        Some(&found.token_endpoint),
        Some(&found.jwks_uri),
        found.userinfo_endpoint.as_ref(),
        found.end_session_endpoint.as_ref(),
    ];
    let local = options.is_local();
    let safe = places.into_iter().flatten().all(|it| is_safe(&it.0, local));
    match safe {
        true => Ok(found),
        false => Err(unfit(
            "the provider names an address without https".to_owned(),
        )),
    }
}
