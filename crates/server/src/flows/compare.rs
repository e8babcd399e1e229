//! What is made of the text of releases: the picture of one, and what two of them mean differently.

use axum::extract::State;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderValue, StatusCode};
use axum::response::IntoResponse;
use semel_api::Code;
use semel_api::types::{DiffFilter, FlowDiff, FlowDifference, GraphFilter};
use semel_flow::{Examined, Severity};
use semel_model::FlowName;
use semel_store::flows::{self, FlowView};

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
    let flow = find(&app, &caller, &name).await?;
    let number = filter.release.or(flow.live).or(flow.latest);
    let source = source_of(&app, &caller, &name, number).await?;
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
    let flow = find(&app, &caller, &name).await?;
    let before = match filter.before.or(flow.live) {
        Some(number) => Some(number),
        None => {
            let home = app.cell().home();
            flows::find_first_number(home, caller.namespace_id, name.as_str()).await?
        }
    };
    let (after, new) = match (filter.after, &flow.draft) {
        (None, Some(draft)) => ("draft".to_owned(), draft.clone()),
        (after, _) => {
            let number = after.or(flow.latest);
            let source = source_of(&app, &caller, &name, number).await?;
            (spelled(number), source)
        }
    };
    let old = source_of(&app, &caller, &name, before).await?;
    let compared = work_through(&app, &caller, &name, [old, new], |_, [old, new]| {
        semel_flow::compare(&old, &new)
    });
    let differences = compared.await?;
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

async fn find(app: &App, caller: &Caller, name: &FlowName) -> Result<FlowView, ApiError> {
    let home = app.cell().home();
    let mut found = flows::list(home, caller.namespace_id, Some(name.as_str())).await?;
    found
        .pop()
        .ok_or_else(|| ApiError::plain(Code::FlowNotFound))
}

/// The text of one release. A flow may have very many.
async fn source_of(
    app: &App,
    caller: &Caller,
    name: &FlowName,
    number: Option<i32>,
) -> Result<String, ApiError> {
    let missing = || ApiError::plain(Code::ReleaseNotFound);
    let number = number.ok_or_else(missing)?;
    let home = app.cell().home();
    let found = flows::find_source(home, caller.namespace_id, name.as_str(), number).await?;
    found.ok_or_else(missing)
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
    heavy::compute(move || {
        let file = format!("{name}.flow.yaml");
        let examined = sources.map(|source| semel_flow::examine(&file, &source, &facts));
        make(&name, examined)
    })
    .await
}
