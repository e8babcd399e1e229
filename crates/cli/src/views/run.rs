//! Runs.

use semel_api::types::{AtGate, BehindKey, Run, RunDetail, RunStatus};
use semel_model::effect::EffectState;
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
        RunState::Failed | RunState::NeedsReview | RunState::Quarantined => format!(
            "semel run resume {0} --reason '…', or semel run replay {0} on another release",
            run.id
        ),
        RunState::Cancelled => format!("semel run replay {}", run.id),
    };
    let at = |is: fn(EffectState) -> bool| {
        let steps = detail.effects.iter().filter(|effect| is(effect.state));
        let steps: Vec<&str> = steps.map(|effect| effect.step.as_str()).collect();
        match steps.as_slice() {
            [] => "nothing".to_owned(),
            steps => printable(&steps.join(", ")),
        }
    };
    let done = at(|state| state == EffectState::Done);
    let not_done = at(|state| matches!(state, EffectState::Failed | EffectState::Retrying));
    let in_doubt = at(|state| matches!(state, EffectState::InDoubt | EffectState::Pending));
    Some(format!(
        "done: {done}; not done: {not_done}; in doubt: {in_doubt}; safe next: {next}"
    ))
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
