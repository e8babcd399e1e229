//! A plain HTTP client for what an operator configured: an identity provider's documents and tokens.
//!
//! It is not for flows, so the egress rules do not apply. It follows no redirect, uses no proxy of the
//! environment, and every exchange has a limit of time and of bytes, also where the other side sends
//! slowly or for ever.

use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, RequestBuilder, redirect};

use crate::http::SetupError;

/// How long a connection may take to stand.
const CONNECT_PATIENCE: Duration = Duration::from_secs(3);

/// How long an exchange may take altogether.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest body that is read.
const BYTES_MAX: usize = 256 * 1024;

/// Why nothing was fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The other side cannot be reached, or not in time.
    #[error("{0}")]
    Unreachable(String),
    /// It sends more than is read.
    #[error("it sends more than {BYTES_MAX} bytes")]
    TooLong,
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The status.
    pub status: u16,
    /// The body, whole.
    pub body: Vec<u8>,
}

/// A client whose every exchange is bounded. Cheap to clone.
#[derive(Clone, Debug)]
pub struct BoundedClient(Client);

impl BoundedClient {
    /// A client that speaks https alone, or http as well, which is for this machine.
    ///
    /// # Errors
    ///
    /// Where the system's certificates cannot be read.
    pub fn new(https_only: bool) -> Result<Self, SetupError> {
        let builder = Client::builder()
            .redirect(redirect::Policy::none())
            .no_proxy()
            .https_only(https_only)
            .connect_timeout(CONNECT_PATIENCE)
            .timeout(PATIENCE);
        Ok(Self(builder.build().map_err(SetupError::new)?))
    }

    /// Reads a document, with a bearer token where one is needed.
    ///
    /// # Errors
    ///
    /// Where it does not come in time or is too long.
    pub async fn get(&self, url: &str, bearer: Option<&str>) -> Result<Fetched, FetchError> {
        let request = self.0.get(url).header(ACCEPT, "application/json");
        let bearer = bearer.map(|token| sensitive(&format!("Bearer {token}")));
        send(authorized(request, bearer.flatten())).await
    }

    /// Sends a form, with the value of `Authorization` where there is one.
    ///
    /// # Errors
    ///
    /// Where no response comes in time, or one that is too long.
    pub async fn post_form(
        &self,
        url: &str,
        authorization: Option<&str>,
        form: String,
    ) -> Result<Fetched, FetchError> {
        let request = self
            .0
            .post(url)
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(form);
        send(authorized(request, authorization.and_then(sensitive))).await
    }
}

fn sensitive(value: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn authorized(request: RequestBuilder, value: Option<HeaderValue>) -> RequestBuilder {
    match value {
        Some(value) => request.header(AUTHORIZATION, value),
        None => request,
    }
}

async fn send(request: RequestBuilder) -> Result<Fetched, FetchError> {
    let mut response = request.send().await.map_err(describe)?;
    let status = response.status().as_u16();
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(describe)? {
        if body.len() + chunk.len() > BYTES_MAX {
            return Err(FetchError::TooLong);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Fetched { status, body })
}

/// The cause without the address: it may carry what must not be logged.
fn describe(error: reqwest::Error) -> FetchError {
    if error.is_timeout() {
        return FetchError::Unreachable(format!("no answer within {} s", PATIENCE.as_secs()));
    }
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    FetchError::Unreachable(text)
}
