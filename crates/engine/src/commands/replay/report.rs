//! The preview of a replay, from the forecast of its steps: what was done at steps that are gone, and
//! what is in the way.

use semel_model::event::Event;
use semel_model::replay::{Forecast, ReplayObstacle, ReplayPreview};
use semel_model::{Fingerprint, PastEffect};
use serde_json::Value;

use super::NOT_REPLAYABLE;
use super::last_run::{LastRun, effects};
use crate::catalogue::Release;
use crate::decide::{ReplayForecast, undo_in_doubt};
use crate::state::{APPROVAL, UNDO, WAIT};

/// The preview, with its digest. `inside` tells what was done in items and branches.
pub(super) fn seal(
    last: &LastRun,
    release: &Release,
    forecast: ReplayForecast,
    inside: Vec<String>,
) -> ReplayPreview {
    let nothing = Value::Null;
    let input = if let Event::Accepted { input, .. } = &last.accepted {
        input
    } else {
        &nothing
    };
    let ReplayForecast {
        steps, kept, from, ..
    } = forecast;
    let mut preview = ReplayPreview {
        run: last.view.id,
        flow: last.view.flow.clone(),
        key: last.view.key.text(),
        last_release: last.view.release,
        release: release.number,
        from,
        input: Some(Fingerprint::of(input)),
        kept,
        steps,
        notes: Vec::new(),
        obstacles: Vec::new(),
        digest: String::new(),
    };
    preview.notes = notes(last, release, &preview);
    preview.notes.extend(inside);
    preview.obstacles = obstacles(last, &preview);
    preview.sealed()
}

/// What was done at steps that the release does not have, and what would run in their place.
fn notes(last: &LastRun, release: &Release, preview: &ReplayPreview) -> Vec<String> {
    let (old, new) = (preview.last_release, preview.release);
    let is_new = |step: &str| last.release.flow.find_step(step).is_none();
    let fresh: Vec<String> = preview
        .steps
        .iter()
        .filter(|it| matches!(it.forecast, Forecast::Performed { .. }) && is_new(&it.step))
        .map(|it| format!("`{}`", it.step))
        .collect();
    let instead = match fresh.as_slice() {
        [] => String::new(),
        [one] => format!(" and {one} is new: it would run"),
        many => format!(" and {} are new: they would run", many.join(", ")),
    };
    let is_effect = |past: &&PastEffect| past.kind != WAIT && past.kind != APPROVAL;
    let gone = effects(&last.ledger).filter(|past| past.is_done() && !past.step.ends_with(UNDO));
    let gone = gone.filter(|past| release.flow.find_step(&past.step).is_none());
    let mut notes: Vec<String> = gone
        .filter(is_effect)
        .map(|past| {
            let step = &past.step;
            format!("`{step}` of r{old} is done; r{new} has no step `{step}`{instead}.")
        })
        .collect();
    if release.has_gates {
        let said = "The next run passes the flow's gates like any other: it may wait, and if \
                    something newer of its object was accepted it is stale and ends.";
        notes.push(said.to_owned());
    }
    notes
}

/// Why a done step may be undone; nothing where no undo of it is in doubt.
fn may_be_undone(last: &LastRun, step: &str) -> Option<String> {
    let past = effects(&last.ledger).find(|past| past.step == step)?;
    let mut all = effects(&last.ledger);
    let undo = all.find(|undo| undo.step.strip_suffix(UNDO) == Some(step))?;
    undo_in_doubt(past, undo, last.view.id).map(|fault| fault.message)
}

/// What keeps the replay from being carried out as it is.
fn obstacles(last: &LastRun, preview: &ReplayPreview) -> Vec<ReplayObstacle> {
    let run = preview.run;
    let found = preview.steps.iter().filter_map(|it| {
        let step = &it.step;
        let (code, message) = match &it.forecast {
            Forecast::Changed {
                accepted: false, ..
            } if let Some(message) = may_be_undone(last, step) => (NOT_REPLAYABLE, message),
            Forecast::Changed {
                accepted: false, ..
            } => (
                "effect-changed",
                format!(
                    "`{step}` is done with another request: to skip it all the same, \
                     semel run replay {run} --accept-changed {step}"
                ),
            ),
            Forecast::Differs { effect, .. } => (
                "effect-differs",
                format!(
                    "`{step}` is done as another kind of effect or over another connection: \
                     give the step another id, or undo it, semel effect undo {effect}"
                ),
            ),
            Forecast::InDoubt { effect } => (
                NOT_REPLAYABLE,
                format!(
                    "whether `{step}` happened is unknown: settle it first, \
                     semel doubt settle {effect}"
                ),
            ),
            Forecast::Changed { accepted: true, .. }
            | Forecast::Skipped { .. }
            | Forecast::Performed { .. }
            | Forecast::Unknown { .. }
            | Forecast::Read
            | Forecast::Waits
            | Forecast::Asks
            | Forecast::Items { .. }
            | Forecast::NotRun
            | Forecast::Fails { .. } => return None,
        };
        let code = code.to_owned();
        Some(ReplayObstacle { code, message })
    });
    found.collect()
}
