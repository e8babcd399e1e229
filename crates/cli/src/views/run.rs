//! Runs.

use semel_api::types::{AtGate, BehindKey, Run, RunDetail, RunStatus, StoryCounts};
use semel_model::run::RunState;

use super::{Extent, fault_text, shown, timeline};
use crate::style::{Style, Tone, cell, render, toned_cell};
use crate::text::{ago, offset, printable};

/// The tone of a status.
pub(crate) const fn tone(status: RunStatus) -> Tone {
    match status {
        RunStatus::Succeeded => Tone::Good,
        RunStatus::InDoubt | RunStatus::NeedsReview | RunStatus::Quarantined => Tone::Odd,
        RunStatus::Failed | RunStatus::Cancelled | RunStatus::Superseded => Tone::Bad,
        RunStatus::Active
        | RunStatus::Queued
        | RunStatus::Running
        | RunStatus::Waiting
        | RunStatus::Retrying => Tone::Plain,
    }
}

/// Runs as a table.
pub(crate) fn table(runs: &[Run], style: Style) -> String {
    let mut table = style.table(&["RUN", "ACCEPTED", "FLOW", "STATE", "KEY"]);
    for run in runs {
        table.add_row([
            cell(run.id.to_string()),
            cell(ago(run.accepted_at)),
            cell(format!("{} r{}", run.flow, run.release)),
            toned_cell(tone(run.state), run.state.as_str()),
            cell(&run.key),
        ]);
    }
    render(&table)
}

/// Everything about a run.
pub(crate) fn detail(detail: &RunDetail, extent: Extent, style: Style) -> String {
    let run = &detail.run;
    let mut parts = vec![head(run, extent, style)];
    if let Some(line) = partial(detail) {
        parts[0].push_str(&format!("\n  so far    {line}"));
    }
    if let Some(gate) = &detail.gate {
        parts[0].push_str(&format!("\n  waits     {}", at_gate(gate)));
    }
    if let Some(pause) = &detail.paused {
        parts[0].push_str(&format!("\n  paused    {}", super::pause::tell(pause)));
    }
    if let Some(waits) = &detail.waits_for_key {
        let text = printable(&behind_key(waits));
        parts[0].push_str(&format!("\n  waits     {text}"));
    }
    parts.push(format!(
        "{}\n{}",
        style.bold("timeline"),
        timeline::lines(&detail.journal, run.accepted_at, style).join("\n")
    ));
    if !detail.child_runs.is_empty() {
        let table = super::child_run::progress(&detail.child_runs, style);
        parts.push(format!("{}\n{table}", style.bold("child runs")));
    }
    if !detail.effects.is_empty() {
        let table = super::effect::table_of_run(&detail.effects, style);
        parts.push(format!("{}\n{table}", style.bold("effects")));
    }
    if !detail.acts.is_empty() {
        let lines = super::effect::acts(&detail.acts).join("\n");
        parts.push(format!("{}\n{lines}", style.bold("audit")));
    }
    if !detail.waits.is_empty() {
        let table = super::effect::waits(&detail.waits, style);
        parts.push(format!("{}\n{table}", style.bold("waits")));
    }
    parts.join("\n\n")
}

/// What a run waits for that another holder of its business key does, in words.
fn behind_key(waits: &BehindKey) -> String {
    let holder = match (&waits.behind, &waits.script) {
        (Some(run), _) => run.to_string(),
        (None, Some(script)) => format!("semel once on {script}"),
        (None, None) => "another holder".to_owned(),
    };
    let state = waits
        .behind_state
        .map_or_else(String::new, |state| format!(" ({state})"));
    let doubt = if waits.in_doubt {
        ", in doubt there"
    } else {
        ""
    };
    let (key, scope) = (&waits.key, &waits.scope);
    format!("for the key {key} ({scope}), behind {holder}{state}{doubt}")
}

