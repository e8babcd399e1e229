//! Promoting a release: where a rehearsal is required, only one that is proven or was live before.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use semel_api::Code;
use semel_api::types::{Promote, Promoted};
use semel_engine::{Engine, FlowError};
use semel_model::{FlowName, Right};
use semel_rehearse::ReleaseText;
use semel_store::flows::{self, ReleaseView};

use crate::answer::Answered;
use crate::app::App;
use crate::auth::Caller;
use crate::body::Payload;
use crate::commands::{self, Command, Reply};
use crate::error::ApiError;
use crate::query::Named;

/// `POST /v1/flows/{flow}/promote`.
pub(crate) async fn promote(
    State(app): State<App>,
    caller: Caller,
    flow: Named,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let name = flow.flow()?;
    let (
        Promote {
            release,
            override_reason,
        },
        body,
    ) = payload.read()?;
    if override_reason.is_some() && !caller.may(Right::Override) {
        return Err(caller.lacks(Right::Override));
    }
    let required = app.options.require_rehearsal;
    let proven = required && override_reason.is_none();
    let command = Command {
        verb: "promote",
        subject: name.as_str(),
        body: &body,
        headers: &headers,
    };
    let (engine, actor) = (app.engine.clone(), caller.actor());
    let rehearsals = app.rehearsals.clone();
    let (namespace_id, flow) = (caller.namespace_id, name.clone());
    commands::once(app, &caller, command, async move {
        let which = (namespace_id, &flow, release);
        match (&override_reason, proven) {
            (Some(reason), _) => engine.promote_unproven(which, &actor, reason).await?,
            (None, true) => match semel_rehearse::promote(&engine, which, &actor).await {
                Err(FlowError::NotRehearsed) => return Err(not_rehearsed(&engine, which).await),
                promoted => promoted?,
            },
            (None, false) => {
                let promoting = engine.promote_flow(namespace_id, &flow, release, &actor);
                promoting.await?;
            }
        }
        tracing::info!(%flow, release, actor, "release promoted");
        let proof = promoted_proof(&engine, which).await?;
        // What went live unproven is rehearsed afterwards, and so are the flows that call this one.
        if required {
            rehearsals.look_again();
        }
        let promoted = Promoted {
            flow,
            release,
            proof,
        };
        Reply::new(StatusCode::OK, &promoted)
    })
    .await
}

/// The refusal of a release that no rehearsal has proven, with what to do about it.
async fn not_rehearsed(engine: &Engine, which: (i32, &FlowName, i32)) -> ApiError {
    let found = find_release(engine, which).await;
    let source = found.ok().flatten().map(|release| release.source);
    let (_, flow, number) = which;
    match source.filter(|source| semel_flow::examples(source).is_empty()) {
        Some(source) => {
            let detail = format!("{flow} r{number} has no examples to rehearse it with");
            let lines = semel_rehearse::first_example(&source);
            let hint = format!("Add an example to the flow and publish it again:\n{lines}");
            ApiError::new(Code::FlowNotRehearsed, detail).with_hint(hint)
        }
        None => match promoted_proof(engine, which).await {
            Ok(Some(proof)) => {
                let detail = format!("{flow} r{number} is {proof}");
                ApiError::new(Code::FlowNotRehearsed, detail)
            }
            Ok(None) | Err(_) => ApiError::plain(Code::FlowNotRehearsed),
        },
    }
}

async fn find_release(
    engine: &Engine,
    (namespace_id, flow, number): (i32, &FlowName, i32),
) -> Result<Option<ReleaseView>, ApiError> {
    let home = engine.cell().home();
    let releases = flows::list_releases(home, namespace_id, flow.as_str()).await?;
    let mut numbered = releases.into_iter();
    Ok(numbered.find(|release| release.number == number))
}

/// Whether a rehearsal has proven the release that was promoted, in words.
async fn promoted_proof(
    engine: &Engine,
    which: (i32, &FlowName, i32),
) -> Result<Option<String>, ApiError> {
    let (namespace_id, flow, _) = which;
    let Some(release) = find_release(engine, which).await? else {
        return Ok(None);
    };
    let cell = engine.cell();
    let text = ReleaseText {
        flow: flow.as_str(),
        digest: &release.digest,
        source: &release.source,
    };
    let proof = semel_rehearse::proof_of(cell, namespace_id, text).await?;
    Ok(Some(proof.to_string()))
}
