//! What is made of the text of releases: the picture of one, and what two of them mean differently.

use std::collections::HashMap;

use axum::extract::State;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderValue, StatusCode};
use axum::response::IntoResponse;
use semel_api::Code;
use semel_api::types::{DiffFilter, FlowDiff, FlowDifference, GraphFilter};
use semel_flow::{Examined, Severity};
use semel_model::FlowName;
use semel_store::flows::{self, FlowView};

use super::view_diagnostic;
use crate::answer::{self, Answered};
use crate::app::App;
use crate::auth::Caller;
use crate::console::{Graph, StepCounts};
use crate::error::ApiError;
use crate::heavy;
use crate::query::{Named, Params};

/// A picture alone: nothing in it acts, and nothing is loaded for it.
const POLICY: HeaderValue =
    HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'; sandbox");

/// `GET /v1/flows/{flow}/graph.svg`.
pub(crate) async fn graph(
    State(app): State<App>,
    caller: Caller,
    flow: Named,
    Params(filter): Params<GraphFilter>,
) -> Answered {
    let name = flow.flow()?;
    let number = match filter.release {
        Some(number) => Some(number),
        None => {
            let flow = find(&app, &caller, &name).await?;
            flow.live.or(flow.latest)
        }
    };
    let missing = || ApiError::plain(Code::ReleaseNotFound);
    let number = number.ok_or_else(missing)?;
    let mut sources = sources_of(&app, &caller, &name, &[number]).await?;
    let source = sources.remove(&number).ok_or_else(missing)?;
    let whole = filter.whole;
    let drawn = work_through(&app, &caller, &name, [source], move |name, [examined]| {
        let starts = examined.inventory.starts.iter();
        let graph = Graph {
            name,
            starts: starts.map(|start| start.trigger).collect(),
            steps: &examined.chart,
            whole,
            counts: StepCounts::default(),
        };
        graph.as_file()
    });
    let picture = drawn.await?;
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("image/svg+xml")),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    Ok((StatusCode::OK, headers, picture).into_response())
}

/// `GET /v1/flows/{flow}/diff`.
pub(crate) async fn diff(
    State(app): State<App>,
    caller: Caller,
    flow: Named,
    Params(filter): Params<DiffFilter>,
) -> Answered {
    let name = flow.flow()?;
    let (before, after, draft) = match (filter.before, filter.after) {
        (Some(before), Some(after)) => (Some(before), Some(after), None),
        (before, after) => {
            let flow = find(&app, &caller, &name).await?;
            let before = match before.or(flow.live) {
                Some(number) => Some(number),
                None => {
                    let home = app.cell().home();
                    flows::find_first_number(home, caller.namespace_id, name.as_str()).await?
                }
            };
            let draft = flow.draft.filter(|_| after.is_none());
            (before, after.or(flow.latest), draft)
        }
    };
    let missing = || ApiError::plain(Code::ReleaseNotFound);
    let before = before.ok_or_else(missing)?;
    let numbers: Vec<i32> = [Some(before), after].into_iter().flatten().collect();
    let sources = sources_of(&app, &caller, &name, &numbers).await?;
    let text = |number: i32| sources.get(&number).cloned().ok_or_else(missing);
    let old = text(before)?;
    let (after, new) = match draft {
        Some(draft) => ("draft".to_owned(), draft),
        None => {
            let number = after.ok_or_else(missing)?;
            (spelled(number), text(number)?)
        }
    };
    let compared = work_through(&app, &caller, &name, [old, new], |_, [old, new]| {
        let differences = semel_flow::compare(&old, &new);
        (differences, new.diagnostics)
    });
    let (differences, diagnostics) = compared.await?;
    answer::ok(&FlowDiff {
        flow: name.to_string(),
        before: spelled(before),
        after,
        differences: differences.into_iter().map(view).collect(),
        diagnostics: diagnostics.iter().map(view_diagnostic).collect(),
    })
}

fn spelled(number: i32) -> String {
    format!("r{number}")
}

fn view(found: semel_flow::Difference) -> FlowDifference {
    let kind = serde_json::to_value(found.kind).unwrap_or_default();
    FlowDifference {
        kind: kind.as_str().unwrap_or_default().to_owned(),
        step: found.step,
        before: found.before,
        after: found.after,
        means: found.means.map(str::to_owned),
    }
}

async fn find(app: &App, caller: &Caller, name: &FlowName) -> Result<FlowView, ApiError> {
    let home = app.cell().home();
    let found = flows::find(home, caller.namespace_id, name.as_str()).await?;
    found.ok_or_else(|| ApiError::plain(Code::FlowNotFound))
}

/// The texts of releases, by their numbers. A flow may have very many.
async fn sources_of(
    app: &App,
    caller: &Caller,
    name: &FlowName,
    numbers: &[i32],
) -> Result<HashMap<i32, String>, ApiError> {
    let (home, namespace_id) = (app.cell().home(), caller.namespace_id);
    let found = flows::find_sources(home, namespace_id, name.as_str(), numbers).await?;
    if found.is_empty() {
        // The flow may be what is missing.
        find(app, caller, name).await?;
    }
    Ok(found)
}

/// Examines texts with the connections as they are, and makes something of them.
async fn work_through<T: Send + 'static, const N: usize>(
    app: &App,
    caller: &Caller,
    name: &FlowName,
    sources: [String; N],
    make: impl FnOnce(&str, [Examined; N]) -> T + Send + 'static,
) -> Result<T, ApiError> {
    let namespace_id = caller.namespace_id;
    let facts = app.engine.facts(namespace_id, Severity::Warning).await?;
    let name = name.to_string();
    heavy::compute(namespace_id, move || {
        let file = format!("{name}.flow.yaml");
        let examined = sources.map(|source| semel_flow::examine(&file, &source, &facts));
        make(&name, examined)
    })
    .await
}
