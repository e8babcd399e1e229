//! The identity provider: its configuration, and the exchange of a code for an identity.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex as Short, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use jsonwebtoken::{Validation, decode, decode_header};
use semel_engine::BoundedClient;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{Mutex, Semaphore, SemaphorePermit};
use tokio::time::timeout;
use url::form_urlencoded;

use super::claims::{self, Claims, Identity, Logout};
use super::discovery::{self, Discovery, Endpoint};
use super::flow::Flow;
use super::keys::{self, Keys};
use super::{OidcOptions, ProviderError, shown};
use crate::crowd::{Crowd, Member};

/// How long the provider's configuration is used without asking again.
const KEPT_FOR: Duration = Duration::from_secs(3_600);

/// How long to rest after the configuration could not be read.
const REST: Duration = Duration::from_secs(5);

/// How many exchanges with the provider go on at once: each of them waits for a stranger.
const EXCHANGES_MAX: usize = 32;

/// How many of them one address has. This machine is not counted: a proxy on it brings everybody.
const EXCHANGES_EACH: usize = 4;

/// How many logout tokens are read at once. They have places of their own, so that who fills those of
/// sign-ins keeps nobody in.
const LOGOUTS_MAX: usize = 8;

/// How long to wait for a place.
const PLACE_PATIENCE: Duration = Duration::from_secs(5);

/// How long the provider may take to show that it answers.
const PROBE_PATIENCE: Duration = Duration::from_secs(3);

/// How long a provider that did not answer is left alone.
const DOWN_FOR: Duration = Duration::from_secs(30);

/// The longest token that is read.
const TOKEN_BYTES_MAX: usize = 64 * 1024;

/// What the token endpoint returns.
#[derive(Deserialize)]
struct Granted {
    id_token: String,
    #[serde(default)]
    access_token: Option<String>,
}

/// Why the token endpoint returns nothing.
#[derive(Default, Deserialize)]
struct Denied {
    #[serde(default)]
    error: String,
    #[serde(default)]
    error_description: String,
}

/// What came of reading the configuration, and when.
type LastRead = (Result<Arc<Discovery>, String>, Instant);

/// The identity provider.
pub(crate) struct Provider {
    options: OidcOptions,
    client: BoundedClient,
    found: Mutex<Option<LastRead>>,
    keys: Keys,
    places: Semaphore,
    crowd: Crowd,
    logouts: Semaphore,
    down_since: Short<Option<Instant>>,
}

/// A place for one exchange. Dropping it leaves.
pub(crate) struct ExchangePlace<'a> {
    _place: SemaphorePermit<'a>,
    _member: Option<Member>,
}

impl Provider {
    /// The provider that an operator configured. Nothing is asked of it yet.
    pub(crate) fn new(options: OidcOptions) -> Result<Self, String> {
        let client = BoundedClient::new(!options.is_local());
        Ok(Self {
            client: client.map_err(|error| error.to_string())?,
            options,
            found: Mutex::default(),
            keys: Keys::default(),
            places: Semaphore::new(EXCHANGES_MAX),
            crowd: Crowd::new(EXCHANGES_EACH),
            logouts: Semaphore::new(LOGOUTS_MAX),
            down_since: Short::default(),
        })
    }

    /// What people call it.
    pub(crate) fn name(&self) -> &str {
        &self.options.name
    }

    /// Who it is.
    pub(crate) fn issuer(&self) -> &str {
        &self.options.issuer
    }

