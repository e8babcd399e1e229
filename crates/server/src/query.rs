//! Query parameters, and identities in paths.

use std::str::FromStr;
use std::time::Duration;

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use semel_api::Code;
use semel_model::{FlowName, Key, Span};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::ApiError;

/// How many items a page has by default.
const PAGE_DEFAULT: u16 = 50;

/// How many items a page has at most.
pub(crate) const PAGE_MAX: u16 = 500;

/// The query's parameters, in a shape.
pub(crate) struct Params<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        if parts.uri.query().is_some_and(|query| query.contains("%00")) {
            let message = "a parameter holds the character zero, which cannot be stored";
            return Err(ApiError::new(Code::QueryInvalid, message));
        }
        match Query::try_from_uri(&parts.uri) {
            Ok(Query(read)) => Ok(Self(read)),
            Err(error) => Err(ApiError::new(Code::QueryInvalid, error.body_text())),
        }
    }
}

/// The one part of the path that varies, as text.
pub(crate) struct Named(String);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Path::<String>::from_request_parts(parts, state).await {
            Ok(Path(text)) if !has_zero(&text) => Ok(Self(text)),
            Ok(_) | Err(_) => Err(ApiError::plain(Code::RouteNotFound)),
        }
    }
}

/// No name holds the character zero, and the database takes none.
pub(crate) fn has_zero(text: &str) -> bool {
    text.contains('\0')
}

impl Named {
    /// Parses it as an identity or a name. A text that is neither is not found.
    pub(crate) fn read<T: FromStr>(&self, missing: Code) -> Result<T, ApiError> {
        self.0.parse().map_err(|_| ApiError::plain(missing))
    }

    /// The text itself.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads it as the name of a flow.
    pub(crate) fn flow(&self) -> Result<FlowName, ApiError> {
        self.read(Code::FlowNotFound)
    }
}

/// The two parts of the path that vary.
pub(crate) struct Pair(pub(crate) Named, pub(crate) Named);

impl<S: Send + Sync> FromRequestParts<S> for Pair {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Path::<(String, String)>::from_request_parts(parts, state).await {
            Ok(Path((first, second))) if !has_zero(&first) && !has_zero(&second) => {
                Ok(Self(Named(first), Named(second)))
            }
            Ok(_) | Err(_) => Err(ApiError::plain(Code::RouteNotFound)),
        }
    }
}

/// `?key=`, for routes that are about one key.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OfKey {
    /// The key, any text.
    pub(crate) key: String,
}

impl OfKey {
    /// The key itself.
    pub(crate) fn read(&self) -> Result<Key, ApiError> {
        read_key(self.key.as_bytes())
    }
}

/// Takes bytes as a key.
pub(crate) fn read_key(bytes: &[u8]) -> Result<Key, ApiError> {
    Key::new(bytes).map_err(|error| ApiError::new(Code::KeyInvalid, error.to_string()))
}

/// How many items to put on a page.
pub(crate) fn page_size(asked: Option<u16>) -> u16 {
    asked.unwrap_or(PAGE_DEFAULT).clamp(1, PAGE_MAX)
}

/// How long to wait for something, at most `most`.
pub(crate) fn patience(asked: Option<Span>, most: Duration) -> Duration {
    asked.map_or(Duration::ZERO, |span| span.to_duration().min(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_at_least_one_item_and_a_limit() {
        assert_eq!(page_size(None), 50);
        assert_eq!(page_size(Some(0)), 1);
        assert_eq!(page_size(Some(u16::MAX)), PAGE_MAX);
    }

    #[test]
    fn patience_has_a_limit() {
        let most = Duration::from_secs(60);

        assert_eq!(patience(None, most), Duration::ZERO);
        assert_eq!(patience(Some(Span::from_secs(3_600)), most), most);
    }
}
