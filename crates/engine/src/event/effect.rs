//! Effects: intended, settled, in doubt, probed, licensed.

use jiff::Timestamp;
use semel_flow::{Action, Flow, Step};
use semel_model::effect::{Entry, Licence, State};
use semel_model::event::{Event, Plan, Seen};
use semel_model::request::Call;
use semel_model::storable::without_zero;
use semel_model::{Doubt, EffectId, Fault, FaultKind, Guard};
use semel_store::journal::EffectChange;
use semel_store::tasks::TaskChange;
use serde_json::Value;

use super::changes::{Before, EffectSnapshot, RowChanges};
use crate::state::{Current, PendingEffect, RunState, Unfit, fits};

/// The effect that a run stands at, at this step.
fn pending<'s>(
    state: &'s mut RunState,
    flow: &Flow,
    step: &str,
) -> Result<&'s mut PendingEffect, Unfit> {
    state.must_be_at(flow, step)?;
    match &mut state.current {
        Current::Effect(pending) => Ok(pending),
        Current::Fresh
        | Current::Reading(_)
        | Current::Waiting { .. }
        | Current::Fan(_)
        | Current::Approving(_)
        | Current::Broken(_) => Err(Unfit),
    }
}

pub(super) fn apply_intended(
    state: &mut RunState,
    flow: &Flow,
    event: &Event,
    at: Timestamp,
) -> Result<(), Unfit> {
    let Event::Intended {
        step,
        effect,
        attempt,
        call,
        licence,
        guard,
        window,
    } = event
    else {
        return Err(Unfit);
    };
    if state.effect().is_some() {
        let pending = pending(state, flow, step)?;
        intend_again(pending, *effect, *attempt, *licence)?;
        pending.intended_at = at;
    } else {
        state.must_be_new_at(flow, step)?;
        fits(*attempt == 1)?;
        let call = call.as_deref().ok_or(Unfit)?;
        let guard = guard.or(state.step(flow).and_then(Step::guard));
        let guard = guard.unwrap_or(Guard::Review);
        let mut first = PendingEffect::intend(*effect, guard, call.clone(), at);
        first.window = *window;
        state.current = Current::Effect(Box::new(first));
    }
    state.parked = false;
    Ok(())
}

fn intend_again(
    pending: &mut PendingEffect,
    effect: EffectId,
    attempt: u32,
    licence: Option<Licence>,
) -> Result<(), Unfit> {
    let entry = &pending.entry;
    fits(entry.id() == effect && entry.attempt().checked_add(1) == Some(attempt))?;
    pending.entry = match (entry.clone(), licence) {
        (Entry::Retrying(effect), _) => Entry::Pending(effect.again()),
        (Entry::InDoubt(effect), Some(licence)) => Entry::Pending(effect.repeated(licence)),
        // In journals of earlier builds a repeated delivery resumes it.
        (Entry::Failed(effect), _) => Entry::Pending(effect.reopened().again()),
        (Entry::InDoubt(_), None) | (Entry::Pending(_) | Entry::Done(_), _) => return Err(Unfit),
    };
    pending.retry_at = None;
    pending.plan = None;
    pending.licence = None;
    pending.given_up = None;
    Ok(())
}

pub(super) fn apply_done(
    state: &mut RunState,
    flow: &Flow,
    step: &str,
    (result, external_id, status): (&Value, Option<&str>, Option<u16>),
) -> Result<(), Unfit> {
    must_be_open(pending(state, flow, step)?)?;
    if state.undoing.is_none() {
        state.done.extend(state.cursor);
    }
    state.finish_step(flow, step, result.clone(), external_id, status);
    Ok(())
}

/// It may have happened: the intent is written, and it is not known that it did not.
pub(super) fn must_be_open(pending: &PendingEffect) -> Result<(), Unfit> {
    match &pending.entry {
        Entry::Pending(_) | Entry::InDoubt(_) => Ok(()),
        Entry::Retrying(_) | Entry::Failed(_) | Entry::Done(_) => Err(Unfit),
    }
}

/// The effect that a run stands at happened: what it leads to is the caller's.
pub(super) fn must_be_open_at(state: &mut RunState, flow: &Flow, step: &str) -> Result<(), Unfit> {
    must_be_open(pending(state, flow, step)?)
}