    /// A place for one exchange: one address has few, and who finds none free waits for one.
    pub(crate) async fn enter(&self, peer: SocketAddr) -> Result<ExchangePlace<'_>, ProviderError> {
        let member = self.crowd.join(peer).ok_or_else(|| {
            let why = "too many people sign in from this address at this moment";
            ProviderError::Unavailable(why.to_owned())
        })?;
        Ok(ExchangePlace {
            _place: take_place(&self.places).await?,
            _member: Some(member),
        })
    }

    /// A place for reading a logout token.
    pub(crate) async fn enter_logout(&self) -> Result<ExchangePlace<'_>, ProviderError> {
        Ok(ExchangePlace {
            _place: take_place(&self.logouts).await?,
            _member: None,
        })
    }

    /// Whether the provider did not answer a moment ago. Sign-ins that still hold are not renewed then.
    pub(crate) fn is_down(&self) -> bool {
        let since = self.down_since.lock();
        let since = since.unwrap_or_else(PoisonError::into_inner);
        since.is_some_and(|since| since.elapsed() < DOWN_FOR)
    }

    /// Remembers that the provider does not answer.
    pub(crate) fn note_down(&self) {
        let since = self.down_since.lock();
        *since.unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether the provider answers. It is asked before a browser that is signed in is led there.
    pub(crate) async fn answers(&self) -> bool {
        if self.is_down() {
            return false;
        }
        let reading = discovery::read(&self.client, &self.options);
        let answers = matches!(timeout(PROBE_PATIENCE, reading).await, Ok(Ok(_)));
        if !answers {
            self.note_down();
        }
        answers
    }

    /// Reads everything that signing in needs, and says how many keys there are.
    pub(super) async fn look(&self) -> Result<usize, ProviderError> {
        let found = self.discover().await?;
        Ok(keys::read(&self.client, found.jwks_uri.as_str())
            .await?
            .len())
    }

    /// What the provider says of itself, from a while ago where that was not long.
    async fn discover(&self) -> Result<Arc<Discovery>, ProviderError> {
        let mut kept = self.found.lock().await;
        match &*kept {
            Some((Ok(found), at)) if at.elapsed() < KEPT_FOR => return Ok(found.clone()),
            Some((Err(why), at)) if at.elapsed() < REST => {
                return Err(ProviderError::Unavailable(why.clone()));
            }
            Some(_) | None => {}
        }
        let found = discovery::read(&self.client, &self.options).await;
        let found = found.map(Arc::new);
        *kept = Some((
            found.as_ref().map(Arc::clone).map_err(ToString::to_string),
            Instant::now(),
        ));
        found
    }

    /// Where a browser goes to sign in.
    pub(crate) async fn address(
        &self,
        flow: &Flow,
        redirect: &str,
    ) -> Result<String, ProviderError> {
        let mut url = self.discover().await?.authorization_endpoint.0.clone();
        let (state, nonce, challenge) = (flow.state(), flow.nonce(), flow.challenge());
        let mut query = url.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.options.client_id)
            .append_pair("redirect_uri", redirect)
            .append_pair("scope", &self.options.scopes)
            .append_pair("state", &state)
            .append_pair("nonce", &nonce)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        if flow.is_quiet {
            query.append_pair("prompt", "none");
        }
        drop(query);
        Ok(url.into())
    }

    /// Where a browser goes to sign out of the provider as well, where it has such a place.
    pub(crate) async fn leave_address(&self, back: &str) -> Option<String> {
        let mut url = self.discover().await.ok()?.end_session_endpoint.clone()?.0;
        url.query_pairs_mut()
            .append_pair("client_id", &self.options.client_id)
            .append_pair("post_logout_redirect_uri", back);
        Some(url.into())
    }

    /// Whether a response comes from this provider, as far as it says from which (RFC 9207).
    pub(crate) async fn check_sender(&self, issuer: Option<&str>) -> Result<(), ProviderError> {
        let says = self.discover().await?;
        let says = says.authorization_response_iss_parameter_supported;
        match issuer {
            Some(issuer) if issuer == self.options.issuer => Ok(()),
            None if !says => Ok(()),
            Some(_) | None => Err(ProviderError::Invalid(
                "the response is not from the configured issuer",
            )),
        }
    }

    /// Exchanges a code for the person that the provider means by it.
    pub(crate) async fn exchange(
        &self,
        code: &str,
        (flow, redirect): (&Flow, &str),
        now: Timestamp,
    ) -> Result<Identity, ProviderError> {
        let found = self.discover().await?;
        let granted = self.ask(&found, code, (flow, redirect)).await?;
        let mut claims = self.verify(&found, &granted.id_token).await?;
        let nonce = flow.nonce();
        let subject = claims::check_identity(&claims, &self.options, &nonce, now)?;
        let session = claims::session(&claims);
        if !claims.contains_key(&self.options.groups_claim)
            && let Some(endpoint) = &found.userinfo_endpoint
            && let Some(token) = &granted.access_token
        {
            self.complete(&mut claims, &subject, (endpoint, token))
                .await?;
        }
        let person = claims::describe(&claims, subject, &self.options);
        Ok(Identity { session, ..person })
    }

    /// Which sign-ins a logout token ends.
    pub(crate) async fn read_logout(
        &self,
        token: &str,
        now: Timestamp,
    ) -> Result<Logout, ProviderError> {
        let found = self.discover().await?;
        let claims = self.verify(&found, token).await?;
        claims::check_logout(&claims, &self.options, now)
    }

    async fn ask(
        &self,
        found: &Discovery,
        code: &str,
        (flow, redirect): (&Flow, &str),
    ) -> Result<Granted, ProviderError> {
        let (form, authorization) = self.request(found, code, (flow, redirect));
        let url = found.token_endpoint.as_str();
        let sent = self.client.post_form(url, authorization.as_deref(), form);
        let answer = sent.await.map_err(|error| {
            ProviderError::Unavailable(format!("the code could not be exchanged: {error}"))
        })?;
        if answer.status != 200 {
            let denied: Denied = serde_json::from_slice(&answer.body).unwrap_or_default();
            return Err(match denied.error.is_empty() {
                true => ProviderError::Unavailable(format!(
                    "the provider answers a code with status {}",
                    answer.status
                )),
                false => ProviderError::Refused(shown(&denied.error, &denied.error_description)),
            });
        }
        serde_json::from_slice(&answer.body)
            .map_err(|_| ProviderError::Invalid("the provider answers a code without an identity"))
    }

    /// The form that asks for an identity, and what goes into the head where the provider wants it there.
    fn request(
        &self,
        found: &Discovery,
        code: &str,
        (flow, redirect): (&Flow, &str),
    ) -> (String, Option<String>) {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code")
            .append_pair("code", code)
            .append_pair("redirect_uri", redirect)
            .append_pair("code_verifier", &flow.verifier());
        let id = &self.options.client_id;
        match &self.options.client_secret {
            Some(secret) if found.takes_basic() => {
                // A form writes a space as `+`, which not every provider reads back; all read `%20`.
                let quoted = |text: &str| {
                    let quoted: String = form_urlencoded::byte_serialize(text.as_bytes()).collect();
                    quoted.replace('+', "%20")
                };
                let pair = format!("{}:{}", quoted(id), quoted(secret.reveal()));
                let head = format!("Basic {}", STANDARD.encode(pair));
                return (form.finish(), Some(head));
            }
            Some(secret) => {
                form.append_pair("client_id", id)
                    .append_pair("client_secret", secret.reveal());
            }
            None => {
                form.append_pair("client_id", id);
            }
        }
        (form.finish(), None)
    }

    /// The claims of a token that the provider signed.
    async fn verify(&self, found: &Discovery, token: &str) -> Result<Claims, ProviderError> {
        let unreadable = || ProviderError::Invalid("the token cannot be read");
        if token.len() > TOKEN_BYTES_MAX {
            return Err(unreadable());
        }
        let header = decode_header(token).map_err(|_| unreadable())?;
        let place = (&self.client, found.jwks_uri.as_str());
        let key = self.keys.find(place, &header).await?;
        // Times, issuer and audience are checked in `claims`, by the database's clock.
        let mut validation = Validation::new(header.alg);
        validation.validate_exp = false;
        validation.validate_aud = false;
        validation.required_spec_claims.clear();
        match decode::<Claims>(token, &key, &validation) {
            Ok(verified) => Ok(verified.claims),
            Err(_) => Err(ProviderError::Invalid(
                "the token's signature is not the provider's",
            )),
        }
    }

    /// Adds what the provider says of the person only when it is asked with the access token.
    async fn complete(
        &self,
        claims: &mut Claims,
        subject: &str,
        (endpoint, token): (&Endpoint, &str),
    ) -> Result<(), ProviderError> {
        let answer = self.client.get(endpoint.as_str(), Some(token)).await;
        let answer = answer.map_err(|error| {
            ProviderError::Unavailable(format!("the person could not be asked for: {error}"))
        })?;
        let more: Option<Claims> = serde_json::from_slice(&answer.body).ok();
        let more = more.filter(|_| answer.status == 200).ok_or_else(|| {
            ProviderError::Unavailable(format!(
                "the provider says nothing of the person, with status {}",
                answer.status
            ))
        })?;
        if more.get("sub").and_then(Value::as_str) != Some(subject) {
            return Err(ProviderError::Invalid(
                "the provider speaks of another person",
            ));
        }
        for (name, value) in more {
            claims.entry(name).or_insert(value);
        }
        Ok(())
    }
}

async fn take_place(places: &Semaphore) -> Result<SemaphorePermit<'_>, ProviderError> {
    match timeout(PLACE_PATIENCE, places.acquire()).await {
        Ok(Ok(place)) => Ok(place),
        Ok(Err(_)) | Err(_) => Err(ProviderError::Unavailable(
            "too many people sign in at this moment".to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests;
