//! What is the case with a run, in a sentence or two.

use jiff::Timestamp;
use semel_api::types::{Effect, RunDetail, RunStatus};
use semel_model::effect::EffectState;
use serde_json::Value;

use crate::console::markup::{Markup, assembled};
use crate::console::visit::Visit;
use crate::console::words;
use crate::key_verdict;

/// Of how many steps the sentences tell.
const STEPS_MAX: usize = 5;

/// What is the case, in one sentence or two.
pub(super) fn sentence(visit: &Visit, detail: &RunDetail) -> Markup {
    let mut parts = vec![state_sentence(visit, detail)];
    if let Some(story) = &detail.under_key
        && !(story.steps.is_empty() && story.is_whole)
    {
        let told = key_verdict::up_to(story, STEPS_MAX).join(" ");
        parts.push(Markup::text(&told));
    }
    if detail.run.erased_at.is_some() {
        parts.push(Markup::text("Its payloads were erased."));
    }
    if let Some(archived_at) = detail.run.archived_at {
        let words = "It is archived and cannot be changed any more. This is how it was";
        parts.push(timed(visit, words, archived_at));
    }
    let doubts = detail.effects.iter();
    let doubts = doubts.filter(|effect| effect.state == EffectState::InDoubt);
    parts.extend(doubts.map(|effect| {
        let page = visit.page(&format!("/effects/{}#settle", effect.id));
        Markup::text(&format!("Settle {}", effect.step)).link(&page)
    }));
    Markup::join(parts)
}

/// Words and a time, with the exact one behind it.
fn timed(visit: &Visit, words: &str, at: Timestamp) -> Markup {
    assembled(format!("{words} {}.", visit.time(at)))
}

fn state_sentence(visit: &Visit, detail: &RunDetail) -> Markup {
    let run = &detail.run;
    if run.cancelling && !run.state.is_ended() {
        return Markup::fixed("It is being cancelled and ends at its next commit.");
    }
    if let Some(pause) = &detail.paused {
        return Markup::text(&format!(
            "Held up by the pause of the {} {}: {}.",
            pause.kind, pause.name, pause.reason
        ));
    }
    let sentence = match run.state {
        RunStatus::Succeeded => match run.ended_at {
            Some(ended) => format!("Done in {}.", words::between(run.accepted_at, ended)),
            None => "Done.".to_owned(),
        },
        RunStatus::Failed => format!("Failed: {}.", fault(run.fault.as_ref())),
        RunStatus::Cancelled => "Cancelled by an operator.".to_owned(),
        RunStatus::Superseded => "Superseded: another run of its object took its place.".to_owned(),
        RunStatus::InDoubt => format!(
            "Stopped: whether {} happened is unknown.",
            steps_in(&detail.effects, EffectState::InDoubt)
        ),
        RunStatus::NeedsReview => format!(
            "Stopped: {}. Nothing is in progress; an operator decides.",
            fault(run.fault.as_ref())
        ),
        RunStatus::Quarantined => format!(
            "Stopped: it made no progress ({}).",
            fault(run.fault.as_ref())
        ),
        RunStatus::Waiting => return waiting_sentence(visit, detail),
        RunStatus::Retrying => match run.due_at {
            Some(at) => return timed(visit, "Rests before another attempt,", at),
            None => "Rests before another attempt.".to_owned(),
        },
        RunStatus::Queued => {
            let words = "Due, and taken as soon as there is room; accepted";
            return timed(visit, words, run.accepted_at);
        }
        RunStatus::Running | RunStatus::Active => {
            return timed(visit, "Under way; accepted", run.accepted_at);
        }
    };
    Markup::text(&sentence)
}

fn waiting_sentence(visit: &Visit, detail: &RunDetail) -> Markup {
    if let Some(key) = &detail.waits_for_key {
        return Markup::text(&format!(
            "Waits for another holder of the key {} ({}).",
            key.key, key.scope
        ));
    }
    if let Some(gate) = &detail.gate {
        return Markup::text(&format!(
            "Waits at {} with {} before it.",
            gate.gate,
            words::count(gate.ahead.unsigned_abs() as usize, "run", "runs")
        ));
    }
    let open = detail.waits.iter().find(|wait| wait.state == "open");
    match open {
        Some(wait) => {
            let step = wait.step.as_deref().unwrap_or("a step");
            let since = wait.opened_at.map(|at| words::between(at, visit.now));
            Markup::text(&format!(
                "Waits at {step} since {}.",
                since.unwrap_or_default()
            ))
        }
        None => match detail.run.due_at {
            Some(at) => timed(visit, "Waits; continues", at),
            None => Markup::fixed("Waits for an answer from outside."),
        },
    }
}

fn steps_in(effects: &[Effect], state: EffectState) -> String {
    let steps: Vec<&str> = effects
        .iter()
        .filter(|effect| effect.state == state)
        .map(|effect| effect.step.as_str())
        .collect();
    match steps.is_empty() {
        true => "an effect".to_owned(),
        false => steps.join(", "),
    }
}

/// A fault's message and code.
fn fault(fault: Option<&Value>) -> String {
    let Some(fault) = fault else {
        return "no reason is recorded".to_owned();
    };
    let code = fault["code"].as_str().unwrap_or("unknown");
    match fault["message"].as_str() {
        Some(message) => format!("{message} ({code})"),
        None => code.to_owned(),
    }
}
