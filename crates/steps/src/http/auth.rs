//! Authentication: a connection's credentials go to its own origin and nowhere else.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use semel_model::connection::{HttpAuth, HttpTarget, Target};
use semel_model::{Fault, SecretText};
use tokio::time::Instant;
use url::{Origin, Url};

use super::client::Client;
use super::head;
use super::token::{Held, TokenRequest, Tokens};
use crate::destination::Destination;

/// What a request carries because of where it goes, and where that is.
#[derive(Default)]
pub(super) struct Signed {
    origin: Option<Origin>,
    headers: HeaderMap,
    /// The token that it carries, where it carries one.
    pub(super) token: Option<Held>,
}

impl Signed {
    /// Puts headers that the caller made on a request to a destination.
    pub(super) fn with(
        to: &Destination,
        url: &Url,
        headers: &[(HeaderName, SecretText)],
    ) -> Result<Self, Fault> {
        let mut signed = Self::to(to, url)?;
        for (name, secret) in headers {
            signed.add(name.clone(), secret.reveal(), to)?;
        }
        Ok(signed)
    }

    /// Authenticates as an HTTP connection says.
    pub(super) async fn in_to(
        to: &Destination,
        target: &HttpTarget,
        url: &Url,
        tokens: &Tokens,
        client: (&Client, Instant),
    ) -> Result<Self, Fault> {
        let mut signed = Self::to(to, url)?;
        for (name, value) in &target.headers {
            let (name, value) = head::read_header(name, value)?;
            signed.headers.append(name, value);
        }
        match &target.auth {
            HttpAuth::None | HttpAuth::Mtls { .. } => {}
            HttpAuth::Bearer { secret } => {
                let bearer = text(&["Bearer ", to.secret(secret)?.reveal()]);
                signed.add(AUTHORIZATION, bearer.reveal(), to)?;
            }
            HttpAuth::Basic { user, secret } => {
                let basic = basic(user, to.secret(secret)?.reveal());
                signed.add(AUTHORIZATION, basic.reveal(), to)?;
            }
            HttpAuth::Header {
                name,
                prefix,
                secret,
            } => {
                let (name, _) = head::read_header(name, "")?;
                let value = text(&[prefix, to.secret(secret)?.reveal()]);
                signed.add(name, value.reveal(), to)?;
            }
            HttpAuth::Oauth2 {
                token_url,
                client_id,
                secret,
                scope,
            } => {
                let asking = TokenRequest {
                    url: token_url,
                    id: client_id,
                    secret: to.secret(secret)?,
                    scope: scope.as_deref(),
                };
                let held = tokens.get(to, asking, client).await?;
                let bearer = text(&["Bearer ", held.text.reveal()]);
                signed.add(AUTHORIZATION, bearer.reveal(), to)?;
                signed.token = Some(held);
            }
        }
        Ok(signed)
    }

    /// Nothing yet, for a request that goes where the connection says.
    fn to(to: &Destination, url: &Url) -> Result<Self, Fault> {
        let base = base_url(to)?;
        let base = head::read_url(base).map_err(|fault| {
            let message = format!("the connection `{}`: {}", to.name, fault.message);
            Fault::permanent("connection-invalid", message)
        })?;
        if base.origin() != url.origin() {
            return Err(changed(to));
        }
        Ok(Self {
            origin: Some(base.origin()),
            ..Self::default()
        })
    }

    /// Whether an address is at the connection's own origin, or no connection says where that is.
    pub(super) fn is_at_home(&self, url: &Url) -> bool {
        let own = self.origin.as_ref();
        own.is_none_or(|origin| *origin == url.origin())
    }

    /// The headers of a request to an address: all of them at the connection's own origin, and at
    /// another (where a redirect may lead) those that open nothing.
    pub(super) fn headers(&self, url: &Url, asked: &HeaderMap) -> HeaderMap {
        if !self.is_at_home(url) {
            return head::without_credentials(asked);
        }
        let mut headers = asked.clone();
        for name in self.headers.keys() {
            headers.remove(name);
        }
        headers.extend(self.headers.clone());
        headers
    }

    fn add(&mut self, name: HeaderName, value: &str, to: &Destination) -> Result<(), Fault> {
        let mut value = HeaderValue::from_str(value).map_err(|_| {
            let message = format!(
                "a secret of the connection `{}` has characters that the header {name} cannot carry, such as a line break",
                to.name
            );
            Fault::permanent("secret-unfit", message)
        })?;
        value.set_sensitive(true);
        self.headers.insert(name, value);
        Ok(())
    }
}

/// `Basic` and what follows it.
pub(super) fn basic(user: &str, password: &str) -> SecretText {
    let pair = text(&[user, ":", password]);
    let encoded = SecretText::new(STANDARD.encode(pair.reveal()));
    text(&["Basic ", encoded.reveal()])
}

/// Pieces joined where they cannot be printed.
fn text(pieces: &[&str]) -> SecretText {
    SecretText::new(pieces.concat())
}

fn base_url(to: &Destination) -> Result<&str, Fault> {
    match &to.connection.to {
        Target::Http(http) => Ok(&http.base_url),
        Target::Slack(slack) => Ok(&slack.base_url),
        Target::Webhook(webhook) => Ok(&webhook.url),
        Target::Llm(llm) => Ok(&llm.base_url),
        Target::Postgres(_) | Target::Smtp(_) | Target::Ssh(_) => Err(to.unfit("http")),
    }
}

/// The request was pinned to an address at which the connection no longer is.
fn changed(to: &Destination) -> Fault {
    let message = format!(
        "the request was made for another address than the connection `{}` has now, so its credentials were not sent",
        to.name
    );
    Fault::permanent("connection-changed", message)
}
