//! Flows: list, show, push a draft, publish it, promote a release.

pub(crate) mod compare;
pub(crate) mod promote;
pub(crate) mod releases;

use std::collections::HashMap;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use semel_api::Code;
use semel_api::types::{Diagnostic, Draft, Flow, FlowDetail, Page, Published, PushFlow, Release};
use semel_engine::FlowError;
use semel_flow::{CheckContext, Checked, Severity};
use semel_model::FlowName;
use semel_rehearse::{Proof, ReleaseText};
use semel_store::flows::{self, FlowView, ReleaseView};
use semel_store::pauses::PauseKind;
use serde_json::Value;

use crate::answer::{self, Answered};
use crate::app::App;
use crate::auth::Caller;
use crate::body::Payload;
use crate::commands::{self, Command, Reply};
use crate::error::ApiError;
use crate::pauses;
use crate::query::Named;

/// `GET /v1/flows`.
pub(crate) async fn list(State(app): State<App>, caller: Caller) -> Answered {
    let (home, namespace_id) = (app.cell().home(), caller.namespace_id);
    let found = flows::list(home, namespace_id).await?;
    let live = flows::list_live_of(app.cell().home(), namespace_id).await?;
    let texts: Vec<ReleaseText<'_>> = live
        .iter()
        .map(|release| ReleaseText {
            flow: &release.flow,
            digest: &release.digest,
            source: &release.source,
        })
        .collect();
    let proofs = semel_rehearse::proofs_of(app.cell(), namespace_id, &texts).await?;
    let proofs = texts.iter().map(|release| release.flow).zip(proofs);
    let proofs: HashMap<&str, Proof> = proofs.collect();
    let mut paused = pauses::by_name(&app, namespace_id, PauseKind::Flow).await?;
    let items = found
        .iter()
        .map(|flow| Flow {
            proof: proofs.get(flow.name.as_str()).map(Proof::to_string),
            paused: paused.remove(&flow.name),
            ..view(flow)
        })
        .collect();
    answer::ok(&Page { items, next: None })
}

/// `GET /v1/flows/{flow}`.
pub(crate) async fn show(State(app): State<App>, caller: Caller, flow: Named) -> Answered {
    let name = flow.flow()?;
    let (home, namespace_id) = (app.cell().home(), caller.namespace_id);
    let found = flows::find_detail(home, namespace_id, name.as_str()).await?;
    let (flow, releases) = found.ok_or_else(|| ApiError::plain(Code::FlowNotFound))?;
    let texts: Vec<ReleaseText<'_>> = releases
        .iter()
        .map(|release| ReleaseText {
            flow: &flow.name,
            digest: &release.digest,
            source: &release.source,
        })
        .collect();
    let proofs = semel_rehearse::proofs_of(app.cell(), namespace_id, &texts).await?;
    // The first release of a flow has the number 1.
    let oldest = releases.last().map(|release| release.number);
    let older_releases = oldest.filter(|number| *number > 1);
    let releases: Vec<Release> = releases
        .into_iter()
        .zip(proofs)
        .map(|(release, proof)| Release {
            proof: Some(proof.to_string()),
            ..view_release(release)
        })
        .collect();
    let live = releases
        .iter()
        .find(|release| Some(release.number) == flow.live);
    let mut paused = pauses::by_name(&app, namespace_id, PauseKind::Flow).await?;
    answer::ok(&FlowDetail {
        flow: Flow {
            paused: paused.remove(&flow.name),
            proof: live.and_then(|release| release.proof.clone()),
            ..view(&flow)
        },
        draft: flow.draft.clone(),
        releases,
        older_releases: older_releases.map(|number| number.to_string()),
    })
}

/// `PUT /v1/flows/{flow}/draft`: the text itself, or JSON with the text under `source`.
pub(crate) async fn push(
    State(app): State<App>,
    caller: Caller,
    flow: Named,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let name = flow.flow()?;
    let source = read_source(&headers, &payload)?;
    // A connection may still be made before the draft is published.
    let facts = app
        .engine
        .facts(caller.namespace_id, Severity::Warning)
        .await?;
    let (source, checked) = check(&name, source, facts).await?;
    let warnings = diagnostics(&checked);
    match checked.flow {
        None => return Err(FlowError::Invalid(Box::new(checked)).into()),
        Some(flow) if flow.name != name => {
            let detail = format!("the text is of the flow `{}`", flow.name);
            return Err(ApiError::new(Code::FlowNameDiffers, detail));
        }
        Some(_) => {}
    }
    let flow = app.engine.push_flow(caller.namespace_id, &source).await?;
    answer::ok(&Draft {
        flow,
        diagnostics: warnings,
    })
}

