//! Resources: list, show, upload, download.

use std::io;
use std::str::FromStr;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{
    CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::IntoResponse as _;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use semel_api::Code;
use semel_api::types::{Page, Resource, ResourceFilter, UploadResource};
use semel_engine::UploadError;
use semel_model::{Fault, ResourceRef, Span};
use semel_store::resources::{self, Keeping, ResourceRow};
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use crate::answer::{self, Answered};
use crate::app::App;
use crate::auth::Caller;
use crate::body::overloaded;
use crate::cursor;
use crate::error::ApiError;
use crate::query::{Named, Params, page_size};

/// The most characters of a file's name.
const FILE_NAME_CHARS_MAX: usize = 120;

/// The most characters of the name of an upload.
const NAME_CHARS_MAX: usize = 200;

/// How many uploads there are at a time.
pub(crate) const UPLOADS_MAX: usize = 16;

/// How many of them are of one namespace, which must not take the places of the others.
pub(crate) const UPLOADS_EACH: usize = 8;

/// How long all bytes of an upload may take.
const UPLOAD_PATIENCE: Duration = Duration::from_secs(3_600);

/// How fast an upload comes at least, on average, in bytes for each second that the server waits for it.
const UPLOAD_RATE_MIN: u64 = 16 << 10;

/// From how long a wait on that is asked of an upload.
const UPLOAD_RATE_AFTER: Duration = Duration::from_secs(60);

/// How long an upload is kept that does not say.
const KEEP_DEFAULT: Span = Span::from_const_secs(7 * 86_400);

/// How long an upload is kept at most: ten years.
const KEEP_MAX: Span = Span::from_const_secs(3_650 * 86_400);

/// A digest in an address.
struct Digits(ResourceRef);

impl FromStr for Digits {
    type Err = semel_model::resource::ResourceRefError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        format!("res://{text}").parse().map(Self)
    }
}

/// `GET /v1/resources`.
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(filter): Params<ResourceFilter>,
) -> Answered {
    let limit = page_size(filter.limit);
    let before = cursor::read(filter.cursor.as_deref())?;
    let found = resources::list(app.cell().every(), caller.namespace_id, before, limit).await?;
    let last = found.last().filter(|_| found.len() == usize::from(limit));
    answer::ok(&Page {
        items: found.iter().map(view).collect(),
        next: last.map(|last| cursor::write(last.created_at, &start_of(last))),
    })
}

/// `GET /v1/resources/{digest}`.
pub(crate) async fn show(State(app): State<App>, caller: Caller, digest: Named) -> Answered {
    answer::ok(&view(&find(&app, &caller, &digest).await?))
}

/// `PUT /v1/resources/{digest}`: the bytes come as the body, of any size up to the limit of a resource.
pub(crate) async fn upload(
    State(app): State<App>,
    caller: Caller,
    digest: Named,
    Params(how): Params<UploadResource>,
    headers: HeaderMap,
    body: Body,
) -> Answered {
    let Digits(wanted) = digest.read(Code::ResourceNotFound)?;
    let name = how.name.as_deref();
    if name.is_some_and(|name| name.chars().count() > NAME_CHARS_MAX) {
        let detail = format!("`name` has more than {NAME_CHARS_MAX} characters");
        return Err(ApiError::new(Code::QueryInvalid, detail));
    }
    let keeping = Keeping {
        namespace_id: caller.namespace_id,
        by: None,
        name,
        keep: how.keep.unwrap_or(KEEP_DEFAULT).min(KEEP_MAX),
    };
    let plain = HeaderValue::from_static("application/octet-stream");
    let media_type = headers.get(CONTENT_TYPE).unwrap_or(&plain);
    let media_type = media_type.to_str().unwrap_or("application/octet-stream");
    let bytes = in_time(body, app.options.body_patience);
    let resources = app.engine.resources();
    let place = app.uploads.take(caller.namespace_id);
    let place = place.ok_or_else(overloaded)?;
    let upload = resources.upload(&keeping, wanted, media_type, bytes);
    let kept = timeout(UPLOAD_PATIENCE, upload).await;
    drop(place);
    let kept = kept.map_err(|_| ApiError::new(Code::BodyInvalid, "the upload took too long"))?;
    kept.map_err(|error| refuse_upload(&error))?;
    tracing::info!(resource = %wanted, actor = caller.actor(), "resource uploaded");
    show(State(app), caller, digest).await
}

/// How much of an upload has come, and how long the server has waited for it.
#[derive(Clone, Copy, Default)]
struct UploadPace {
    bytes: u64,
    waited: Duration,
}

impl UploadPace {
    fn is_too_slow(self) -> bool {
        let millis = u64::try_from(self.waited.as_millis()).unwrap_or(u64::MAX);
        let least = millis.saturating_mul(UPLOAD_RATE_MIN) / 1_000;
        self.waited >= UPLOAD_RATE_AFTER && self.bytes < least
    }
}

/// The pieces of a body. It breaks off where one does not come in time, or all of them come too slowly.
fn in_time(body: Body, patience: Duration) -> BoxStream<'static, io::Result<Bytes>> {
    let begun = (body.into_data_stream(), UploadPace::default());
    let next = move |(mut pieces, mut pace): (axum::body::BodyDataStream, UploadPace)| async move {
        let asked = Instant::now();
        let piece = match timeout(patience, pieces.next()).await {
            Ok(Some(Ok(piece))) => piece,
            Ok(Some(Err(error))) => return Err(io::Error::other(error)),
            Ok(None) => return Ok(None),
            Err(_) => return Err(slow("nothing came for too long")),
        };
        pace.bytes += piece.len() as u64;
        pace.waited += asked.elapsed();
        match pace.is_too_slow() {
            true => Err(slow("it came at less than 16 KiB a second")),
            false => Ok(Some((piece, (pieces, pace)))),
        }
    };
    stream::try_unfold(begun, next).boxed()
}

