//! Child runs: items and branches, also those of archived runs.

use axum::extract::State;
use semel_api::Code;
use semel_api::types::{ChildRun, ChildRunFilter, ChildRunState, Page};
use semel_model::RunId;
use semel_store::child_runs;
use semel_store::runs as store_runs;

use crate::answer::Answered;
use crate::app::App;
use crate::auth::Caller;
use crate::child_run_view::view;
use crate::error::ApiError;
use crate::list_memory::ListMemory;
use crate::query::{Named, Params, page_size};
use crate::{cursor, payloads, runs};

/// `GET /v1/runs/{run}/child-runs`.
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    run: Named,
    Params(filter): Params<ChildRunFilter>,
) -> Answered {
    let id = run.read(Code::RunNotFound)?;
    let after = cursor::read_child(filter.cursor.as_deref())?;
    let found = store_runs::find(app.cell().of(id), caller.namespace_id, id).await?;
    match found {
        Some(run) => list_live(&app, &caller, run.id, &filter, after).await,
        None => {
            let items = runs::find_items(&app, caller.namespace_id, id).await?;
            let (items, _memory) = items.ok_or_else(|| ApiError::plain(Code::RunNotFound))?;
            payloads::ok(&caller, pick(items, &filter, after))
        }
    }
}

async fn list_live(
    app: &App,
    caller: &Caller,
    run: RunId,
    filter: &ChildRunFilter,
    after: Option<(String, i32)>,
) -> Answered {
    let limit = page_size(filter.limit);
    let wanted = child_runs::ChildRunFilter {
        step: filter.step.as_deref(),
        state: filter.state.map(ChildRunState::as_str),
        after: after.as_ref().map(|(step, index)| (step.as_str(), *index)),
    };
    let memory = ListMemory::take(app, caller.namespace_id).await?;
    let (found, more) = child_runs::list_page(app.cell().of(run), run, wanted, limit).await?;
    let next = found.last().filter(|_| more);
    let next = next.map(|last| cursor::write_child(&last.step, last.index));
    payloads::page(caller, memory, found.iter().filter_map(view), |it| it, next)
}

/// A page of the items that a file lists. They are in the order of the database, so the page begins behind the
/// item that the cursor names, and nothing is compared.
fn pick(
    items: Vec<ChildRun>,
    filter: &ChildRunFilter,
    after: Option<(String, i32)>,
) -> Page<ChildRun> {
    let begin = after.map_or(0, |(step, index)| {
        let is_last = |it: &ChildRun| it.step == step && it.index == index;
        items
            .iter()
            .position(is_last)
            .map_or(items.len(), |at| at + 1)
    });
    let is_wanted = |it: &ChildRun| {
        filter.step.as_ref().is_none_or(|step| *step == it.step)
            && filter.state.is_none_or(|state| state == it.state)
    };
    let mut wanted = items.into_iter().skip(begin).filter(is_wanted);
    let items: Vec<ChildRun> = wanted
        .by_ref()
        .take(usize::from(page_size(filter.limit)))
        .collect();
    let next = items.last().filter(|_| wanted.next().is_some());
    Page {
        next: next.map(|last| cursor::write_child(&last.step, last.index)),
        items,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(step: &str, index: i32, state: ChildRunState) -> ChildRun {
        ChildRun {
            step: step.to_owned(),
            index,
            key: index.to_string(),
            run: RunId::from_uuid(uuid::Uuid::from_u128(1)),
            state,
            run_state: None,
            result: None,
            fault: None,
        }
    }

    #[test]
    fn the_items_of_a_file_are_paged_and_narrowed_as_those_of_the_database() {
        let states = [ChildRunState::Succeeded, ChildRunState::Failed];
        let all: Vec<ChildRun> = (0..7)
            .map(|index| item("each", index, states[index as usize % 2]))
            .chain([item("then", 0, ChildRunState::Failed)])
            .collect();
        let filter = ChildRunFilter {
            state: Some(ChildRunState::Failed),
            limit: Some(3),
            ..ChildRunFilter::default()
        };

        let first = pick(all.clone(), &filter, None);
        let after = cursor::read_child(first.next.as_deref()).unwrap();
        let second = pick(all.clone(), &filter, after);
        let of_step = ChildRunFilter {
            step: Some("then".to_owned()),
            ..ChildRunFilter::default()
        };

        let places =
            |page: &Page<ChildRun>| -> Vec<i32> { page.items.iter().map(|it| it.index).collect() };
        assert_eq!((places(&first), places(&second)), (vec![1, 3, 5], vec![0]));
        assert_eq!((second.items[0].step.as_str(), second.next), ("then", None));
        assert_eq!(pick(all, &of_step, None).items.len(), 1);
    }
}
