//! Erasing what was said in the runs of a key.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use semel_api::Code;
use semel_api::types::{EraseRun, ErasedRuns};
use semel_engine::{EraseError, Erasure};
use semel_model::RunId;

use super::archived::unavailable;
use crate::answer::Answered;
use crate::app::App;
use crate::auth::Caller;
use crate::body::Payload;
use crate::commands::{self, Command, Reply};
use crate::error::ApiError;
use crate::query::Named;

/// `POST /v1/runs/{run}/erase`.
pub(crate) async fn erase(
    State(app): State<App>,
    caller: Caller,
    run: Named,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let id: RunId = run.read(Code::RunNotFound)?;
    let (EraseRun { reason }, body) = payload.read()?;
    let command = Command {
        verb: "erase",
        subject: run.as_str(),
        body: &body,
        headers: &headers,
    };
    let (engine, actor) = (app.engine.clone(), caller.actor());
    let namespace_id = caller.namespace_id;
    commands::once(app, &caller, command, async move {
        let erased = engine.erase_run(namespace_id, id, &reason, &actor).await?;
        tracing::info!(run.id = %id, actor, runs = erased.runs, "payloads erased");
        Reply::new(StatusCode::OK, &view(id, erased))
    })
    .await
}

fn view(run: RunId, erased: Erasure) -> ErasedRuns {
    let mut not_reached = vec![
        "what destinations, workers and receivers of events were sent".to_owned(),
        "entries of kv, and steps' keys and external ids, which stay".to_owned(),
        "the audit record: reasons, and notes on doubts".to_owned(),
        "resources that clients uploaded, or that runs of other keys stored too".to_owned(),
        "responses to API commands, which expire within a day".to_owned(),
        "backups, replicas' logs and exports of the database".to_owned(),
        "copies and versions that the store of the archive keeps by itself, and for up to an hour files that a crash left there".to_owned(),
    ];
    if erased.events_under_way > 0 {
        let under_way = format!(
            "{} events or deliveries of events that are under way",
            erased.events_under_way
        );
        not_reached.push(under_way);
    }
    if !erased.started.is_empty() {
        let others = "runs of other keys that these runs started: erase each of them too";
        not_reached.push(others.to_owned());
    }
    ErasedRuns {
        run,
        runs: erased.runs,
        resources: erased.resources,
        started: erased.started,
        not_reached,
    }
}

impl From<EraseError> for ApiError {
    fn from(error: EraseError) -> Self {
        let detail = error.to_string();
        match error {
            EraseError::Unknown => Self::plain(Code::RunNotFound),
            EraseError::NotEnded => Self::new(Code::RunNotEnded, detail),
            EraseError::MayStillHappen { retry_in } => {
                Self::new(Code::RunNotEnded, detail).retry_in(retry_in)
            }
            EraseError::Unreadable { run } => {
                Self::new(Code::JournalInconsistent, detail).about(run)
            }
            EraseError::TooLarge => Self::new(Code::RunTooLarge, detail),
            EraseError::Archive(error) => unavailable(&error),
            EraseError::Reason(error) => error.into(),
            EraseError::Unavailable(cause) => Self::database(&cause),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::header::RETRY_AFTER;
    use axum::response::IntoResponse as _;
    use semel_model::Span;

    use super::*;

    #[test]
    fn what_may_still_happen_is_not_erased_and_the_answer_says_when_to_ask_again() {
        let retry_in = Span::from_secs(33);

        let response = ApiError::from(EraseError::MayStillHappen { retry_in }).into_response();

        assert_eq!(response.status(), StatusCode::CONFLICT);
        assert_eq!(response.headers()[RETRY_AFTER], "33");
    }
}
