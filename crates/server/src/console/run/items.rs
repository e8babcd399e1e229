//! The items and branches of a run: those that failed first.

use semel_api::types::{ChildRun, ChildRunState, Page as Found, RunDetail};

use crate::answer::Answered;
use crate::console::markup::{self, Markup};
use crate::console::shell::{Shell, keep, next_page, show_list};
use crate::console::visit::Visit;
use crate::console::words;
use crate::error::ApiError;

/// How many items a page has.
const PAGE: &str = "50";

/// How many failed items the page of a run shows.
const FAILED_SHOWN: &str = "10";

/// The states that are asked for, those that need somebody first.
const PRESETS: &[(&str, &str)] = &[
    ("Failed", "failed"),
    ("Not ended", "open"),
    ("Not begun", "pending"),
    ("Cancelled", "cancelled"),
    ("Done", "succeeded"),
    ("All", ""),
];

/// `GET /console/{namespace}/runs/{run}/items`.
pub(in crate::console) async fn page(visit: Visit) -> Answered {
    let run = words::encoded(visit.part("run"));
    let (state, step) = (visit.parameter("state"), visit.parameter("step"));
    let cursor = visit.parameter("cursor");
    let asked = [
        ("step", step),
        ("state", state),
        ("limit", PAGE),
        ("cursor", cursor),
    ];
    let json = words::address(&format!("/v1/runs/{run}/child-runs"), &asked);
    let mut command = "semel run items".to_owned();
    for (option, value) in asked.iter().filter(|(_, value)| !value.is_empty()) {
        words::push_option(&mut command, option, value);
    }
    command.push_str(&format!(" {}", words::operand(visit.part("run"))));
    let here = visit.page(&format!("/runs/{run}/items"));
    let links = PRESETS.iter().map(|(name, preset)| {
        let href = words::address(&here, &[("step", step), ("state", preset)]);
        match *preset == state {
            true => Markup::text(name).within("strong", "preset"),
            false => Markup::text(name).link(&href),
        }
    });
    let back = Markup::text("The run").link(&visit.page(&format!("/runs/{run}")));
    let above = Markup::join([back].into_iter().chain(links)).within("p", "presets");
    let shell = Shell::new(&visit, "/runs", "Items and branches", &json, &command);
    let found: Found<ChildRun> = match visit.get(&json).await {
        Ok(found) => found,
        Err(error) => return keep(shell, error, vec![above]),
    };
    let list = match found.items.is_empty() {
        true => Markup::text("There is no such item. A step of the kind foreach has one for each of its list, and one of the kind parallel for each branch.").within("p", "empty"),
        false => table(&visit, "Items and branches, in order", &found.items),
    };
    let filter = [("step", step), ("state", state)];
    let next = next_page("The next page", &here, &filter, found.next.as_deref());
    let lead = Markup::fixed("Each is a run of its own.");
    let body = [above, list].into_iter().chain(next);
    show_list(shell, lead, body.collect())
}

/// The items of a run that failed, with where all of them are; nothing where it has none.
pub(super) async fn beside(visit: &Visit, detail: &RunDetail) -> Result<Markup, ApiError> {
    if detail.child_runs.is_empty() {
        return Ok(Markup::default());
    }
    let run = detail.run.id;
    let all = visit.page(&format!("/runs/{run}/items"));
    if detail.child_runs.iter().all(|step| step.failed == 0) {
        let link = Markup::text("All items and branches").link(&all);
        return Ok(link.within("p", "presets"));
    }
    let asked = [("state", "failed"), ("limit", FAILED_SHOWN)];
    let json = words::address(&format!("/v1/runs/{run}/child-runs"), &asked);
    let failed: Found<ChildRun> = visit.get(&json).await?;
    let links = [
        Markup::text("All that failed").link(&format!("{all}?state=failed")),
        Markup::text("All items and branches").link(&all),
    ];
    Ok(Markup::join([
        table(visit, "Items that failed", &failed.items),
        Markup::join(links).within("p", "presets"),
    ]))
}

fn table(visit: &Visit, caption: &str, items: &[ChildRun]) -> Markup {
    let row = |item: &ChildRun| {
        let run = visit.page(&format!("/runs/{}", item.run));
        let fault = item.fault.as_ref();
        let code = fault.and_then(|fault| fault["code"].as_str());
        let message = fault.and_then(|fault| fault["message"].as_str());
        vec![
            state(item),
            match item.run_state {
                Some(_) => markup::code(&item.key).link(&run),
                None => markup::code(&item.key),
            },
            markup::code(&item.step),
            Markup::text(&item.index.to_string()),
            code.map(markup::code).unwrap_or_default(),
            message.map(Markup::text).unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<Markup>> = items.iter().map(row).collect();
    let columns = ["State", "Item", "Step", "No.", "Error", "What was wrong"];
    markup::table(caption, &columns, &rows)
}

fn state(item: &ChildRun) -> Markup {
    match (item.state, item.run_state) {
        (ChildRunState::Open, Some(state)) => markup::run_state(state),
        (ChildRunState::Open, None) => markup::other_state("live", "▶", "open"),
        (ChildRunState::Pending, _) => markup::other_state("rest", "◔", "not begun"),
        (ChildRunState::Succeeded, _) => markup::other_state("good", "●", "done"),
        (ChildRunState::Failed, _) => markup::other_state("bad", "■", "failed"),
        (ChildRunState::Cancelled, _) => markup::other_state("quiet", "✕", "cancelled"),
    }
}
