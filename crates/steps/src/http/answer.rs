//! What a destination answered, and what that says about whether the effect happened.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use hyper::StatusCode;
use hyper::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, DATE, HeaderMap, HeaderValue, RETRY_AFTER,
};
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use semel_model::{
    Doubt, Fault, FaultKind, Looked, Outcome, Receipt, Reserved, Resource, SettledBy, Span, json,
};
use serde_json::{Map, Value};

use super::client::Response;
use super::unzip::{Unpacked, Unread};
use crate::answer_room::AnswerRoom;
use crate::failpoint::failpoint;
use crate::redact::Redactor;
use crate::resources::{KeepError, ResourceStore};

/// The most bytes of an answer that are kept by reference.
const KEPT_BYTES_MAX: u64 = 1 << 30;

/// The longest that a destination may ask us to stay away, in seconds: a year.
const RETRY_AFTER_SECS_MAX: u64 = 365 * 86_400;

/// The most bytes of a refusal that are reported.
const EXCERPT_BYTES: usize = 300;

/// What an answer without a type is.
const UNTYPED: &str = "application/octet-stream";

/// A destination's answer, read to its end.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Body,
    /// Searches what is cut before it is.
    redactor: Arc<Redactor>,
}

/// The body of an answer.
pub(super) enum Body {
    /// All of it.
    Whole(Bytes),
    /// Its beginning: the rest was too long, or unreadable.
    Cut(Bytes),
    /// Kept by reference.
    Kept(Resource),
}

/// Where a body goes.
#[derive(Clone, Copy)]
pub(super) struct Room<'a> {
    /// The most bytes in memory.
    pub(super) memory_max: usize,
    /// Who keeps longer ones, and whose they are.
    pub(super) store: Option<(&'a dyn ResourceStore, i32)>,
    /// Whether the request may be made again: an answer that could not be kept is then asked for
    /// again instead of being cut.
    pub(super) may_repeat: bool,
    /// Finds the credentials that the request carried.
    pub(super) redactor: &'a Arc<Redactor>,
}

impl Answer {
    /// Reads an answer. Where that tells of no answer, it tells of an outcome.
    pub(super) async fn read(mut response: Response, room: Room<'_>) -> Result<Self, Outcome> {
        let status = response.status;
        let mut headers = std::mem::take(&mut response.headers);
        let is_gzip = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"gzip");
        let gzip = headers.get(CONTENT_ENCODING).is_some_and(is_gzip);
        if gzip {
            headers.remove(CONTENT_ENCODING);
            headers.remove(CONTENT_LENGTH);
        }
        let bytes = Unpacked::new(response, gzip);
        let body = match Meaning::of(status) {
            Meaning::Done => read_body(bytes, &headers, room).await,
            // Only its first words are reported.
            Meaning::Refused { .. } | Meaning::Unclear => Ok(read_some(bytes, room).await),
        };
        failpoint("answer.read", "").await;
        match body {
            Ok(body) => Ok(Self {
                status,
                headers,
                body,
                redactor: room.redactor.clone(),
            }),
            Err(Lost::Transport(why)) => {
                let message = format!("{status}, but the response was cut off: {why}");
                Err(Outcome::InDoubt(Doubt::new("answer-broken", message)))
            }
            Err(Lost::Unkept(fault)) => Err(Outcome::Failed(fault)),
        }
    }

    /// The outcome that the answer tells of, once there is room for its values. The wait has no limit: an answer that has
    /// come must not become a failure or a doubt because others are read.
    pub(super) async fn read_outcome(
        self,
        answers: &Arc<AnswerRoom>,
        namespace_id: i32,
    ) -> Outcome {
        let reserved = match &self.body {
            Body::Whole(bytes) if self.is_done() => answers.take_for(namespace_id, bytes).await,
            Body::Whole(_) | Body::Cut(_) | Body::Kept(_) => Reserved::default(),
        };
        match self.outcome() {
            Outcome::Done(receipt) => Outcome::Done(receipt.with_memory(reserved)),
            other @ (Outcome::Failed(_) | Outcome::InDoubt(_)) => other,
        }
    }

    /// The outcome that the answer tells of. An answer that says *done* may be large: [`Self::read_outcome`].
    pub(super) fn outcome(self) -> Outcome {
        let code = format!("http-{}", self.status.as_u16());
        let kind = FaultKind::Http(self.status.as_u16());
        let retry_after = read_retry_after(&self.headers);
        match Meaning::of(self.status) {
            Meaning::Done => Outcome::Done(self.receipt()),
            Meaning::Refused { retryable } => Outcome::Failed(Fault {
                code,
                kind,
                message: self.excerpt(),
                retryable,
                retry_after,
                looked: Looked::AtNothing,
            }),
            Meaning::Unclear => Outcome::InDoubt(Doubt {
                code,
                kind,
                message: self.excerpt(),
                retry_after,
                settled_by: SettledBy::Guard,
            }),
        }
    }

    /// Whether it says that the request was carried out.
    pub(super) fn is_done(&self) -> bool {
        Meaning::of(self.status) == Meaning::Done
    }

    /// The answer as expressions see it.
    pub(super) fn describe(&self, json: Value, text: &str) -> Map<String, Value> {
        let mut response = Map::new();
        response.insert("status".to_owned(), self.status.as_u16().into());
        response.insert("headers".to_owned(), describe_headers(&self.headers));
        response.insert("json".to_owned(), json);
        response.insert("text".to_owned(), text.into());
        response
    }

    fn receipt(self) -> Receipt {
        let status = Some(self.status.as_u16());
        let mut kept = Vec::new();
        let response = match &self.body {
            Body::Whole(bytes) => {
                let json: Value = serde_json::from_slice(bytes).unwrap_or_default();
                let text = String::from_utf8_lossy(bytes);
                match json::is_too_deep(&json) {
                    false => self.describe(json, &text),
                    // The journal could not be read back with it in: its text is kept instead.
                    true => {
                        let mut cut = self.describe(Value::Null, &text);
                        cut.insert("too_deep".to_owned(), true.into());
                        cut
                    }
                }
            }
            Body::Cut(bytes) => {
                let bytes = self.redactor.redact_beginning(bytes);
                let mut cut = self.describe(Value::Null, &String::from_utf8_lossy(&bytes));
                cut.insert("truncated".to_owned(), true.into());
                cut
            }
            Body::Kept(resource) => {
                let mut by_reference = self.describe(Value::Null, "");
                let described = serde_json::to_value(resource).unwrap_or_default();
                by_reference.insert("resource".to_owned(), described);
                kept.push(resource.clone());
                by_reference
            }
        };
        Receipt {
            response: Value::Object(response),
            status,
            kept,
            reserved: Reserved::default(),
        }
    }

    fn excerpt(&self) -> String {
        let (body, is_whole): (&[u8], bool) = match &self.body {
            Body::Whole(bytes) => (&bytes[..], true),
            Body::Cut(bytes) => (&bytes[..], false),
            Body::Kept(_) => (<&[u8]>::default(), true),
        };
        let text = self.redactor.excerpt(body, is_whole, EXCERPT_BYTES);
        match text.trim() {
            "" => self.status.to_string(),
            text => format!("{}: {text}", self.status),
        }
    }
}

