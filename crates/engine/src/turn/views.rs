//! What expressions see of the run itself, and where its callbacks are sent to.

use semel_flow::{Action, Flow, Step};
use semel_model::{Key, RunId};
use serde_json::{Value, json};

use super::fan::branch_run;
use crate::address::{self, Comer};
use crate::catalogue::Release;
use crate::runtime::Runtime;
use crate::state::FoldedRun;

/// What expressions see as `run` and `waits`.
pub(crate) struct Views {
    pub(crate) run: Value,
    pub(crate) waits: Value,
}

/// What a run's expressions see.
pub(crate) fn views(runtime: &Runtime, release: &Release, state: &FoldedRun, key: &Key) -> Views {
    let mut links = serde_json::Map::new();
    for step in release.flow.callbacks() {
        if let Some(comer) = comer(&release.flow, state, step) {
            let url = address::address(&runtime.options, comer, step.id.as_str());
            links.insert(step.id.to_string(), json!({ "url": url }));
        }
    }
    for step in release.flow.approvals() {
        if let Some(comer) = comer(&release.flow, state, step) {
            // The round that comes next, where this run itself asks.
            let rounds = state.rounds.get(step.id.as_str()).copied();
            let round = rounds.filter(|_| comer.run == state.run).unwrap_or(0);
            let url =
                address::approval_address(&runtime.options, comer.run, step.id.as_str(), round);
            links.insert(step.id.to_string(), json!({ "url": url }));
        }
    }
    Views {
        run: json!({
            "id": state.run.to_string(),
            "key": key.text(),
            "flow": release.flow.name.as_str(),
            "release": release.number,
        }),
        waits: Value::Object(links),
    }
}

/// The run that reaches a step: this run, a parent of it, or a branch of it. Which item of a list
/// will is not known from outside.
fn comer(flow: &Flow, state: &FoldedRun, step: &Step) -> Option<Comer> {
    let mut ways = Vec::new();
    let mut inside = step.inside;
    while let Some((place, list)) = inside {
        let holder = flow.steps.get(place)?;
        ways.push((holder, list));
        inside = holder.inside;
    }
    let around = state
        .child_of
        .as_ref()
        .map_or(&[][..], |child| &child.around);
    let here = (state.run, state.first());
    let mut run = around
        .first()
        .map_or(here, |around| (around.run, around.first));
    let mut begins_in = None;
    let mut is_mine = true;
    for (depth, (holder, list)) in ways.into_iter().rev().enumerate() {
        let mine = around.get(depth).filter(|around| {
            let branch = matches!(holder.action, Action::Parallel(_)).then_some(list);
            is_mine
                && around.step == holder.id.as_str()
                && branch.is_none_or(|branch| branch == around.index)
        });
        is_mine = mine.is_some();
        run = match (mine, &holder.action) {
            (Some(_), _) => {
                let next = around.get(depth + 1);
                next.map_or(here, |next| (next.run, next.first))
            }
            (None, Action::Parallel(_)) => {
                begins_in = begins_in.or(Some(run.1));
                let index = i32::try_from(list).ok()?;
                let branch = |of: RunId| branch_run(of, holder.id.as_str(), index);
                (branch(run.0), branch(run.1))
            }
            (None, _) => return None,
        };
    }
    let (run, first) = run;
    Some(Comer {
        run,
        first,
        begins_in,
    })
}