fn slow(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, why)
}

fn refuse_upload(error: &UploadError) -> ApiError {
    match error {
        UploadError::Differs { .. } => ApiError::new(Code::BodyInvalid, error.to_string()),
        UploadError::CutOff(cause) => {
            ApiError::new(Code::BodyIncomplete, format!("{error}: {cause}"))
        }
        UploadError::NotKept(fault) => refuse(fault),
    }
}

/// `GET /v1/resources/{digest}/content`: the bytes, for a file and never for a page.
pub(crate) async fn download(State(app): State<App>, caller: Caller, digest: Named) -> Answered {
    let row = find(&app, &caller, &digest).await?;
    let opened = app
        .engine
        .resources()
        .open(caller.namespace_id, row.resource.resource)
        .await
        .map_err(|fault| refuse(&fault))?;
    let mut headers = file_headers(&row);
    headers.insert(CONTENT_LENGTH, HeaderValue::from(opened.bytes));
    Ok((headers, Body::from_stream(opened.stream)).into_response())
}

async fn find(app: &App, caller: &Caller, digest: &Named) -> Result<ResourceRow, ApiError> {
    let Digits(resource) = digest.read(Code::ResourceNotFound)?;
    resources::find(app.cell().of(resource), caller.namespace_id, resource)
        .await?
        .ok_or_else(|| ApiError::plain(Code::ResourceNotFound))
}

fn refuse(fault: &Fault) -> ApiError {
    tracing::warn!(
        code = fault.code,
        cause = fault.message,
        "failed to open a resource"
    );
    ApiError::new(Code::ResourcesUnavailable, fault.message.clone())
}

/// Whatever the bytes are, a browser saves them: it neither guesses their type nor runs them.
fn file_headers(row: &ResourceRow) -> HeaderMap {
    let plain = HeaderValue::from_static("application/octet-stream");
    let media_type = HeaderValue::from_str(&row.resource.media_type).unwrap_or(plain);
    let saved = format!("attachment; filename=\"{}\"", file_name(row));
    let saved = HeaderValue::from_str(&saved).unwrap_or(HeaderValue::from_static("attachment"));
    HeaderMap::from_iter([
        (CONTENT_TYPE, media_type),
        (CONTENT_DISPOSITION, saved),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (
            CONTENT_SECURITY_POLICY,
            HeaderValue::from_static("default-src 'none'; sandbox"),
        ),
    ])
}

/// Its name, in characters that are safe in a shell and in a header; or its digest.
fn file_name(row: &ResourceRow) -> String {
    let safe = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let name: String = row
        .name
        .iter()
        .flat_map(|name| name.chars())
        .map(|letter| if safe(letter) { letter } else { '_' })
        .take(FILE_NAME_CHARS_MAX)
        .collect();
    match name.trim_start_matches('.') {
        "" => hex::encode(row.resource.resource.digest()),
        name => name.to_owned(),
    }
}

/// The first bytes of a digest, which tell it from all others of the same instant.
fn start_of(row: &ResourceRow) -> Uuid {
    let mut start = [0; 16];
    start.copy_from_slice(&row.resource.resource.digest()[..16]);
    Uuid::from_bytes(start)
}

fn view(row: &ResourceRow) -> Resource {
    Resource {
        resource: row.resource.resource,
        bytes: row.resource.bytes,
        media_type: row.resource.media_type.clone(),
        name: row.name.clone(),
        run: row.run,
        step: row.step.clone(),
        created_at: row.created_at,
        expires_at: row.expires_at,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn named(name: &str) -> ResourceRow {
        ResourceRow {
            resource: semel_model::Resource {
                resource: ResourceRef::from_digest([0xab; 32]),
                bytes: 1,
                media_type: "text/html\r\nx: y".to_owned(),
            },
            name: Some(name.to_owned()),
            run: None,
            step: None,
            created_at: Timestamp::UNIX_EPOCH,
            expires_at: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn a_download_is_saved_and_never_shown() {
        let headers = file_headers(&named("a\"b/../c é.html"));

        let saved = "attachment; filename=\"a_b_.._c__.html\"";
        assert_eq!(headers[CONTENT_DISPOSITION], saved);
        assert_eq!(headers[CONTENT_TYPE], "application/octet-stream");
        assert_eq!(headers[X_CONTENT_TYPE_OPTIONS], "nosniff");
    }

    #[test]
    fn an_upload_that_comes_by_the_byte_is_too_slow_after_a_minute() {
        let pace = |bytes, secs| UploadPace {
            bytes,
            waited: Duration::from_secs(secs),
        };

        assert!(!pace(6, 59).is_too_slow(), "it may have a slow start");
        assert!(pace(6, 60).is_too_slow());
        assert!(!pace(60 * UPLOAD_RATE_MIN, 60).is_too_slow());
        assert!(pace(60 * UPLOAD_RATE_MIN, 61).is_too_slow());
    }

    #[test]
    fn a_file_without_a_name_is_called_by_its_digest() {
        assert_eq!(file_name(&named("...")), "ab".repeat(32));
    }
}