pub(super) fn apply_failed(
    state: &mut RunState,
    flow: &Flow,
    step: &str,
    (fault, retry_at): (&Fault, Option<Timestamp>),
) -> Result<(), Unfit> {
    let pending = pending(state, flow, step)?;
    pending.entry = match pending.entry.clone() {
        Entry::Pending(effect) if fault.retryable => {
            Entry::Retrying(effect.retrying(fault.clone()))
        }
        Entry::Pending(effect) => Entry::Failed(effect.failed(fault.clone())),
        Entry::Retrying(effect) => Entry::Failed(effect.given_up()),
        Entry::InDoubt(effect) => {
            // Unless a probe found nothing, an operator gave it up.
            let is_absent = pending.licence == Some(Licence::Absent);
            pending.given_up = (!is_absent).then_some(effect.state().doubt.settled_by);
            Entry::Failed(effect.refuted(fault.clone()))
        }
        Entry::Done(_) | Entry::Failed(_) => return Err(Unfit),
    };
    pending.retry_at = retry_at;
    pending.licence = None;
    pending.held_back += u32::from(fault.is_held_back());
    state.parked = false;
    Ok(())
}

pub(super) fn apply_doubted(
    state: &mut RunState,
    flow: &Flow,
    step: &str,
    (doubt, plan): (&Doubt, &Plan),
) -> Result<(), Unfit> {
    let pending = pending(state, flow, step)?;
    pending.entry = match pending.entry.clone() {
        Entry::Pending(effect) => Entry::InDoubt(effect.in_doubt(doubt.clone())),
        Entry::Retrying(effect) => Entry::InDoubt(effect.in_doubt(doubt.clone())),
        // In journals of earlier builds a repeated delivery resumes it.
        Entry::Failed(effect) => Entry::InDoubt(effect.reopened().in_doubt(doubt.clone())),
        // The plan was to repeat it, and its time is over: the first doubt stays.
        Entry::InDoubt(effect) => Entry::InDoubt(effect),
        Entry::Done(_) => return Err(Unfit),
    };
    pending.plan = Some(plan.clone());
    pending.licence = None;
    pending.given_up = None;
    pending.probes = 0;
    pending.absences = 0;
    Ok(())
}

pub(super) fn apply_probed(
    state: &mut RunState,
    flow: &Flow,
    step: &str,
    seen: &Seen,
) -> Result<(), Unfit> {
    let pending = in_doubt(state, flow, step)?;
    match seen {
        Seen::Absent => pending.licence = Some(Licence::Absent),
        Seen::AbsentSoFar {
            absent_from,
            next_at,
        } => {
            pending.absences += 1;
            pending.plan = Some(Plan::Probe {
                at: *next_at,
                absent_from: Some(*absent_from),
            });
        }
        Seen::Unclear {
            retry_at: Some(at), ..
        } => {
            pending.probes += 1;
            let (at, absent_from) = (*at, pending.absent_from());
            pending.plan = Some(Plan::Probe { at, absent_from });
        }
        Seen::Unclear { retry_at: None, .. } => pending.plan = Some(Plan::Review),
    }
    Ok(())
}

pub(super) fn apply_licensed(state: &mut RunState, flow: &Flow, step: &str) -> Result<(), Unfit> {
    in_doubt(state, flow, step)?.licence = Some(Licence::Person);
    state.parked = false;
    Ok(())
}

fn in_doubt<'s>(
    state: &'s mut RunState,
    flow: &Flow,
    step: &str,
) -> Result<&'s mut PendingEffect, Unfit> {
    let pending = pending(state, flow, step)?;
    fits(matches!(pending.entry, Entry::InDoubt(_)))?;
    Ok(pending)
}

pub(super) fn project_intended(
    before: &Before,
    event: &Event,
    after: &RunState,
    flow: &Flow,
) -> RowChanges {
    let Event::Intended {
        step,
        effect,
        attempt,
        call,
        ..
    } = event
    else {
        return RowChanges::default();
    };
    let mut changes = RowChanges::default();
    if let Some(now) = EffectSnapshot::of(after, flow).filter(|now| now.has_row) {
        changes.effects = vec![row(before, now, flow, step)];
    }
    if is_task(flow, step) {
        changes.tasks = vec![match call.as_deref() {
            Some(Call::Task(request)) => TaskChange::Open {
                task: *effect,
                step: step.clone(),
                request: Box::new(request.clone()),
            },
            Some(_) | None => TaskChange::Reopen {
                task: *effect,
                attempt: *attempt,
            },
        }];
    }
    changes
}