/// What a status says about whether the effect happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Done,
    Refused { retryable: bool },
    Unclear,
}

impl Meaning {
    fn of(status: StatusCode) -> Self {
        match status.as_u16() {
            // "See other" answers a request that was carried out; "not modified" one that need not be.
            200..=299 | 303 | 304 => Self::Done,
            301 | 307 | 308 => Self::Refused { retryable: false },
            408 | 425 | 429 => Self::Refused { retryable: true },
            400..=499 => Self::Refused { retryable: false },
            _ => Self::Unclear,
        }
    }
}

/// Why there is no body.
enum Lost {
    /// The exchange broke off.
    Transport(String),
    /// It could not be kept, and may be asked for again.
    Unkept(Fault),
}

async fn read_body(mut bytes: Unpacked, headers: &HeaderMap, room: Room<'_>) -> Result<Body, Lost> {
    let mut begun = Vec::new();
    loop {
        match bytes.next().await {
            Ok(None) => return Ok(Body::Whole(begun.into())),
            Ok(Some(piece)) if begun.len() + piece.len() <= room.memory_max => {
                begun.extend_from_slice(&piece);
            }
            Ok(Some(piece)) => return keep((begun.into(), piece), bytes, headers, room).await,
            Err(Unread::Useless(_)) => return Ok(Body::Cut(begun.into())),
            Err(Unread::Transport(error)) => {
                return Err(Lost::Transport(super::classify::describe(&error)));
            }
        }
    }
}

