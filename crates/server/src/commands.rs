//! Commands: a command that is sent twice under one key happens once.
//!
//! ```text
//! begin ══▶ carry out ══▶ keep the answer
//!      └─▶ the first is in progress (409), was another one (422), or was answered (that answer)
//! ```
//!
//! `══▶` is a commit. Only the answer to a command that was carried out is kept. A refusal changed
//! nothing, and its cause may change: if it were kept, it would block the same command later.

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use semel_api::Code;
use semel_model::id::digest;
use semel_model::{Fingerprint, Slot, Span};
use semel_store::audit::origin::ActOrigin;
use semel_store::commands::{self, Begin};
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::answer::{self, Answered};
use crate::app::App;
use crate::auth::Caller;
use crate::error::{ApiError, chain};
use crate::links::without_links;
use crate::query::read_key;

/// The header that names a command.
pub(crate) const KEY_HEADER: &str = "idempotency-key";

/// How long a command may be in progress before its process counts as dead, in seconds.
const HOLD_SECS: u64 = 30;

/// How soon to retry a command that is in progress, in seconds.
const UNDER_WAY_SECS: u64 = 1;

/// One command, as the client sent it.
pub(crate) struct Command<'a> {
    /// The verb: `cancel`, `settle`, …
    pub(crate) verb: &'static str,
    /// Of what.
    pub(crate) subject: &'a str,
    /// The body.
    pub(crate) body: &'a Value,
    /// The request's headers.
    pub(crate) headers: &'a HeaderMap,
}

/// The result of a command.
pub(crate) struct Reply {
    status: StatusCode,
    body: Value,
    replayed: bool,
}

impl Reply {
    /// It was carried out.
    pub(crate) fn new<T: Serialize>(status: StatusCode, body: &T) -> Result<Self, ApiError> {
        match serde_json::to_value(body) {
            Ok(body) => Ok(Self {
                status,
                body,
                replayed: false,
            }),
            Err(_) => Err(ApiError::internal("an answer that is not JSON")),
        }
    }

    /// Says that it had been carried out before.
    pub(crate) fn replayed_if(mut self, replayed: bool) -> Self {
        self.replayed |= replayed;
        self
    }

    fn into_response(self) -> Response {
        let json = HeaderValue::from_static("application/json");
        let text = without_links(self.body.to_string());
        let mut response = (self.status, [(CONTENT_TYPE, json)], text).into_response();
        if self.replayed {
            answer::mark_replayed(&mut response);
        }
        response
    }
}

/// Carries a command out once per key. Without a key it is simply carried out.
///
/// The work is a task of its own: a caller that hangs up does not stop it half way.
pub(crate) async fn once<F>(app: App, caller: &Caller, command: Command<'_>, act: F) -> Answered
where
    F: Future<Output = Result<Reply, ApiError>> + Send + 'static,
{
    let Some(key) = command.headers.get(KEY_HEADER) else {
        return carry_out(act).await;
    };
    let key = read_key(key.as_bytes())?;
    let id = identify(caller, command.verb, key.as_bytes());
    let fingerprint = Fingerprint::of(&json!([command.subject, command.body]));
    let namespace_id = caller.namespace_id;
    let kept = keep(app, namespace_id, id, fingerprint, act);
    finish(tokio::spawn(ActOrigin::carry(kept)).await)
}

/// Carries a command out that keeps its own record of what was done under a key, as a task of its own.
pub(crate) async fn carry_out<F>(act: F) -> Answered
where
    F: Future<Output = Result<Reply, ApiError>> + Send + 'static,
{
    finish(tokio::spawn(ActOrigin::carry(act)).await)
}

fn finish(done: Result<Result<Reply, ApiError>, tokio::task::JoinError>) -> Answered {
    match done {
        Ok(reply) => Ok(reply?.into_response()),
        Err(_) => Err(ApiError::internal("a command panicked")),
    }
}

async fn keep<F>(
    app: App,
    namespace_id: i32,
    id: Uuid,
    fingerprint: Fingerprint,
    act: F,
) -> Result<Reply, ApiError>
where
    F: Future<Output = Result<Reply, ApiError>>,
{
    let cell = app.engine.cell().of(Slot::of(id.as_bytes()));
    let hold = Span::from_secs(HOLD_SECS);
    match commands::begin(cell, id, namespace_id, fingerprint, hold).await? {
        Begin::First => {}
        Begin::UnderWay => return Err(under_way()),
        Begin::Mismatch => return Err(ApiError::plain(Code::CommandMismatch)),
        Begin::Answered { status, answer } => return read_back(status, answer),
    }
    let done = act.await;
    let kept = match &done {
        Ok(reply) => commands::finish(cell, id, reply.status.as_u16(), &reply.body).await,
        Err(_) => commands::abandon(cell, id).await,
    };
    if let Err(error) = kept {
        // The command was carried out; a repeat is held off for a while and then carried out again,
        // which does no harm.
        tracing::warn!(error = %chain(&error), "failed to store the answer to a command");
    }
    done
}

fn under_way() -> ApiError {
    ApiError::plain(Code::CommandUnderWay).retry_in(Span::from_secs(UNDER_WAY_SECS))
}

fn read_back(status: u16, body: Value) -> Result<Reply, ApiError> {
    match StatusCode::from_u16(status) {
        Ok(status) => Ok(Reply {
            status,
            body,
            replayed: true,
        }),
        Err(_) => Err(ApiError::internal("a kept answer without a status")),
    }
}

/// The identity of a command whose answer is for this caller alone.
pub(crate) fn identify_own(caller: &Caller, verb: &str, key: &[u8]) -> Uuid {
    let (namespace, id) = (caller.namespace.as_str().as_bytes(), caller.id.as_uuid());
    let parts = [namespace, verb.as_bytes(), id.as_bytes(), key];
    Uuid::from_bytes(digest("semel.command.own.1", &parts))
}

/// The command's identity.
pub(crate) fn identify(caller: &Caller, verb: &str, key: &[u8]) -> Uuid {
    let parts = [caller.namespace.as_str().as_bytes(), verb.as_bytes(), key];
    Uuid::from_bytes(digest("semel.command.1", &parts))
}
