//! Child runs: items and branches.

use axum::extract::State;
use semel_api::Code;
use semel_api::types::{ChildRun, ChildRunFilter, ChildRunState, Page, RunStatus};
use semel_store::child_runs::{self, ChildRunView};

use crate::answer::{Answered, read_json};
use crate::app::App;
use crate::auth::Caller;
use crate::query::{Named, Params, page_size};
use crate::{cursor, payloads, runs};

/// `GET /v1/runs/{run}/child-runs`.
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    run: Named,
    Params(filter): Params<ChildRunFilter>,
) -> Answered {
    let run = runs::get(&app, &caller, run.read(Code::RunNotFound)?).await?;
    let limit = page_size(filter.limit);
    let after = cursor::read_child(filter.cursor.as_deref())?;
    let wanted = child_runs::ChildRunFilter {
        step: filter.step.as_deref(),
        state: filter.state.map(ChildRunState::as_str),
        after: after.as_ref().map(|(step, index)| (step.as_str(), *index)),
    };
    let found = child_runs::list(app.cell().of(run.id), run.id, wanted, i64::from(limit)).await?;
    let more = found.len() == usize::from(limit);
    let next = found.last().filter(|_| more);
    let page = Page {
        next: next.map(cursor::write_child),
        items: found.iter().filter_map(view).collect(),
    };
    payloads::ok(&caller, page)
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