/// What a run that failed or is stopped has done, what it has not, and what is safe next.
fn partial(detail: &RunDetail) -> Option<String> {
    let run = &detail.run;
    let next = match run.state.state() {
        RunState::Active | RunState::Succeeded | RunState::Superseded => return None,
        RunState::InDoubt => "settle the doubt, semel doubt list".to_owned(),
        RunState::NeedsReview => after_review(run),
        RunState::Failed | RunState::Quarantined => resume_or_replay(run),
        RunState::Cancelled => format!("semel run replay {}", run.id),
    };
    let next = match run.archived_at {
        Some(_) => {
            "nothing by command; a new delivery does everything again, what is done too".to_owned()
        }
        None => next,
    };
    let Some(story) = &detail.under_key else {
        return Some(format!("safe next: {next}"));
    };
    let at = |is: fn(&StoryCounts) -> u64| {
        let steps = story.steps.iter().filter(move |step| is(&step.counts) > 0);
        steps.map(move |step| match (step.in_children, is(&step.counts)) {
            (true, 1) => format!("{} in 1 item or branch", step.step),
            (true, number) => format!("{} in {number} items or branches", step.step),
            (false, _) => step.step.clone(),
        })
    };
    let done = list(at(|it| it.done + it.met + it.found));
    let undone = match at(|it| it.undone).next() {
        Some(_) => format!("; undone: {}", list(at(|it| it.undone))),
        None => String::new(),
    };
    let not_done = list(at(|it| it.not_done));
    let in_doubt = list(at(|it| it.doubts() + it.under_way + it.undo_under_way));
    let more = match story.is_whole {
        true => "",
        false => "; and there is more than is counted",
    };
    Some(format!(
        "done: {done}{undone}; not done: {not_done}; in doubt: {in_doubt}{more}; safe next: {next}"
    ))
}

fn resume_or_replay(run: &Run) -> String {
    format!(
        "semel run resume {0} --reason '…', or semel run replay {0} on another release",
        run.id
    )
}

/// What is safe for a run that needs review. Where the ledger stopped it, resuming it as it is leads
/// to the same end.
fn after_review(run: &Run) -> String {
    let code = run.fault.as_ref().and_then(|fault| fault["code"].as_str());
    let id = run.id;
    match code {
        Some("effect-changed") => format!("compare the requests, semel run replay {id}"),
        Some("undo-in-doubt") => {
            format!("look whether the effect stands, and semel run replay {id}")
        }
        Some("effect-differs") => format!(
            "give the step another id or undo the effect, publish it, and semel run replay {id}"
        ),
        Some("key-held") => {
            format!("settle the run that holds the key, then semel run resume {id} --reason '…'")
        }
        Some("key-other-request") => format!(
            "correct the input and start a new run; or write `mismatch: accept`, publish it, and \
             semel run replay {id}"
        ),
        Some("key-reused") => format!(
            "to leave the effect as it is, semel run resume {id} --reason '…'; to undo it, semel effect \
             undo EFFECT once the run has ended"
        ),
        Some("key-begun-since") => "start a new run".to_owned(),
        Some("doubt-erased") => {
            format!("find out at the destination, then semel run cancel {id} --reason '…'")
        }
        Some(_) | None => resume_or_replay(run),
    }
}

fn list(steps: impl Iterator<Item = String>) -> String {
    let steps: Vec<String> = steps.collect();
    match steps.as_slice() {
        [] => "nothing".to_owned(),
        steps => printable(&steps.join(", ")),
    }
}

/// Where a run waits, in words.
fn at_gate(gate: &AtGate) -> String {
    let AtGate {
        gate,
        place,
        behind,
        ahead,
        until,
    } = gate;
    let mut text = match place.as_str() {
        "joining" => format!("with `{gate}`, for the end of the run that it joined"),
        "debouncing" => format!("at `{gate}`, until its object is quiet"),
        _ => format!("at `{gate}`"),
    };
    if let Some(behind) = behind {
        text.push_str(&format!(", behind {behind}"));
    }
    if *ahead > 0 {
        text.push_str(&format!(", {ahead} before it in line"));
    }
    if let Some(until) = until {
        text.push_str(&format!(", until {until}"));
    }
    text
}

/// The lines on top of a run: what it is, and its state.
pub(crate) fn head(run: &Run, extent: Extent, style: Style) -> String {
    let mut lines = vec![
        format!("{}  {}", style.bold(&run.id.to_string()), state(run, style)),
        format!("  flow      {} r{}", printable(&run.flow), run.release),
        format!("  key       {}", printable(&run.key)),
        format!("  accepted  {} ({})", run.accepted_at, ago(run.accepted_at)),
    ];
    if let Some(parent) = run.parent {
        lines.push(format!("  child of  {parent}"));
    }
    if let Some(ended_at) = run.ended_at {
        let took = offset(run.accepted_at, ended_at);
        lines.push(format!("  ended     {ended_at} ({took})"));
    }
    if let Some(erased_at) = run.erased_at {
        lines.push(format!(
            "  erased    {erased_at}: payloads are gone, what was done stays"
        ));
    }
    if let Some(archived_at) = run.archived_at {
        lines.push(format!(
            "  archived  {archived_at}: it is shown as it was then, and cannot be changed"
        ));
    }
    if let Some(due_at) = run.due_at.filter(|_| run.state.state() == RunState::Active) {
        lines.push(format!("  due       {due_at} ({})", ago(due_at)));
    }
    if let Some(result) = &run.result {
        lines.push(format!("  result    {}", shown(result, extent)));
    }
    if let Some(fault) = &run.fault {
        lines.push(format!("  fault     {}", fault_text(fault)));
    }
    lines.join("\n")
}

