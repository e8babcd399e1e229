//! Replays: preview, and carry out what was previewed.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use semel_api::Code;
use semel_api::types::{PreviewReplay, Replay, Replayed};
use semel_engine::{ReplayError, ReplayWish};
use semel_model::RunId;

use crate::answer::Answered;
use crate::app::App;
use crate::auth::Caller;
use crate::body::Payload;
use crate::commands::{self, Command, Reply};
use crate::error::ApiError;
use crate::payloads;
use crate::query::Named;
use crate::runs::explain;

/// `POST /v1/runs/{run}/replay/preview`.
pub(crate) async fn preview(
    State(app): State<App>,
    caller: Caller,
    run: Named,
    payload: Payload,
) -> Answered {
    let id: RunId = run.read(Code::RunNotFound)?;
    let (asked, _): (PreviewReplay, _) = payload.read()?;
    let wish = ReplayWish {
        release: asked.release,
        from: asked.from,
        input: asked.input,
        by: Some(caller.token.clone()),
        accepts: asked.accept_changed,
    };
    let preview = app.engine.preview_replay(caller.namespace_id, id, &wish);
    match preview.await {
        Ok(preview) => payloads::ok(&caller, preview),
        Err(error) => Err(explain(&app, caller.namespace_id, id, error.into()).await),
    }
}

/// `POST /v1/runs/{run}/replay`.
pub(crate) async fn replay(
    State(app): State<App>,
    caller: Caller,
    run: Named,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let id: RunId = run.read(Code::RunNotFound)?;
    let (asked, body): (Replay, _) = payload.read()?;
    let command = Command {
        verb: "replay",
        subject: run.as_str(),
        body: &body,
        headers: &headers,
    };
    let (asked_of, actor) = (app.clone(), caller.actor());
    let (namespace_id, by) = (caller.namespace_id, Some(caller.token.clone()));
    commands::once(app, &caller, command, async move {
        let wish = ReplayWish {
            release: asked.release,
            from: asked.from,
            input: asked.input,
            by,
            accepts: asked.accept_changed,
        };
        let shown = (asked.digest.as_str(), asked.reason.as_deref());
        let next = asked_of
            .engine
            .replay(namespace_id, id, &wish, shown, &actor);
        let next = match next.await {
            Ok(next) => next,
            Err(error) => return Err(explain(&asked_of, namespace_id, id, error.into()).await),
        };
        let done = Replayed {
            run: next,
            last: id,
        };
        Reply::new(StatusCode::ACCEPTED, &done)
    })
    .await
}

impl From<ReplayError> for ApiError {
    fn from(error: ReplayError) -> Self {
        let code = |error: &ReplayError| error.code().parse().unwrap_or(Code::NotReplayable);
        match error {
            ReplayError::Unknown => Self::plain(Code::RunNotFound),
            ReplayError::Unfit { .. }
            | ReplayError::NoRelease(_)
            | ReplayError::Input(_)
            | ReplayError::Blocked(_)
            | ReplayError::Changed
            | ReplayError::Inconsistent(_) => Self::new(code(&error), error.to_string()),
            ReplayError::Reason(error) => error.into(),
            ReplayError::Busy => Self::busy(),
            ReplayError::Unavailable(cause) => Self::database(&cause),
        }
    }
}
