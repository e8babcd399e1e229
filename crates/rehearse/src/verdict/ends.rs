//! Ends: a run ends as its example says, and as it does when nothing goes wrong.

use semel_flow::Flow;
use semel_model::Guard;
use semel_model::run::RunState;
use semel_store::rehearsals::{StagedEffect, StagedRun};
use serde_json::Value;

use super::{Findings, leads_elsewhere, started};
use crate::play::Played;

/// Without a fault the run ends as the example says.
pub(super) fn as_expected(flow: &Flow, played: &Played, found: &mut Findings) {
    let Some(run) = started(flow, played).next() else {
        return;
    };
    let expected = played.case.example.result.as_ref();
    if let Some(code) = &played.case.example.fails {
        fails_as_expected(played, run, code, found);
        return;
    }
    match (run.state, expected) {
        (RunState::Succeeded, Some(expected)) if result_of(run) != *expected => {
            let message = format!(
                "the example expects {expected}, and the run yields {}",
                result_of(run)
            );
            found.add("result-differs", None, message);
        }
        (RunState::Succeeded, _) => {}
        (
            RunState::Active
            | RunState::InDoubt
            | RunState::NeedsReview
            | RunState::Quarantined
            | RunState::Failed
            | RunState::Cancelled
            | RunState::Superseded,
            _,
        ) => {
            let hint = match run.state == RunState::Failed {
                true => "; if it should fail, say so with `fails: CODE` in the example",
                false => "",
            };
            let message = format!(
                "nothing went wrong, and the run is {}: {}{hint}",
                run.state,
                fault_of(played, run)
            );
            found.add("run-does-not-succeed", None, message);
        }
    }
}

/// The example says that the run fails, and with which code.
fn fails_as_expected(played: &Played, run: &StagedRun, code: &str, found: &mut Findings) {
    if run.state != RunState::Failed || code_of(run) != code {
        let ends = match run.state == RunState::Succeeded {
            true => "it yields a result".to_owned(),
            false => fault_of(played, run),
        };
        let message = format!(
            "the example expects that the run fails with `{code}`, and it is {}: {ends}",
            run.state
        );
        found.add("run-does-not-fail", None, message);
    }
}

/// With a fault the run ends as without it, or is in doubt as its guard says.
pub(super) fn as_before(flow: &Flow, plain: &Played, played: &Played, found: &mut Findings) {
    let Some(run) = started(flow, played).next() else {
        return;
    };
    let doubts: Vec<&StagedEffect> = played
        .effects
        .iter()
        .filter(|effect| effect.state == "in_doubt")
        .collect();
    for effect in &doubts {
        let (step, guard) = (&effect.step, effect.guard);
        if guard == Guard::Review {
            found.in_doubt.push(format!("{step}, guard {guard}"));
        } else {
            let note = effect.note.as_deref().unwrap_or_default();
            let message = format!(
                "the effect of `{step}` stays in doubt, although its guard is {guard}: {note}"
            );
            found.add("doubt-stays", Some(step), message);
        }
    }
    found.in_doubt.sort();
    found.in_doubt.dedup();
    let elsewhere = leads_elsewhere(played.case.fault.class);
    let before = started(flow, plain).next();
    let same_end = before.is_some_and(|before| before.state == run.state);
    match run.state {
        RunState::Succeeded | RunState::Failed if elsewhere => {}
        RunState::Succeeded | RunState::Failed if same_end => {
            let before = before.map(result_of).unwrap_or_default();
            if run.state == RunState::Succeeded && before != result_of(run) {
                let message = format!(
                    "without the fault the run yields {before}, and now {}",
                    result_of(run)
                );
                found.add("result-differs", None, message);
            }
            let code = started(flow, plain).next().map(code_of);
            if run.state == RunState::Failed && code != Some(code_of(run)) {
                let message = format!("the run fails in another way: {}", fault_of(played, run));
                found.add("run-ends-otherwise", None, message);
            }
        }
        RunState::Active | RunState::InDoubt if !doubts.is_empty() => {}
        RunState::Active
        | RunState::InDoubt
        | RunState::NeedsReview
        | RunState::Quarantined
        | RunState::Succeeded
        | RunState::Failed
        | RunState::Cancelled
        | RunState::Superseded => {
            let message = format!("the run is {}: {}", run.state, fault_of(played, run));
            found.add("run-ends-otherwise", None, message);
        }
    }
}

/// The code of the fault that a run failed with.
fn code_of(run: &StagedRun) -> Value {
    let fault = run.fault.as_deref().unwrap_or_default();
    let fault: Value = serde_json::from_str(fault).unwrap_or_default();
    fault["code"].clone()
}

fn result_of(run: &StagedRun) -> Value {
    let text = run.result.as_deref().unwrap_or("null");
    serde_json::from_str(text).unwrap_or_default()
}

/// Why a run does not succeed, or one of its child runs.
fn fault_of(played: &Played, run: &StagedRun) -> String {
    let own = run.fault.as_deref();
    let other = || {
        let mut faults = played.runs.iter().filter_map(|run| run.fault.as_deref());
        faults.next()
    };
    own.or_else(other)
        .unwrap_or("no reason is recorded")
        .to_owned()
}
