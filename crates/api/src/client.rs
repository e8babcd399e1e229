//! The client that speaks the API.
//!
//! One method per route. A method that changes something takes the key that makes repeating it
//! safe; this client never repeats by itself, never follows a redirect, and uses no proxy: it
//! connects to the given address only.

mod alerts;
mod approvals;
mod audit;
mod connections;
mod doubts;
mod error;
mod events;
mod find;
mod flows;
mod held;
mod members;
mod namespaces;
mod once;
mod pauses;
mod raw;
mod reconcile;
mod rehearsals;
mod replay_plans;
mod resources;
mod run_jobs;
mod runs;
mod schedules;
mod searches;
mod secrets;
mod servers;
mod subscriptions;
mod tallies;
mod tasks;
mod tokens;
mod transfer;
mod waits;

pub use error::ClientError;
pub use resources::Content;

use std::fmt;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Method, RequestBuilder, Url};

use crate::types::Whoami;

/// How long an answer may take when the caller did not ask the server to wait.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a connection may take to open.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// How long a connection is kept for the next request: a server closes one on which nothing comes for ten seconds, and
/// what is sent at that moment is lost.
const IDLE_MAX: Duration = Duration::from_secs(5);

/// Speaks the API of one server, with one token.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
}

/// The answer to a request that may have been made before.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer<T> {
    /// What was answered.
    pub body: T,
    /// Whether it is the answer to an earlier request of the same key.
    pub replayed: bool,
}

impl Client {
    /// A client of the server at `base`, for instance `http://127.0.0.1:7171`.
    pub fn new(base: &str, token: &str) -> Result<Self, ClientError> {
        let base = Url::parse(base).map_err(|error| ClientError::Address(error.to_string()))?;
        if base.cannot_be_a_base() {
            return Err(ClientError::Address("no host in it".to_owned()));
        }
        let mut bearer = HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| ClientError::Address("the token is not plain text".to_owned()))?;
        bearer.set_sensitive(true);
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(Policy::none())
            .connect_timeout(CONNECT_PATIENCE)
            .pool_idle_timeout(IDLE_MAX)
            .default_headers(HeaderMap::from_iter([(AUTHORIZATION, bearer)]))
            .user_agent(concat!("semel/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(ClientError::Unreachable)?;
        Ok(Self { http, base })
    }

    /// The server's address.
    pub fn base(&self) -> &str {
        self.base.as_str()
    }

    /// The token's owner and namespace.
    pub async fn whoami(&self) -> Result<Whoami, ClientError> {
        transfer::read(self.get(&["v1", "whoami"])).await
    }

    /// Whether the server can take deliveries now: its database answers and its session is alive.
    pub async fn is_ready(&self) -> Result<bool, ClientError> {
        let sent = self.get(&["readyz"]).send().await;
        Ok(sent
            .map_err(ClientError::Unreachable)?
            .status()
            .is_success())
    }

    fn get(&self, path: &[&str]) -> RequestBuilder {
        self.ask(Method::GET, path)
    }

    /// A request that changes something, under a key.
    fn post(&self, path: &[&str], key: &str) -> RequestBuilder {
        self.ask(Method::POST, path).header("Idempotency-Key", key)
    }

    /// A request that is the same when it is repeated, under a key where the caller has one.
    fn ask_under(&self, method: Method, path: &[&str], key: Option<&str>) -> RequestBuilder {
        let request = self.ask(method, path);
        match key {
            Some(key) => request.header("Idempotency-Key", key),
            None => request,
        }
    }

    fn ask(&self, method: Method, path: &[&str]) -> RequestBuilder {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        self.http.request(method, url).timeout(PATIENCE)
    }
}

/// The token stands in the client's headers, so only the address is shown.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("base", &self.base.as_str())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_escaped_segment_by_segment() {
        let client = Client::new("http://127.0.0.1:7171/", "t").unwrap();

        let request = client.get(&["v1", "flows", "a/b?c"]).build().unwrap();

        assert_eq!(
            request.url().as_str(),
            "http://127.0.0.1:7171/v1/flows/a%2Fb%3Fc"
        );
    }

    #[test]
    fn a_client_never_shows_its_token() {
        let client = Client::new("http://127.0.0.1:7171", "semel_1_hush").unwrap();

        assert!(!format!("{client:?}").contains("hush"));
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_unreachable() {
        let client = Client::new("http://127.0.0.1:1", "t").unwrap();

        let error = client.whoami().await.unwrap_err();

        assert!(matches!(error, ClientError::Unreachable(_)), "{error:?}");
        assert_eq!(error.code(), "server-unreachable");
    }
}
