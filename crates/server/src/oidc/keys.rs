//! The provider's public keys.
//!
//! They are kept for an hour. A token that names a key which is not among them has them read again, at
//! most once a minute: a provider changes its keys, and a stranger can name any.

use std::time::{Duration, Instant};

use jsonwebtoken::jwk::{Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Header};
use semel_engine::BoundedClient;
use serde_json::Value;
use tokio::sync::{Mutex, RwLock};

use super::ProviderError;
use super::fetch::fetch_json;

/// How long keys are used without asking again.
const KEPT_FOR: Duration = Duration::from_secs(3_600);

/// How long to rest before keys are read again for a name that is not among them.
const REST: Duration = Duration::from_secs(60);

/// The most keys of a provider.
const KEYS_MAX: usize = 100;

/// How identities may be signed: with a key pair, never with a secret or not at all. A provider need not
/// ask its client which of them it likes: some take the longest digest that a key can sign.
const ALGORITHMS: &[Algorithm] = &[
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// How long a provider whose keys were never read is left alone after a failure.
const FAILED_REST: Duration = Duration::from_secs(5);

/// The provider's keys, as last read.
#[derive(Default)]
pub(super) struct Keys {
    kept: RwLock<Option<Kept>>,
    /// When they were last asked for, with or without success. Whoever holds it asks.
    asked_at: Mutex<Option<Instant>>,
}

#[derive(Clone)]
struct Kept {
    keys: Vec<Jwk>,
    at: Instant,
}

impl Keys {
    /// The key that a token is signed with, by its head alone.
    pub(super) async fn find(
        &self,
        (client, url): (&BoundedClient, &str),
        header: &Header,
    ) -> Result<DecodingKey, ProviderError> {
        if !ALGORITHMS.contains(&header.alg) || header.crit.is_some() {
            return Err(ProviderError::Invalid(
                "the token is signed in a way that is not accepted",
            ));
        }
        if let Some(key) = self.known(header).await {
            return Ok(key);
        }
        let mut asked_at = self.asked_at.lock().await;
        // Another request may have read them meanwhile.
        if let Some(key) = self.known(header).await {
            return Ok(key);
        }
        let since = asked_at.map(|at| at.elapsed());
        match self.kept.read().await.is_some() {
            true if since.is_some_and(|since| since < REST) => return Err(unknown()),
            false if since.is_some_and(|since| since < FAILED_REST) => {
                let words = "the provider's keys could not be read a moment ago";
                return Err(ProviderError::Unavailable(words.to_owned()));
            }
            true | false => {}
        }
        *asked_at = Some(Instant::now());
        let keys = read(client, url).await?;
        let found = pick(&keys, header);
        let at = Instant::now();
        *self.kept.write().await = Some(Kept { keys, at });
        found.ok_or_else(unknown)
    }

    async fn known(&self, header: &Header) -> Option<DecodingKey> {
        let kept = self.kept.read().await;
        let kept = kept.as_ref().filter(|kept| kept.at.elapsed() < KEPT_FOR);
        kept.and_then(|kept| pick(&kept.keys, header))
    }
}

fn unknown() -> ProviderError {
    ProviderError::Invalid("the token is signed with a key that the provider does not show")
}

/// Reads the keys. One that cannot be read is left out: it may be of a kind that is not accepted.
pub(super) async fn read(client: &BoundedClient, url: &str) -> Result<Vec<Jwk>, ProviderError> {
    let found = fetch_json(client, url, "keys").await?;
    let keys = found.get("keys").and_then(Value::as_array);
    let keys = keys.ok_or_else(|| {
        ProviderError::Unavailable("the provider's keys are no set of keys".to_owned())
    })?;
    let keys = keys.iter().take(KEYS_MAX);
    Ok(keys
        .filter_map(|key| serde_json::from_value(key.clone()).ok())
        .collect())
}

/// The key of the name that the head has; where it has none, the only one that fits.
fn pick(keys: &[Jwk], header: &Header) -> Option<DecodingKey> {
    let named = keys
        .iter()
        .filter(|key| header.kid.is_none() || key.common.key_id == header.kid);
    let mut fitting = named.filter_map(|key| fit(key, header.alg));
    let first = fitting.next()?;
    fitting.next().is_none().then_some(first)
}

fn fit(key: &Jwk, algorithm: Algorithm) -> Option<DecodingKey> {
    let common = &key.common;
    let signs = common
        .public_key_use
        .as_ref()
        .is_none_or(|it| *it == PublicKeyUse::Signature);
    let name = format!("{algorithm:?}");
    let meant = common
        .key_algorithm
        .is_none_or(|it| format!("{it:?}") == name);
    let key = DecodingKey::from_jwk(key).ok().filter(|_| signs && meant)?;
    (key.family() == algorithm.family()).then_some(key)
}
