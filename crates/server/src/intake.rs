//! The engine's answer to a delivery, as a response. The same for every trigger.

use std::panic::AssertUnwindSafe;

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use jiff::Timestamp;
use semel_api::Code;
use semel_api::types::RunStatus;
use semel_engine::{Accepted, IntakeError, StaleDelivery};
use semel_model::{RunId, Span};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::answer::{self, Answered};
use crate::app::App;
use crate::error::ApiError;

/// The run that answers for a key: what [`semel_api::types::Started`] is to its reader. JSON that
/// was stored as text goes out as that text.
#[derive(Serialize)]
struct Receipt<'a> {
    run: RunId,
    key: String,
    flow: &'a str,
    state: RunStatus,
    accepted_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_json")]
    result: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_json")]
    fault: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    held: bool,
}

fn as_json<S: Serializer>(text: &Option<&str>, serializer: S) -> Result<S::Ok, S::Error> {
    let raw: Option<&RawValue> = text.and_then(|text| serde_json::from_str(text).ok());
    raw.serialize(serializer)
}

/// Accepts a delivery, within its sender's timeout.
///
/// A sender that hangs up, or is asked to retry, must not stop the work half way: its run may be
/// committed under this process's lease, with no turn to move it. So the work continues as a task
/// of its own then, and keeps the memory that it takes.
pub(crate) async fn take_in<T, F>(app: &App, work: F) -> Result<T, ApiError>
where
    T: Send + 'static,
    F: Future<Output = Result<T, IntakeError>> + Send + 'static,
{
    let work = app.engine.finish(AssertUnwindSafe(work).catch_unwind());
    match tokio::time::timeout(app.options.accept_patience, work).await {
        Ok(Ok(taken)) => Ok(taken?),
        Ok(Err(_)) => Err(ApiError::internal("accepting a delivery panicked")),
        Err(_) => Err(ApiError::unavailable()),
    }
}

/// Answers with the run of a delivery, new or from the first delivery of its key.
pub(crate) fn receipt(status: StatusCode, accepted: &Accepted, held: bool) -> Answered {
    receipt_with_status(status, accepted, accepted.state.into(), held)
}

/// The same where the run's exact state is known.
pub(crate) fn receipt_with_status(
    status: StatusCode,
    accepted: &Accepted,
    state: RunStatus,
    held: bool,
) -> Answered {
    let receipt = Receipt {
        run: accepted.run,
        key: accepted.key.text(),
        flow: &accepted.flow,
        state,
        accepted_at: accepted.accepted_at,
        result: accepted.result.as_deref(),
        fault: accepted.fault.as_deref(),
        held,
    };
    let mut response = answer::json(status, &receipt)?;
    if accepted.replayed {
        answer::mark_replayed(&mut response);
    }
    Ok(response)
}

/// Answers to a delivery for which the trigger's `when` is false.
pub(crate) fn ignored() -> Answered {
    #[derive(Serialize)]
    struct Ignored {
        ignored: bool,
    }
    answer::ok(&Ignored { ignored: true })
}

/// Answers a provider whose delivery brought a known key with another payload. It is recorded and
/// nothing was started; but a provider that gets an error sends the same again for days, and
/// disables the hook in the end.
pub(crate) fn mismatched(run: RunId) -> Answered {
    #[derive(Serialize)]
    struct Mismatched {
        accepted: bool,
        code: &'static str,
        detail: String,
        run: RunId,
    }
    tracing::warn!(run.id = %run, "a known key came with another payload: nothing was started");
    answer::ok(&Mismatched {
        accepted: false,
        code: Code::PayloadMismatch.as_str(),
        detail: belongs_to(run),
        run,
    })
}

/// Answers to a delivery that is older than what was accepted of its object.
pub(crate) fn stale(stale: &StaleDelivery) -> Answered {
    #[derive(Serialize)]
    struct Late<'a> {
        stale: bool,
        flow: &'a str,
        key: String,
        object: &'a str,
        version: &'a str,
        newest: &'a str,
        run: RunId,
    }
    answer::ok(&Late {
        stale: true,
        flow: &stale.flow,
        key: stale.key.text(),
        object: &stale.object,
        version: &stale.version,
        newest: &stale.newest,
        run: stale.run,
    })
}

/// When a sender whose namespace has too many runs waiting comes back.
const BACKLOG_REST: Span = Span::from_const_secs(10);

/// Why a delivery was not accepted.
impl From<IntakeError> for ApiError {
    fn from(error: IntakeError) -> Self {
        match error {
            IntakeError::UnknownHook => Self::plain(Code::HookNotFound),
            IntakeError::SignatureInvalid => Self::plain(Code::SignatureInvalid),
            IntakeError::UnknownFlow => Self::plain(Code::FlowNotFound),
            IntakeError::NoTrigger { kind } => Self::new(
                Code::TriggerNotDeclared,
                format!("the flow has no trigger `{kind}`"),
            ),
            IntakeError::NotJson(detail) => Self::new(Code::BodyNotJson, detail),
            IntakeError::NoKey => Self::plain(Code::KeyMissing),
            IntakeError::KeyFailed(detail) => Self::new(Code::KeyFailed, detail),
            IntakeError::KeyDeclared => Self::plain(Code::KeyDeclared),
            IntakeError::InputInvalid(detail) => Self::new(Code::InputInvalid, detail),
            IntakeError::Mismatch { run } => mismatch(run),
            IntakeError::TooLarge => Self::plain(Code::BodyTooLarge),
            IntakeError::BacklogFull { .. } => {
                Self::new(Code::BacklogFull, error.to_string()).retry_in(BACKLOG_REST)
            }
            IntakeError::Unavailable(cause) => {
                // The store's writer logs that the database is unavailable; a storm of deliveries
                // must not repeat it line by line.
                tracing::debug!(cause, "a delivery was not acknowledged");
                Self::unavailable()
            }
        }
    }
}

fn mismatch(run: RunId) -> ApiError {
    tracing::info!(run.id = %run, "a known key came with another payload and was refused");
    ApiError::new(Code::PayloadMismatch, belongs_to(run)).about(run)
}

fn belongs_to(run: RunId) -> String {
    format!("the key belongs to {run}, which was started with another payload")
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use semel_api::types::Started;
    use semel_model::{ClaimId, Key};
    use uuid::Uuid;

    use super::*;

    #[tokio::test]
    async fn a_receipt_reads_as_what_clients_know() {
        let run = RunId::derive(ClaimId::from_uuid(Uuid::from_u128(7)), 0);
        let accepted = Accepted {
            run,
            key: Key::new(*b"order-42").unwrap(),
            flow: "orders".to_owned(),
            replayed: true,
            state: semel_model::run::RunState::Succeeded,
            result: Some("{\"paid\": true}".to_owned()),
            fault: None,
            accepted_at: Timestamp::UNIX_EPOCH,
        };

        let response = receipt(StatusCode::ACCEPTED, &accepted, false).unwrap();
        let replayed = response.headers()[answer::REPLAYED].clone();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        let started: Started = serde_json::from_slice(&body).unwrap();

        assert_eq!(replayed, "true");
        assert_eq!(started.run, run);
        assert_eq!(started.state, RunStatus::Succeeded);
        assert_eq!(started.result, Some(serde_json::json!({"paid": true})));
        assert_eq!(started.fault, None);
    }
}
