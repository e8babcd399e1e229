//! Runs.

use semel_api::types::{AtGate, BehindKey, JournalLine, Run, RunDetail, RunStatus};
use semel_model::Event;
use semel_model::effect::EffectState;
use semel_model::event::NameEvent;
use semel_model::run::RunState;
use serde::Deserialize as _;

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
    let at = |is: fn(EffectState) -> bool| {
        let steps = detail.effects.iter().filter(move |effect| is(effect.state));
        steps.map(|effect| effect.step.clone())
    };
    let own = at(|state| state == EffectState::Done);
    let mut done = list(reused(&detail.journal).into_iter().chain(own));
    let mut lines = detail.journal.iter();
    if !detail.journal.is_empty() && lines.all(|line| line.events.is_empty()) {
        // Without the right `payload` the events are left out, and with them what it reused.
        done.push_str(" (by this run itself)");
    }
    let not_done = at(|state| matches!(state, EffectState::Failed | EffectState::Retrying));
    let in_doubt = at(|state| matches!(state, EffectState::InDoubt | EffectState::Pending));
    let (not_done, in_doubt) = (list(not_done), list(in_doubt));
    Some(format!(
        "done: {done}; not done: {not_done}; in doubt: {in_doubt}; safe next: {next}"
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
        Some("key-begun-since") => "start a new run".to_owned(),
        Some("doubt-erased") => {
            format!("find out at the destination, then semel run cancel {id} --reason '…'")
        }
        Some(_) | None => resume_or_replay(run),
    }
}

/// The steps whose effects others had performed: earlier runs of the key, or other holders of their
/// business keys.
fn reused(journal: &[JournalLine]) -> Vec<String> {
    let events = journal.iter().flat_map(|line| &line.events);
    let read = events.filter_map(|event| Event::deserialize(&event.event).ok());
    let step = |event| {
        if let Event::Reused { step, .. }
        | Event::Named {
            step,
            named: NameEvent::Reused { .. },
        } = event
        {
            Some(step)
        } else {
            None
        }
    };
    read.filter_map(step).collect()
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

    #[test]
    fn what_others_had_done_counts_as_done() {
        let effect = "eff_00000000000000000000000000000001";
        let journal = json!([
            { "event": "reused", "step": "charge", "effect": effect, "run": RUN, "result": 1 },
            { "event": "named", "step": "mail", "named": {
                "what": "reused", "effect": effect, "by": { "run": RUN }, "result": 1 } },
        ]);

        let line = partial(&stopped("failed", "http-500", &journal)).unwrap();
        let unknown = partial(&stopped("failed", "http-500", &json!([]))).unwrap();

        assert!(line.starts_with("done: charge, mail; not done: "), "{line}");
        assert!(
            unknown.starts_with("done: nothing (by this run itself); "),
            "{unknown}"
        );
    }

    #[test]
    fn a_run_that_the_ledger_stopped_is_not_resumed_as_it_is() {
        for (code, next) in [
            ("effect-changed", "semel run replay"),
            ("effect-differs", "another id"),
            ("undo-in-doubt", "whether the effect stands"),
            ("key-held", "settle the run"),
            ("key-other-request", "mismatch: accept"),
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
        let run = "run_00000000000000000000000000000001";
        let effect = |step: &str, state: &str| {
            json!({
                "effect": "eff_00000000000000000000000000000001", "run": run, "step": step,
                "kind": "http", "guard": "review", "state": state, "attempt": 1,
                "intended_at": "2026-01-01T00:00:00Z",
            })
        };
        let detail = |state: &str| -> RunDetail {
            let detail = json!({
                "run": run, "flow": "orders", "release": 3, "key": "o-1", "state": state,
                "accepted_at": "2026-01-01T00:00:00Z", "waits": [], "journal": [],
                "effects": [effect("charge", "done"), effect("ship", "failed")],
            });
            serde_json::from_value(detail).unwrap()
        };

        let line = partial(&detail("failed")).unwrap();

        assert!(
            line.starts_with("done: charge; not done: ship; in doubt: nothing; safe next: "),
            "{line}"
        );
        assert!(line.contains(&format!("semel run replay {run}")));
        assert!(
            partial(&detail("in_doubt"))
                .unwrap()
                .contains("semel doubt list")
        );
        assert!(partial(&detail("succeeded")).is_none());
    }
}