/// Keeps a long body by reference, never holding more of it than what was read before.
async fn keep(
    (begun, piece): (Bytes, Bytes),
    rest: Unpacked,
    headers: &HeaderMap,
    room: Room<'_>,
) -> Result<Body, Lost> {
    let Some((store, namespace_id)) = room.store else {
        return Ok(Body::Cut(begun));
    };
    let media_type = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or(UNTYPED);
    let stream = stream::iter([Ok(begun.clone()), Ok(piece)]).chain(into_stream(rest));
    let stream = room.redactor.redact_stream(stream.boxed());
    let kept = store
        .keep(namespace_id, media_type, stream, KEPT_BYTES_MAX)
        .await;
    match kept {
        Ok(resource) => Ok(Body::Kept(resource)),
        Err(KeepError::TooLarge { .. } | KeepError::Differs { .. } | KeepError::Off) => {
            Ok(Body::Cut(begun))
        }
        Err(KeepError::Source(error)) => match find_unread(&error) {
            Some(Unread::Useless(_)) => Ok(Body::Cut(begun)),
            Some(Unread::Transport(_)) | None => Err(Lost::Transport(error.to_string())),
        },
        Err(error @ KeepError::Store(_)) if room.may_repeat => Err(Lost::Unkept(error.fault())),
        // It happened, and the destination said so: what is lost is the end of its answer.
        Err(KeepError::Store(_)) => Ok(Body::Cut(begun)),
    }
}

fn into_stream(bytes: Unpacked) -> BoxStream<'static, io::Result<Bytes>> {
    let next = async |mut bytes: Unpacked| match bytes.next().await {
        Ok(piece) => Ok(piece.map(|piece| (piece, bytes))),
        Err(unread) => Err(io::Error::other(unread)),
    };
    stream::try_unfold(bytes, next).boxed()
}

fn find_unread(error: &io::Error) -> Option<&Unread> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
}

async fn read_some(mut bytes: Unpacked, room: Room<'_>) -> Body {
    let mut begun = Vec::new();
    loop {
        let piece = match bytes.next().await {
            Ok(Some(piece)) => piece,
            Ok(None) => return Body::Whole(begun.into()),
            Err(_) => return Body::Cut(begun.into()),
        };
        let left = room.memory_max.saturating_sub(begun.len());
        begun.extend_from_slice(&piece[..piece.len().min(left)]);
        if piece.len() > left {
            return Body::Cut(begun.into());
        }
    }
}

/// How long the destination asks us to stay away: in seconds, or until a time that counts from the
/// answer's own `Date`. A time without a `Date` to count from says nothing.
fn read_retry_after(headers: &HeaderMap) -> Option<Span> {
    let text = |name| headers.get(name)?.to_str().ok().map(str::trim);
    let asked = text(RETRY_AFTER)?;
    let secs = match asked.parse::<u64>() {
        Ok(secs) => secs,
        Err(_) => {
            let at = read_http_date(asked)?;
            let answered_at = read_http_date(text(DATE)?)?;
            u64::try_from(at.as_second() - answered_at.as_second()).unwrap_or(0)
        }
    };
    Some(Span::from_secs(secs.min(RETRY_AFTER_SECS_MAX)))
}

/// A time as HTTP writes it, e.g. `Sun, 06 Nov 1994 08:49:37 GMT`.
fn read_http_date(text: &str) -> Option<Timestamp> {
    let read = rfc2822::DateTimeParser::new()
        .relaxed_weekday(true)
        .parse_timestamp(text);
    read.ok()
}

fn describe_headers(headers: &HeaderMap) -> Value {
    let mut map = Map::new();
    for (name, value) in headers {
        if name != "set-cookie"
            && let Ok(text) = value.to_str()
        {
            map.insert(name.as_str().to_owned(), Value::String(text.to_owned()));
        }
    }
    Value::Object(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(pairs: &[(&'static str, &str)]) -> Option<Span> {
        let pairs = pairs.iter().map(|(name, value)| {
            let name = hyper::header::HeaderName::from_static(name);
            (name, HeaderValue::from_str(value).unwrap())
        });
        read_retry_after(&pairs.collect())
    }

    #[test]
    fn retry_after_is_read_in_seconds_and_as_a_date() {
        let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        let until = |time| [("retry-after", time), date];

        assert_eq!(asked(&[("retry-after", "120")]), Some(Span::from_secs(120)));
        let later = asked(&until("Sun, 06 Nov 1994 08:51:37 GMT"));
        assert_eq!(later, Some(Span::from_secs(120)));
        let past = asked(&until("Sun, 06 Nov 1994 08:00:00 GMT"));
        assert_eq!(past, Some(Span::from_secs(0)));
    }

    #[test]
    fn an_unreadable_retry_after_is_ignored_and_a_long_one_is_bounded() {
        let year = Some(Span::from_secs(RETRY_AFTER_SECS_MAX));

        assert_eq!(asked(&[("retry-after", "soon")]), None);
        let undated = asked(&[("retry-after", "Sun, 06 Nov 1994 08:51:37 GMT")]);
        assert_eq!(undated, None, "there is nothing to count from");
        assert_eq!(asked(&[("retry-after", "18446744073709551615")]), year);
        let far = [
            ("retry-after", "Thu, 31 Dec 2099 23:59:59 GMT"),
            ("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ];
        assert_eq!(asked(&far), year);
    }
}