pub(super) fn project_done(
    before: &Before,
    flow: &Flow,
    step: &str,
    external_id: Option<String>,
) -> RowChanges {
    let Some(known) = before.effect else {
        return RowChanges::default();
    };
    RowChanges::of_effect(EffectChange {
        external_id,
        ..row(before, known.with(State::Done), flow, step)
    })
}

pub(super) fn project_failed(
    before: &Before,
    after: &RunState,
    flow: &Flow,
    step: &str,
    fault: &Fault,
) -> RowChanges {
    let Some(now) = EffectSnapshot::of(after, flow) else {
        return RowChanges::default();
    };
    let mut changes = noted(before, now, flow, step, &fault.message);
    changes.tasks = withdraw(before, flow, step, fault.kind);
    changes
}

pub(super) fn project_doubted(
    before: &Before,
    flow: &Flow,
    step: &str,
    (doubt, plan): (&Doubt, &Plan),
) -> RowChanges {
    let Some(known) = before.effect else {
        return RowChanges::default();
    };
    let how = match plan {
        Plan::Repeat { .. } => "to be repeated".to_owned(),
        Plan::Probe {
            absent_from: Some(from),
            ..
        } => format!("to be probed; absent is believed from {from}"),
        Plan::Probe {
            absent_from: None, ..
        } => "to be probed".to_owned(),
        Plan::Review => "for a person".to_owned(),
    };
    let note = format!("{} ({how})", doubt.message);
    let mut changes = noted(before, known.with(State::InDoubt), flow, step, &note);
    changes.tasks = withdraw(before, flow, step, doubt.kind);
    changes
}

pub(super) fn project_probed(before: &Before, flow: &Flow, step: &str, seen: &Seen) -> RowChanges {
    match (before.effect, seen) {
        (
            Some(known),
            Seen::Unclear {
                fault,
                retry_at: None,
            },
        ) => {
            let note = format!("the probe failed: {} (for a person)", fault.message);
            noted(before, known, flow, step, &note)
        }
        (_, Seen::Absent | Seen::AbsentSoFar { .. } | Seen::Unclear { .. }) => {
            RowChanges::default()
        }
    }
}

/// What the ledger says where the write itself will make the event that settles the effect: the
/// store puts right what it made otherwise.
pub(crate) fn expect_done(state: &RunState, flow: &Flow, step: &str) -> RowChanges {
    project_done(&Before::of(state, flow), flow, step, None)
}

fn noted(before: &Before, now: EffectSnapshot, flow: &Flow, step: &str, note: &str) -> RowChanges {
    RowChanges::of_effect(EffectChange {
        note: Some(without_zero(note).into_owned()),
        ..row(before, now, flow, step)
    })
}

/// What the ledger says of an effect from now on.
fn row(before: &Before, now: EffectSnapshot, flow: &Flow, step: &str) -> EffectChange {
    let has_row = |known: EffectSnapshot| known.effect == now.effect && known.has_row;
    EffectChange {
        effect: now.effect,
        step: step.to_owned(),
        kind: flow.find_step(step).map_or("http", Step::kind),
        guard: now.guard,
        state: now.state,
        attempt: now.attempt,
        first: !before.effect.is_some_and(has_row),
        external_id: None,
        note: None,
    }
}

/// Takes a task back that no worker has.
fn withdraw(before: &Before, flow: &Flow, step: &str, kind: FaultKind) -> Vec<TaskChange> {
    let pending = before.effect.filter(|known| known.state == State::Pending);
    match pending {
        Some(known) if kind == FaultKind::Untaken && is_task(flow, step) => {
            vec![TaskChange::Withdraw { task: known.effect }]
        }
        Some(_) | None => Vec::new(),
    }
}

fn is_task(flow: &Flow, step: &str) -> bool {
    let action = flow.find_step(step).map(|step| &step.action);
    matches!(action, Some(Action::Task(_)))
}
