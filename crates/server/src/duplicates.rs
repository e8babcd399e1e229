//! Duplicates: the repeats that were stopped.

use axum::extract::State;
use semel_api::types::{Duplicate, Page};
use semel_model::{Key, RunId};
use semel_store::duplicates::{self, DuplicateView};
use serde::Deserialize;

use crate::access::Caller;
use crate::answer::{self, Answered};
use crate::app::App;
use crate::query::{Params, page_size, read_key};
use crate::refusal::Refusal;
use crate::runs::{self, read_json};

/// Which duplicates to list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filter {
    #[serde(default)]
    run: Option<RunId>,
    #[serde(default)]
    key: Option<String>,
    #[serde(default)]
    limit: Option<u16>,
}

/// `GET /v1/duplicates`.
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(filter): Params<Filter>,
) -> Answered {
    let limit = page_size(filter.limit);
    let mut found = match &filter.key {
        Some(key) => of_key(&app, &caller, &read_key(key.as_bytes())?, limit).await?,
        None => duplicates::list(app.cell(), caller.namespace_id, filter.run, limit).await?,
    };
    found.retain(|duplicate| filter.run.is_none_or(|run| duplicate.run == run));
    found.truncate(usize::from(limit));
    answer::ok(&Page {
        items: found.iter().map(view).collect(),
        next: None,
    })
}

/// The repeats of a key, by way of its runs.
async fn of_key(
    app: &App,
    caller: &Caller,
    key: &Key,
    limit: u16,
) -> Result<Vec<DuplicateView>, Refusal> {
    let mut found = Vec::new();
    for run in runs::find_by_key(app, caller, None, key).await? {
        let of_run = duplicates::list(app.cell(), caller.namespace_id, Some(run.id), limit).await?;
        found.extend(of_run);
    }
    found.sort_by_key(|duplicate| std::cmp::Reverse(duplicate.last_at));
    Ok(found)
}

fn view(duplicate: &DuplicateView) -> Duplicate {
    let key = duplicate.key.clone().and_then(|bytes| Key::new(bytes).ok());
    Duplicate {
        run: duplicate.run,
        flow: duplicate.flow.clone(),
        key: key.map(|key| key.text()),
        place: duplicate.place.clone(),
        verdict: duplicate.verdict.clone(),
        count: duplicate.count,
        first_at: duplicate.first_at,
        last_at: duplicate.last_at,
        fingerprint: duplicate.fingerprint.to_string(),
        payload: read_json(duplicate.payload.as_deref()),
    }
}
