//! Bodies: read within a size, a time and a share of the memory, then parsed as JSON.
//!
//! Memory is taken as bytes arrive, not as they are announced: a sender that announces a megabyte
//! and sends a byte holds little. When there is none left, a request waits for a moment and is then
//! refused with a time to retry.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use semel_api::Code;
use semel_engine::Budget;
use semel_engine::memory::{Portion, parsed_bytes};
use semel_model::Span;
use semel_model::json::parse_strict;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::app::App;
use crate::body_shares::STEP_BYTES_MAX;
use crate::error::ApiError;
use crate::query::has_zero;
use crate::rate_limit::Peer;

/// How much memory is taken at a time at least: for a body of which little has come.
const STEP_BYTES_MIN: usize = 1024;

/// How long a request waits for memory.
const MEMORY_PATIENCE: Duration = Duration::from_secs(1);

/// After how many seconds a request that found no memory may be retried.
const OVERLOADED_REST_SECS: u64 = 2;

/// A whole body, and the memory that it takes.
pub(crate) struct Payload(pub(crate) Bytes, Vec<Portion>);

impl FromRequest<App> for Payload {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let (head, body) = request.into_parts();
        let peer = head.extensions.get::<Peer>().copied();
        Self::receive(&head.headers, body, peer, app).await
    }
}

impl Payload {
    /// Reads a body, within the share of the memory that its source has.
    pub(crate) async fn receive(
        headers: &HeaderMap,
        body: Body,
        peer: Option<Peer>,
        app: &App,
    ) -> Result<Self, ApiError> {
        let most = app.options.body_bytes_max;
        // A sender that says how much will come is refused before it sends it.
        if announced(headers).is_some_and(|bytes| bytes > most as u64) {
            return Err(too_large(most));
        }
        let (budget, share) = (&app.options.body_budget, app.body_shares.of(peer));
        let own = share.as_ref().map(|share| &share.arriving);
        let arriving = arrive(body, most, &budget.arriving, own);
        let arrived = tokio::time::timeout(app.options.body_patience, arriving).await;
        let (bytes, mut portions) = match arrived {
            Ok(arrived) => arrived?,
            Err(_) => return Err(ApiError::plain(Code::BodyIncomplete)),
        };
        let weight = parsed_bytes(&bytes).saturating_sub(bytes.len());
        let own = share.as_ref().map(|share| &share.parsed);
        let (parsed, own) = take(&budget.parsed, own, weight).await?;
        portions.push(parsed);
        portions.extend(own);
        Ok(Self(bytes, portions))
    }

    /// A body that takes no share of the memory.
    #[cfg(test)]
    pub(crate) fn of(bytes: &'static [u8]) -> Self {
        Self(Bytes::from_static(bytes), Vec::new())
    }

    /// Its bytes, and the memory that is returned with them.
    pub(crate) fn into_parts(self) -> (Bytes, Vec<Portion>) {
        (self.0, self.1)
    }
}

/// Reads pieces until the end, and takes memory for them as they come.
async fn arrive(
    mut body: Body,
    most: usize,
    budget: &Budget,
    own: Option<&Budget>,
) -> Result<(Bytes, Vec<Portion>), ApiError> {
    let mut whole = Gathered::default();
    let (mut portions, mut of_share): (Vec<Portion>, Vec<Portion>) = (Vec::new(), Vec::new());
    let (mut length, mut held) = (0_usize, 0_usize);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| ApiError::plain(Code::BodyIncomplete))?;
        let Ok(piece) = frame.into_data() else {
            continue;
        };
        length = length.saturating_add(piece.len());
        if length > most {
            return Err(too_large(most));
        }
        if length > held {
            let more = (length - held).next_multiple_of(step(held));
            let (portion, own) = take(budget, own, more).await?;
            held += more;
            join(&mut portions, portion);
            if let Some(own) = own {
                join(&mut of_share, own);
            }
        }
        whole.add(piece);
    }
    portions.append(&mut of_share);
    Ok((whole.into_bytes(), portions))
}

/// Takes memory: of the source's share first, so that a body that waits for it holds nothing else.
async fn take(
    budget: &Budget,
    own: Option<&Budget>,
    bytes: usize,
) -> Result<(Portion, Option<Portion>), ApiError> {
    let own = match own {
        Some(own) => {
            let portion = own.take_within(bytes, MEMORY_PATIENCE).await;
            Some(portion.ok_or_else(overloaded)?)
        }
        None => None,
    };
    let portion = budget.take_within(bytes, MEMORY_PATIENCE).await;
    Ok((portion.ok_or_else(overloaded)?, own))
}

fn join(portions: &mut Vec<Portion>, portion: Portion) {
    match portions.first_mut() {
        Some(first) => first.join(portion),
        None => portions.push(portion),
    }
}

/// As much again as is held, so that a sender of a byte now and then holds little.
fn step(held: usize) -> usize {
    held.clamp(STEP_BYTES_MIN, STEP_BYTES_MAX)
}

/// What has arrived of a body. A separate piece costs far more than the byte that it may hold, so
/// there is one at most: a body in one piece stays that piece, so that wiping it wipes all of it,
/// and a second piece is copied behind the first.
#[derive(Default)]
struct Gathered {
    first: Bytes,
    joined: BytesMut,
}