fn read_source(headers: &HeaderMap, payload: &Payload) -> Result<String, ApiError> {
    let kind = headers.get(CONTENT_TYPE).map(|value| value.as_bytes());
    if kind.is_some_and(|kind| kind.starts_with(b"application/json")) {
        let (PushFlow { source }, _) = payload.read()?;
        return Ok(source);
    }
    match std::str::from_utf8(&payload.0) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(ApiError::new(Code::BodyInvalid, "the text is not UTF-8")),
    }
}

/// Checks a text off the threads that serve requests: it is the author's, and may take a while.
async fn check(
    name: &FlowName,
    source: String,
    facts: CheckContext,
) -> Result<(String, Checked), ApiError> {
    let file = format!("{name}.flow.yaml");
    let checking = tokio::task::spawn_blocking(move || {
        let checked = semel_flow::check_with(&file, &source, &facts);
        (source, checked)
    });
    checking
        .await
        .map_err(|_| ApiError::internal("a check panicked"))
}

/// `POST /v1/flows/{flow}/publish`.
pub(crate) async fn publish(
    State(app): State<App>,
    caller: Caller,
    flow: Named,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let name = flow.flow()?;
    let (_, body) = payload.read::<serde_json::Map<String, Value>>()?;
    let command = Command {
        verb: "publish",
        subject: name.as_str(),
        body: &body,
        headers: &headers,
    };
    let (engine, actor) = (app.engine.clone(), caller.actor());
    let (namespace_id, flow) = (caller.namespace_id, name.clone());
    commands::once(app, &caller, command, async move {
        let published = engine.publish_flow(namespace_id, &flow, &actor).await?;
        tracing::info!(%flow, release = published.number, actor, "release published");
        let status = match published.first {
            true => StatusCode::CREATED,
            false => StatusCode::OK,
        };
        let done = Published {
            flow,
            release: published.number,
            digest: published.digest,
            first: published.first,
        };
        Reply::new(status, &done)
    })
    .await
}

impl From<FlowError> for ApiError {
    fn from(error: FlowError) -> Self {
        match error {
            FlowError::Invalid(checked) => {
                Self::plain(Code::FlowInvalid).pointing_at(diagnostics(&checked))
            }
            FlowError::UnknownFlow => Self::plain(Code::FlowNotFound),
            FlowError::NoDraft => Self::plain(Code::DraftMissing),
            FlowError::UnknownRelease => Self::plain(Code::ReleaseNotFound),
            FlowError::NotRehearsed => Self::plain(Code::FlowNotRehearsed),
            FlowError::Reason => Self::plain(Code::ReasonInvalid),
            FlowError::HookTaken { flow } => {
                Self::new(Code::HookTaken, format!("the flow `{flow}` has this hook"))
            }
            FlowError::Unavailable(cause) => Self::database(&cause),
        }
    }
}

fn diagnostics(checked: &Checked) -> Vec<Diagnostic> {
    checked.diagnostics.iter().map(view_diagnostic).collect()
}

pub(crate) fn view_diagnostic(found: &semel_flow::Diagnostic) -> Diagnostic {
    let severity = match found.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    Diagnostic {
        code: found.code.to_string(),
        severity: severity.to_owned(),
        file: found.file.clone(),
        line: found.line,
        column: found.column,
        width: found.width,
        text: found.text.clone(),
        message: found.message.clone(),
        help: found.help.clone(),
    }
}

fn view(flow: &FlowView) -> Flow {
    Flow {
        name: flow.name.clone(),
        live: flow.live,
        live_at: flow.live_at,
        latest: flow.latest,
        proof: None,
        paused: None,
        draft_at: flow.draft_at,
        published_at: flow.published_at,
    }
}

fn view_release(release: ReleaseView) -> Release {
    Release {
        number: release.number,
        digest: release.digest,
        published_at: release.published_at,
        source: release.source,
        proof: None,
    }
}

#[cfg(test)]
mod tests {
    use semel_api::Code;

    #[test]
    fn diagnostics_and_api_errors_share_no_code() {
        for code in Code::ALL {
            let taken = semel_flow::Code::ALL
                .iter()
                .any(|other| other.as_str() == code.as_str());

            assert!(!taken, "{code}");
        }
    }
}
