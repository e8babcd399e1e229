//! Names of effects: what happens to them, and what they are told of their run.

use jiff::Timestamp;
use semel_flow::Flow;
use semel_model::effect::LedgerEntry;
use semel_model::event::{Event, NameEvent, UndoneName};
use semel_model::run::StopReason;
use semel_model::{Fault, SeededBug};
use semel_store::named_effects::{NameNotice, NameOutcome, NamedResult};
use serde_json::Value;

use crate::state::{
    Current, FoldedRun, NameHold, NameStanding, NameUndo, PendingEffect, StepName, UNDO,
    UndoStanding, Unfit, fits,
};

pub(super) fn apply_named(
    state: &mut FoldedRun,
    flow: &Flow,
    step: &str,
    named: &NameEvent,
    at: Timestamp,
) -> Result<(), Unfit> {
    state.must_be_at(flow, step)?;
    match named {
        NameEvent::Asked {
            name,
            scope,
            key,
            fingerprint,
            generation,
        } => {
            let asked = StepName {
                name: *name,
                scope: scope.clone(),
                key: key.clone(),
                fingerprint: *fingerprint,
                generation: *generation,
                since: at,
                hold: None,
                standing: NameStanding::Asked,
            };
            state.names.insert(step.to_owned(), asked);
        }
        NameEvent::Held { token, effect } => {
            let (token, effect) = (*token, *effect);
            let known = state.names.get_mut(step).ok_or(Unfit)?;
            known.hold = Some(NameHold { token, effect });
            known.standing = NameStanding::Held;
            if let Current::Effect(pending) = &mut state.current {
                pending.sent_key = Some(effect);
            }
        }
        NameEvent::Waiting { behind, in_doubt } => {
            let known = state.names.get_mut(step).ok_or(Unfit)?;
            known.standing = NameStanding::Waiting {
                behind: behind.clone(),
                in_doubt: *in_doubt,
            };
        }
        NameEvent::Reused {
            external_id,
            status,
            result,
            ..
        } => {
            state.names.remove(step).ok_or(Unfit)?;
            // Not among what this run undoes: the holder that performed it may have succeeded.
            state.finish_step(flow, step, result.clone(), external_id.as_deref(), *status);
        }
        NameEvent::Undoing { held } => begin_undo(state, step, *held, UndoStanding::Begun)?,
        NameEvent::Shared { .. } => begin_undo(state, step, None, UndoStanding::Shared)?,
        NameEvent::Left => {
            let undone = step.strip_suffix(UNDO).ok_or(Unfit)?;
            let undo = state.undos.get_mut(undone).ok_or(Unfit)?;
            fits(undo.standing == UndoStanding::Left)?;
            undo.standing = UndoStanding::Over;
            state.next_step(flow);
        }
    }
    state.stopped = false;
    Ok(())
}

fn begin_undo(
    state: &mut FoldedRun,
    step: &str,
    held: Option<UndoneName>,
    standing: UndoStanding,
) -> Result<(), Unfit> {
    let undone = step.strip_suffix(UNDO).ok_or(Unfit)?;
    let undo = NameUndo { held, standing };
    state.undos.insert(undone.to_owned(), undo);
    Ok(())
}

/// An attempt is made under the hold of the name, where the step has one.
pub(super) fn apply_intended(state: &mut FoldedRun, step: &str) -> Result<(), Unfit> {
    let Some(named) = state.names.get_mut(step) else {
        return Ok(());
    };
    let hold = named.held().ok_or(Unfit)?;
    named.standing = NameStanding::Used;
    if let Current::Effect(pending) = &mut state.current {
        pending.sent_key = Some(hold.effect);
    }
    Ok(())
}

/// The run holds the name no longer.
pub(super) fn leave(state: &mut FoldedRun, step: &str, standing: NameStanding) {
    if let Some(named) = state.names.get_mut(step) {
        named.standing = standing;
    }
}

