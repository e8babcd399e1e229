//! Decisions about held deliveries.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use semel_api::Code;
use semel_api::types::{AcceptAsNew, DecidedHeld, HeldReason};
use semel_engine::{HeldError, HeldWish};
use semel_model::DuplicateId;
use serde_json::Value;

use crate::answer::Answered;
use crate::app::App;
use crate::auth::Caller;
use crate::body::Payload;
use crate::commands::{self, Command, Reply};
use crate::error::ApiError;
use crate::query::{Named, read_key};

/// `POST /v1/duplicates/{duplicate}/accept-as-new`.
pub(crate) async fn accept_as_new(
    State(app): State<App>,
    caller: Caller,
    duplicate: Named,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let (AcceptAsNew { key, reason }, body) = payload.read()?;
    let wish = HeldWish::NewKey(read_key(key.as_bytes())?);
    let asked = Asked {
        verb: "accept-as-new",
        wish,
        reason,
        body,
    };
    decide(app, &caller, &duplicate, &headers, asked).await
}

/// `POST /v1/duplicates/{duplicate}/accept-as-repeat`.
pub(crate) async fn accept_as_repeat(
    State(app): State<App>,
    caller: Caller,
    duplicate: Named,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let asked = Asked::read(&payload, "accept-as-repeat", HeldWish::Repeat)?;
    decide(app, &caller, &duplicate, &headers, asked).await
}

/// `POST /v1/duplicates/{duplicate}/dismiss`.
pub(crate) async fn dismiss(
    State(app): State<App>,
    caller: Caller,
    duplicate: Named,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let asked = Asked::read(&payload, "dismiss", HeldWish::Dismiss)?;
    decide(app, &caller, &duplicate, &headers, asked).await
}

/// What is asked for.
struct Asked {
    verb: &'static str,
    wish: HeldWish,
    reason: String,
    body: Value,
}

impl Asked {
    /// What is asked for with nothing but a reason.
    fn read(payload: &Payload, verb: &'static str, wish: HeldWish) -> Result<Self, ApiError> {
        let (HeldReason { reason }, body) = payload.read()?;
        Ok(Self {
            verb,
            wish,
            reason,
            body,
        })
    }
}

async fn decide(
    app: App,
    caller: &Caller,
    duplicate: &Named,
    headers: &HeaderMap,
    asked: Asked,
) -> Answered {
    let id: DuplicateId = duplicate.read(Code::DuplicateNotFound)?;
    let Asked {
        verb,
        wish,
        reason,
        body,
    } = asked;
    let command = Command {
        verb,
        subject: duplicate.as_str(),
        body: &body,
        headers,
    };
    let (engine, asking) = (app.engine.clone(), caller.clone());
    commands::once(app, caller, command, async move {
        let actor = asking.actor();
        let outcome = engine.decide_held(asking.acting(&actor), id, &wish, &reason);
        let outcome = outcome.await?;
        let decision = outcome.decision.as_str();
        tracing::info!(duplicate.id = %id, decision, actor, "held delivery decided");
        let done = DecidedHeld {
            duplicate: id,
            decision: decision.to_owned(),
            run: outcome.run,
        };
        Reply::new(StatusCode::OK, &done)
    })
    .await
}

impl From<HeldError> for ApiError {
    fn from(error: HeldError) -> Self {
        match error {
            HeldError::Unknown => Self::plain(Code::DuplicateNotFound),
            HeldError::Decided(ref made) => {
                let refusal = Self::new(Code::HeldDecided, error.to_string());
                match made.run {
                    Some(run) => refusal.about(run),
                    None => refusal,
                }
            }
            HeldError::Overtaken { run, .. } => {
                Self::new(Code::HeldDecided, error.to_string()).about(run)
            }
            HeldError::NotLive(_) => Self::new(Code::HeldNotAccepted, error.to_string()),
            HeldError::Unfit(detail) => Self::new(Code::HeldNotAccepted, detail),
            HeldError::Intake(error) => error.into(),
            HeldError::Reason(error) => error.into(),
            HeldError::Unavailable(cause) => Self::database(&cause),
        }
    }
}