impl Gathered {
    fn add(&mut self, piece: Bytes) {
        if self.first.is_empty() && self.joined.is_empty() {
            self.first = piece;
            return;
        }
        let first = std::mem::take(&mut self.first);
        self.joined.extend_from_slice(&first);
        self.joined.extend_from_slice(&piece);
    }

    fn into_bytes(self) -> Bytes {
        match self.joined.is_empty() {
            true => self.first,
            false => self.joined.freeze(),
        }
    }
}

/// There is no memory for it now.
pub(crate) fn overloaded() -> ApiError {
    ApiError::plain(Code::Overloaded).retry_in(Span::from_secs(OVERLOADED_REST_SECS))
}

impl Payload {
    /// Parses the body of a command; an empty body is an empty object. The value tells a repeat of
    /// a command from another command.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<(T, Value), ApiError> {
        let text: &[u8] = if self.0.is_empty() { b"{}" } else { &self.0 };
        let value = parse_strict(text)
            .map_err(|error| ApiError::new(Code::BodyNotJson, error.to_string()))?;
        if let Some(name) = find_zero(&value) {
            let message = format!("`{name}` holds the character zero, which cannot be stored");
            return Err(ApiError::new(Code::BodyInvalid, message));
        }
        match T::deserialize(&value) {
            Ok(read) => Ok((read, value)),
            Err(error) => Err(ApiError::new(Code::BodyInvalid, error.to_string())),
        }
    }
}

/// Members that hold any value, and are kept as JSON or made fit to be stored where they are.
const FREE: [&str; 6] = [
    "input",
    "result",
    "payload",
    "external_id",
    "message",
    "reason",
];

/// The member of a command that holds the character zero in a name or a text.
fn find_zero(value: &Value) -> Option<&str> {
    let members = value.as_object()?.iter();
    let mut found =
        members.filter(|(name, value)| !FREE.contains(&name.as_str()) && holds_zero(value));
    found.next().map(|(name, _)| name.as_str())
}

fn holds_zero(value: &Value) -> bool {
    match value {
        Value::String(text) => has_zero(text),
        Value::Array(items) => items.iter().any(holds_zero),
        Value::Object(members) => {
            let has = |(name, value): (&String, &Value)| has_zero(name) || holds_zero(value);
            members.iter().any(has)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn announced(headers: &HeaderMap) -> Option<u64> {
    let value = headers.get(CONTENT_LENGTH)?;
    value.to_str().ok()?.parse().ok()
}

fn too_large(most: usize) -> ApiError {
    ApiError::new(
        Code::BodyTooLarge,
        format!("the body has more than {most} bytes"),
    )
}

#[cfg(test)]
mod tests {
    use semel_api::types::{Cancel, CompleteWait, StartRun};

    use super::*;

    #[tokio::test]
    async fn a_body_in_pieces_is_read_whole_and_takes_about_its_size() {
        let budget = Budget::of_bytes(64 * 1024);
        let chunks = (0..3_000_u32).map(|n| Ok::<_, std::io::Error>(Bytes::from(vec![n as u8])));
        let body = Body::from_stream(futures_util::stream::iter(chunks));

        let (bytes, portions) = arrive(body, 4_000, &budget, None).await.unwrap();
        let rest = budget.try_take(60 * 1024);

        let sent: Vec<u8> = (0..3_000_u32).map(|n| n as u8).collect();
        assert_eq!(bytes, sent);
        assert_eq!(portions.len(), 1);
        assert!(rest.is_some(), "3,000 bytes take 4 KiB at most");
    }

    #[tokio::test]
    async fn a_byte_takes_a_kilobyte_and_stays_the_piece_that_it_is() {
        let budget = Budget::of_bytes(16 * 1024);
        let sent = Bytes::from(vec![b'x']);
        let at = sent.as_ptr();

        let arrived = arrive(Body::from(sent), 10, &budget, None).await;
        let (bytes, _portions) = arrived.unwrap();

        assert!(budget.try_take(15 * 1024).is_some());
        assert_eq!(bytes.as_ptr(), at);
    }

    #[test]
    fn an_unknown_member_is_refused() {
        let payload = Payload::of(b"{\"reason\":\"r\",\"raeson\":1}");

        let refusal = payload.read::<Cancel>().unwrap_err();

        assert_eq!(refusal.problem().code(), Some(Code::BodyInvalid));
        assert!(refusal.problem().detail.contains("raeson"));
    }

    #[test]
    fn a_zero_is_refused_in_a_name_and_taken_in_a_value() {
        let key = Payload::of(b"{\"key\":\"a\\u0000b\"}");
        let value = Payload::of(b"{\"payload\":{\"a\":\"\\u0000\"}}");
        let reason = Payload::of(b"{\"reason\":\"a\\u0000b\"}");

        let refusal = key.read::<StartRun>().unwrap_err();

        assert_eq!(refusal.problem().code(), Some(Code::BodyInvalid));
        assert!(refusal.problem().detail.contains("`key`"));
        assert!(value.read::<CompleteWait>().is_ok());
        assert!(
            reason.read::<Cancel>().is_ok(),
            "the code that records it checks it"
        );
    }

    #[test]
    fn a_member_that_stands_twice_is_refused() {
        let payload = Payload::of(b"{\"reason\":\"a\",\"reason\":\"b\"}");

        let refusal = payload.read::<Cancel>().unwrap_err();

        assert_eq!(refusal.problem().code(), Some(Code::BodyNotJson));
    }
}