/// The effect is done; what undoes another one makes that count as not done.
pub(super) fn apply_done(state: &mut FoldedRun, step: &str) {
    match step.strip_suffix(UNDO) {
        Some(undone) => {
            if let Some(undo) = state.undos.get_mut(undone) {
                undo.standing = UndoStanding::Over;
            }
            leave(state, undone, NameStanding::Over);
        }
        None => leave(state, step, NameStanding::Done),
    }
}

/// What named effects are told with an event.
pub(super) fn notices(event: &Event, after: &FoldedRun, flow: &Flow) -> Vec<NameNotice> {
    if after.names.is_empty() && after.undos.is_empty() {
        return Vec::new();
    }
    notice_of(event, after, flow).into_iter().collect()
}

fn notice_of(event: &Event, after: &FoldedRun, flow: &Flow) -> Option<NameNotice> {
    if let Event::Done {
        step,
        external_id,
        status,
        result,
        ..
    } = event
    {
        match step.strip_suffix(UNDO) {
            Some(undone) => match after.undos.get(undone) {
                Some(undo) => undo_notice(undo, undone, NameOutcome::Undone),
                None => notice(after, undone, NameOutcome::Undone),
            },
            None => {
                let done = done(result, external_id.as_deref(), *status);
                notice(after, step, done)
            }
        }
    } else if let Event::Intended { step, .. } = event {
        let early = SeededBug::NameDoneBeforeEffect.is_seeded();
        early
            .then(|| notice(after, step, done(&Value::Null, None, None)))
            .flatten()
    } else if let Event::Failed { step, fault, .. } = event {
        let outcome = failed(after.effect()?, fault)?;
        notice(after, step, outcome)
    } else if let Event::Broken { step, .. } = event {
        notice(after, step.as_deref()?, NameOutcome::Freed)
    } else if let Event::Stopped {
        reason: StopReason::InDoubt,
        fault,
    } = event
    {
        let (step, named) = here(after, flow)?;
        let used = named.standing == NameStanding::Used;
        used.then(|| notice(after, step, NameOutcome::InDoubt(text(fault))))
            .flatten()
    } else if let Event::Ended { .. } = event {
        ended(after, flow)
    } else {
        None
    }
}

fn done(result: &Value, external_id: Option<&str>, status: Option<u16>) -> NameOutcome {
    NameOutcome::Done {
        happened: NamedResult {
            result: Some(result.clone()),
            external_id: external_id.map(str::to_owned),
        },
        status,
    }
}

/// What a failed attempt means for the name; nothing where it is tried again.
fn failed(pending: &PendingEffect, fault: &Fault) -> Option<NameOutcome> {
    match (&pending.entry, pending.given_up) {
        // An operator failed it while it was in doubt: it may have happened.
        (LedgerEntry::Failed(_), Some(_)) => Some(NameOutcome::InDoubt(text(fault))),
        (LedgerEntry::Failed(_), None) => Some(NameOutcome::Failed(text(fault))),
        (
            LedgerEntry::Pending(_)
            | LedgerEntry::Retrying(_)
            | LedgerEntry::InDoubt(_)
            | LedgerEntry::Done(_),
            _,
        ) => None,
    }
}

/// What the end of a run means for the name of the step that it stands at.
fn ended(after: &FoldedRun, flow: &Flow) -> Option<NameNotice> {
    if let Some(told) = ended_undo(after, flow) {
        return Some(told);
    }
    let (step, named) = here(after, flow)?;
    let outcome = match (&named.standing, &after.current) {
        (NameStanding::Done | NameStanding::Over, _) => return None,
        (NameStanding::Held | NameStanding::Used, Current::Effect(pending)) => {
            match &pending.entry {
                LedgerEntry::Retrying(effect) if effect.doubted() => {
                    NameOutcome::InDoubt(text(&effect.state().fault))
                }
                LedgerEntry::Retrying(effect) => NameOutcome::Failed(text(&effect.state().fault)),
                // The event that failed it said so.
                LedgerEntry::Failed(_)
                | LedgerEntry::Pending(_)
                | LedgerEntry::InDoubt(_)
                | LedgerEntry::Done(_) => return None,
            }
        }
        (
            NameStanding::Asked
            | NameStanding::Waiting { .. }
            | NameStanding::Held
            | NameStanding::Used,
            _,
        ) => NameOutcome::Freed,
    };
    notice(after, step, outcome)
}

