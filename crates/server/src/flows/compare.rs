//! What is made of the text of releases: the picture of one, and what two of them mean differently.

use axum::extract::State;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderValue, StatusCode};
use axum::response::IntoResponse;
use semel_api::Code;
use semel_api::types::{DiffFilter, FlowDiff, FlowDifference, GraphFilter};
use semel_flow::{Examined, Severity};
use semel_model::FlowName;
use semel_store::flows::{self, FlowView, ReleaseView};

use crate::answer::{self, Answered};
use crate::app::App;
use crate::auth::Caller;
use crate::console::Graph;
use crate::error::ApiError;
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
    let (flow, releases) = find(&app, &caller, &name).await?;
    let number = filter.release.or(flow.live).or(flow.latest);
    let source = source_of(&releases, number)?;
    let examined = examine(&app, &caller, &name, source).await?;
    let graph = Graph {
        name: name.as_str(),
        starts: examined.starts(),
        steps: &examined.0.chart,
        whole: filter.whole,
    };
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("image/svg+xml")),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    Ok((StatusCode::OK, headers, graph.as_file()).into_response())
}

/// `GET /v1/flows/{flow}/diff`.
pub(crate) async fn diff(
    State(app): State<App>,
    caller: Caller,
    flow: Named,
    Params(filter): Params<DiffFilter>,
) -> Answered {
    let name = flow.flow()?;
    let (flow, releases) = find(&app, &caller, &name).await?;
    let first = releases.iter().map(|release| release.number).min();
    let before = filter.before.or(flow.live).or(first);
    let (after, new) = match (filter.after, &flow.draft) {
        (None, Some(draft)) => ("draft".to_owned(), draft.clone()),
        (after, _) => {
            let number = after.or(flow.latest);
            (spelled(number), source_of(&releases, number)?)
        }
    };
    let old = source_of(&releases, before)?;
    let old = examine(&app, &caller, &name, old).await?.0;
    let new = examine(&app, &caller, &name, new).await?.0;
    let differences = semel_flow::compare(&old, &new);
    answer::ok(&FlowDiff {
        flow: name.to_string(),
        before: spelled(before),
        after,
        differences: differences.into_iter().map(view).collect(),
    })
}

fn spelled(number: Option<i32>) -> String {
    number.map_or_else(String::new, |number| format!("r{number}"))
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

async fn find(
    app: &App,
    caller: &Caller,
    name: &FlowName,
) -> Result<(FlowView, Vec<ReleaseView>), ApiError> {
    let home = app.cell().home();
    let mut found = flows::list(home, caller.namespace_id, Some(name.as_str())).await?;
    let Some(flow) = found.pop() else {
        return Err(ApiError::plain(Code::FlowNotFound));
    };
    let home = app.cell().home();
    let releases = flows::list_releases(home, caller.namespace_id, name.as_str()).await?;
    Ok((flow, releases))
}

fn source_of(releases: &[ReleaseView], number: Option<i32>) -> Result<String, ApiError> {
    let mut releases = releases.iter();
    let found = releases.find(|release| Some(release.number) == number);
    match found {
        Some(release) => Ok(release.source.clone()),
        None => Err(ApiError::plain(Code::ReleaseNotFound)),
    }
}

/// What is known of a text, with the connections as they are.
struct Known(Examined);

impl Known {
    fn starts(&self) -> Vec<semel_model::TriggerKind> {
        let starts = self.0.inventory.starts.iter();
        starts.map(|start| start.trigger).collect()
    }
}

/// Examines a text off the threads that serve requests.
async fn examine(
    app: &App,
    caller: &Caller,
    name: &FlowName,
    source: String,
) -> Result<Known, ApiError> {
    let namespace_id = caller.namespace_id;
    let facts = app.engine.facts(namespace_id, Severity::Warning).await?;
    let file = format!("{name}.flow.yaml");
    let examining =
        tokio::task::spawn_blocking(move || semel_flow::examine(&file, &source, &facts));
    let examined = examining.await;
    examined
        .map(Known)
        .map_err(|_| ApiError::internal("a check panicked"))
}