fn state(run: &Run, style: Style) -> String {
    let asked = if run.cancelling && !run.state.is_ended() {
        ", cancelling"
    } else {
        ""
    };
    format!(
        "{}{asked}",
        style.toned(tone(run.state), run.state.as_str())
    )
}

#[cfg(test)]
mod tests {
    use semel_api::types::{KeyStory, StepStory};
    use serde_json::json;

    use super::*;

    const RUN: &str = "run_00000000000000000000000000000001";

    fn stopped(state: &str, fault: &str, journal: &serde_json::Value) -> RunDetail {
        let detail = json!({
            "run": RUN, "flow": "orders", "release": 3, "key": "o-1", "state": state,
            "accepted_at": "2026-01-01T00:00:00Z", "waits": [], "effects": [],
            "fault": { "code": fault, "message": "" },
            "journal": [{ "seq": 1, "at": "2026-01-01T00:00:00Z", "events": journal }],
        });
        serde_json::from_value(detail).unwrap()
    }

    fn step(name: &str, in_children: bool, counts: StoryCounts) -> StepStory {
        StepStory {
            step: name.to_owned(),
            kind: "http".to_owned(),
            in_children,
            counts,
            external_ids: Vec::new(),
            runs: Vec::new(),
            met_by: Vec::new(),
            first_at: jiff::Timestamp::UNIX_EPOCH,
            last_at: jiff::Timestamp::UNIX_EPOCH,
        }
    }

    fn with_story(mut detail: RunDetail, steps: Vec<StepStory>) -> RunDetail {
        detail.under_key = Some(KeyStory {
            steps,
            names: Vec::new(),
            is_whole: true,
        });
        detail
    }

    #[test]
    fn what_others_and_branches_did_counts_as_done() {
        let none = StoryCounts::default();
        let detail = stopped("failed", "http-500", &json!([]));
        let known = with_story(
            detail.clone(),
            vec![
                step("charge", false, StoryCounts { met: 1, ..none }),
                step("mailbox", true, StoryCounts { done: 2, ..none }),
                step("account", false, StoryCounts { undone: 1, ..none }),
            ],
        );

        let line = partial(&known).unwrap();
        let unknown = partial(&detail).unwrap();

        assert!(
            line.starts_with(
                "done: charge, mailbox in 2 items or branches; undone: account; not done: nothing; "
            ),
            "{line}"
        );
        assert!(unknown.starts_with("safe next: "), "{unknown}");
    }

    #[test]
    fn a_run_that_the_ledger_stopped_is_not_resumed_as_it_is() {
        for (code, next) in [
            ("effect-changed", "semel run replay"),
            ("effect-differs", "another id"),
            ("undo-in-doubt", "whether the effect stands"),
            ("key-held", "settle the run"),
            ("key-other-request", "mismatch: accept"),
            (
                "key-reused",
                "to leave the effect as it is, semel run resume",
            ),
            ("key-begun-since", "start a new run"),
            ("doubt-erased", "at the destination"),
            ("http-500", "semel run resume"),
        ] {
            let line = partial(&stopped("needs_review", code, &json!([]))).unwrap();
            let (_, safe) = line.split_once("safe next: ").unwrap();

            assert!(safe.contains(next), "{code}: {safe}");
            let resumes_at_once = safe.starts_with("semel run resume");
            assert_eq!(resumes_at_once, code == "http-500", "{code}: {safe}");
        }
    }

    #[test]
    fn an_archived_run_is_not_resumed() {
        let mut detail = stopped("failed", "http-500", &json!([]));
        detail.run.archived_at = Some(detail.run.accepted_at);

        let line = partial(&detail).unwrap();

        assert!(
            line.ends_with("a new delivery does everything again, what is done too"),
            "{line}"
        );
    }

    #[test]
    fn a_failed_run_says_what_is_done_and_what_is_safe_next() {
        let none = StoryCounts::default();
        let detail = |state: &str| {
            let steps = vec![
                step("charge", false, StoryCounts { done: 1, ..none }),
                step(
                    "ship",
                    false,
                    StoryCounts {
                        not_done: 1,
                        ..none
                    },
                ),
            ];
            with_story(stopped(state, "http-500", &json!([])), steps)
        };

        let line = partial(&detail("failed")).unwrap();

        assert!(
            line.starts_with("done: charge; not done: ship; in doubt: nothing; safe next: "),
            "{line}"
        );
        assert!(line.contains(&format!("semel run replay {RUN}")));
        assert!(
            partial(&detail("in_doubt"))
                .unwrap()
                .contains("semel doubt list")
        );
        assert!(partial(&detail("succeeded")).is_none());
    }
}
