//! Keys: what is known of one, and how it is freed. The key stands in the query, since it may be
//! any text.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use semel_api::Code;
use semel_api::types::{DropKey, Dropped, KeyInfo};
use semel_engine::DropError;
use semel_model::ClaimId;
use semel_store::{claims, runs};

use crate::access::Caller;
use crate::answer::{self, Answered};
use crate::app::App;
use crate::body::Payload;
use crate::commands::{self, Command, Reply};
use crate::query::{Named, OfKey, Params};
use crate::refusal::Refusal;
use crate::runs::standing;

/// `GET /v1/keys/{flow}?key=`.
pub(crate) async fn show(
    State(app): State<App>,
    caller: Caller,
    flow: Named,
    Params(of): Params<OfKey>,
) -> Answered {
    let (flow, key) = (flow.flow()?, of.read()?);
    let claim = ClaimId::derive(&caller.namespace, &flow, &key);
    let claim = claims::find(app.cell(), claim)
        .await?
        .ok_or_else(|| Refusal::plain(Code::KeyNotFound))?;
    let run = runs::find(app.cell(), caller.namespace_id, claim.run).await?;
    answer::ok(&KeyInfo {
        flow,
        key: key.text(),
        claim: claim.id,
        run: claim.run,
        state: run.as_ref().map(standing),
        fingerprint: claim.fingerprint.to_string(),
        expires_at: claim.expires_at,
    })
}

/// `POST /v1/keys/{flow}/drop?key=`.
pub(crate) async fn drop_key(
    State(app): State<App>,
    caller: Caller,
    flow: Named,
    Params(of): Params<OfKey>,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let (flow, key) = (flow.flow()?, of.read()?);
    let (DropKey { reason }, body) = payload.read()?;
    let subject = format!("{flow}?{}", of.key);
    let command = Command {
        verb: "drop",
        subject: &subject,
        body: &body,
        headers: &headers,
    };
    let (engine, asking) = (app.engine.clone(), caller.clone());
    commands::once(app, &caller, command, async move {
        let (id, namespace) = (asking.namespace_id, &asking.namespace);
        let actor = asking.actor();
        let run = engine
            .drop_key(id, namespace, &flow, &key, &reason, &actor)
            .await?;
        tracing::info!(run.id = %run, key = %key, actor, "a key was dropped");
        let done = Dropped {
            flow,
            key: key.text(),
            run,
        };
        Reply::new(StatusCode::OK, &done)
    })
    .await
}

impl From<DropError> for Refusal {
    fn from(error: DropError) -> Self {
        match error {
            DropError::Unknown => Self::plain(Code::KeyNotFound),
            DropError::RunNotEnded { run } => {
                Self::new(Code::RunNotEnded, format!("{run} has not ended")).about(run)
            }
            DropError::Unavailable(cause) => Self::database(&cause),
        }
    }
}
