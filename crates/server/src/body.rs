//! Bodies: read within a size and a time, then as JSON of a shape.

use axum::extract::{FromRequest, Request};
use axum::http::header::CONTENT_LENGTH;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use semel_api::Code;
use semel_model::json::parse_strict;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::app::App;
use crate::refusal::Refusal;

/// A whole body.
pub(crate) struct Payload(pub(crate) Bytes);

impl FromRequest<App> for Payload {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Result<Self, Refusal> {
        let most = app.options.body_bytes_max;
        // A sender that says how much will come is refused before it sends it.
        if announced(&request).is_some_and(|bytes| bytes > most as u64) {
            return Err(too_large(most));
        }
        let body = Limited::new(request.into_body(), most);
        match tokio::time::timeout(app.options.body_patience, body.collect()).await {
            Ok(Ok(body)) => Ok(Self(body.to_bytes())),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large(most)),
            Ok(Err(_)) | Err(_) => Err(Refusal::plain(Code::BodyIncomplete)),
        }
    }
}

impl Payload {
    /// Reads the body as what a command takes; an empty body is an empty object. The value is
    /// what tells the same command from another one.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<(T, Value), Refusal> {
        let text: &[u8] = if self.0.is_empty() { b"{}" } else { &self.0 };
        let value = parse_strict(text)
            .map_err(|error| Refusal::new(Code::BodyNotJson, error.to_string()))?;
        match T::deserialize(&value) {
            Ok(read) => Ok((read, value)),
            Err(error) => Err(Refusal::new(Code::BodyInvalid, error.to_string())),
        }
    }
}

fn announced(request: &Request) -> Option<u64> {
    let value = request.headers().get(CONTENT_LENGTH)?;
    value.to_str().ok()?.parse().ok()
}

fn too_large(most: usize) -> Refusal {
    Refusal::new(
        Code::BodyTooLarge,
        format!("the body has more than {most} bytes"),
    )
}

#[cfg(test)]
mod tests {
    use semel_api::types::Cancel;

    use super::*;

    #[test]
    fn a_member_that_nobody_knows_is_refused() {
        let payload = Payload(Bytes::from_static(b"{\"reason\":\"r\",\"raeson\":1}"));

        let refusal = payload.read::<Cancel>().unwrap_err();

        assert_eq!(refusal.problem().code(), Some(Code::BodyInvalid));
        assert!(refusal.problem().detail.contains("raeson"));
    }

    #[test]
    fn a_member_that_stands_twice_is_refused() {
        let payload = Payload(Bytes::from_static(b"{\"reason\":\"a\",\"reason\":\"b\"}"));

        let refusal = payload.read::<Cancel>().unwrap_err();

        assert_eq!(refusal.problem().code(), Some(Code::BodyNotJson));
    }
}
