//! Child runs: items and branches.

use axum::extract::State;
use semel_api::Code;
use semel_api::types::{ChildRun, ChildRunFilter, ChildRunState, Page, RunStatus};
use semel_store::child_runs::{self, ChildRunView};

use crate::answer::{Answered, read_json};
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::payloads;
use crate::query::{Named, Params, page_size};
use crate::runs;

/// `GET /v1/runs/{run}/child-runs`.
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    run: Named,
    Params(filter): Params<ChildRunFilter>,
) -> Answered {
    let run = runs::get(&app, &caller, run.read(Code::RunNotFound)?).await?;
    let limit = page_size(filter.limit);
    let after = match filter.cursor.as_deref().map(read_cursor) {
        Some(after) => Some(after?),
        None => None,
    };
    let wanted = child_runs::ChildRunFilter {
        step: filter.step.as_deref(),
        state: filter.state.map(ChildRunState::as_str),
        after: after.as_ref().map(|(step, index)| (step.as_str(), *index)),
    };
    let found = child_runs::list(app.cell().of(run.id), run.id, wanted, i64::from(limit)).await?;
    let more = found.len() == usize::from(limit);
    let next = found.last().filter(|_| more);
    let page = Page {
        next: next.map(|last| format!("{}:{}", last.index, last.step)),
        items: found.iter().filter_map(view).collect(),
    };
    payloads::ok(&caller, page)
}

fn read_cursor(text: &str) -> Result<(String, i32), ApiError> {
    let read = text.split_once(':').and_then(|(index, step)| {
        let index = index.parse().ok()?;
        Some((step.to_owned(), index))
    });
    read.ok_or_else(|| {
        ApiError::new(
            Code::QueryInvalid,
            "`cursor` is not one that this server gave",
        )
    })
}

pub(crate) fn view(child: &ChildRunView) -> Option<ChildRun> {
    Some(ChildRun {
        step: child.step.clone(),
        index: child.index,
        key: child.key.clone(),
        run: child.run,
        state: child.state.parse().ok()?,
        run_state: child.run_state.map(RunStatus::from),
        result: read_json(child.result.as_deref()),
        fault: read_json(child.fault.as_deref()),
    })
}