/// What the end of a run means for the name of an effect that it was about to undo.
fn ended_undo(after: &FoldedRun, flow: &Flow) -> Option<NameNotice> {
    let undone = after.step(flow)?.id.as_str().strip_suffix(UNDO)?;
    let undo = after.undos.get(undone)?;
    match undo.standing {
        UndoStanding::Begun | UndoStanding::Again => {}
        UndoStanding::Shared | UndoStanding::Left | UndoStanding::Over => return None,
    }
    let outcome = match &after.current {
        Current::Effect(pending) => match (&pending.entry, pending.given_up) {
            (LedgerEntry::Retrying(effect), _) if effect.doubted() => {
                NameOutcome::UndoInDoubt(text(&effect.state().fault))
            }
            (LedgerEntry::Failed(effect), Some(_)) => {
                NameOutcome::UndoInDoubt(text(&effect.state().fault))
            }
            (LedgerEntry::Retrying(_) | LedgerEntry::Failed(_), _) => NameOutcome::Kept,
            (LedgerEntry::Pending(_) | LedgerEntry::InDoubt(_) | LedgerEntry::Done(_), _) => {
                return None;
            }
        },
        Current::Fresh
        | Current::Reading(_)
        | Current::Waiting { .. }
        | Current::Fan(_)
        | Current::Approving(_)
        | Current::Broken(_) => NameOutcome::Kept,
    };
    undo_notice(undo, undone, outcome)
}

/// Nothing where no name is left that could be told.
fn undo_notice(undo: &NameUndo, undone: &str, outcome: NameOutcome) -> Option<NameNotice> {
    let UndoneName { name, token } = undo.held?;
    Some(NameNotice {
        name,
        step: undone.to_owned(),
        generation: 0,
        token: Some(token),
        outcome,
    })
}

/// The step that a run stands at, and the name of its effect.
fn here<'a>(state: &'a FoldedRun, flow: &'a Flow) -> Option<(&'a str, &'a StepName)> {
    let step = state.step(flow)?.id.as_str();
    Some((step, state.names.get(step)?))
}

/// Nothing where the run never had a hold that the outcome could be of.
fn notice(after: &FoldedRun, step: &str, outcome: NameOutcome) -> Option<NameNotice> {
    let named = after.names.get(step)?;
    let token = named.hold.map(|hold| hold.token);
    if token.is_none() && outcome != NameOutcome::Freed {
        return None;
    }
    Some(NameNotice {
        name: named.name,
        step: step.to_owned(),
        generation: named.generation,
        token,
        outcome,
    })
}

fn text(fault: &Fault) -> Value {
    serde_json::to_value(fault.for_record()).unwrap_or_default()
}

pub(super) fn describe_named(step: &str, named: &NameEvent) -> String {
    match named {
        NameEvent::Asked { scope, key, .. } => format!("{step}: business key {key} in {scope}"),
        NameEvent::Held { effect, .. } => format!("{step}: first under its key; sends {effect}"),
        NameEvent::Waiting {
            behind,
            in_doubt: false,
        } => format!("{step}: waiting behind {behind}, which has its key"),
        NameEvent::Waiting {
            behind,
            in_doubt: true,
        } => format!("{step}: waiting until the doubt of {behind} about its key is settled"),
        NameEvent::Reused { effect, by, .. } => {
            format!("{step}: already done by {by} ({effect}); nothing was sent")
        }
        NameEvent::Undoing { .. } => {
            format!("{step}: whoever asks for the business key waits for this undo")
        }
        NameEvent::Shared { count, by } => {
            let by: Vec<String> = by.iter().map(ToString::to_string).collect();
            format!(
                "{step}: reused {count} times by other runs: {}",
                by.join(", ")
            )
        }
        NameEvent::Left => format!("{step}: left as it is, because other runs reused it"),
    }
}
