//! What events make of the ledger's rows and of tasks.

use semel_flow::{Action, Flow, Step};
use semel_model::effect::EffectState;
use semel_model::event::{DoubtPlan, Event, NameEvent, NameHolder, ProbeFinding};
use semel_model::request::StepRequest;
use semel_model::storable::without_zero;
use semel_model::{Doubt, EffectId, Fault, FaultKind, Guard, PastOutcome};
use semel_store::effects::{FOUND_BEFORE, GIVEN_UP};
use semel_store::journal::EffectChange;
use semel_store::tasks::TaskChange;

use crate::event::changes::{Before, EffectSnapshot, RowChanges};
use crate::event::kept_generations;
use crate::state::FoldedRun;

pub(in crate::event) fn project_intended(
    before: &Before,
    event: &Event,
    after: &FoldedRun,
    flow: &Flow,
) -> RowChanges {
    let Event::Intended {
        step,
        effect,
        attempt,
        request,
        ..
    } = event
    else {
        return RowChanges::default();
    };
    let mut changes = RowChanges::default();
    if let Some(now) = EffectSnapshot::of(after, flow).filter(|now| now.has_row) {
        let follows = after.earlier.is_some();
        changes.effects = vec![EffectChange {
            follows,
            ..row(before, now, flow, step)
        }];
    }
    // Another effect takes its place, under another key.
    if let Some(known) = before.effect.filter(|known| known.effect != *effect) {
        let failed = known.with(EffectState::Failed);
        let note = "refused, and the destination keeps that under its key".to_owned();
        changes.effects.push(EffectChange {
            note: Some(note),
            ..row(before, failed, flow, step)
        });
    }
    if is_task(flow, step) {
        changes.tasks = vec![match request.as_deref() {
            Some(StepRequest::Task(request)) => TaskChange::Open {
                task: *effect,
                step: step.clone(),
                request: Box::new(request.clone()),
            },
            Some(StepRequest::External(_) | StepRequest::Local(_)) | None => TaskChange::Reopen {
                task: *effect,
                attempt: *attempt,
            },
        }];
    }
    changes
}

pub(in crate::event) fn project_done(
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
        ..row(before, known.with(EffectState::Done), flow, step)
    })
}

/// An entry without an attempt: what something else made is done, and this run sent nothing.
pub(in crate::event) fn project_found_before(
    after: &FoldedRun,
    flow: &Flow,
    step: &str,
    external_id: Option<String>,
) -> RowChanges {
    let found = EffectSnapshot {
        effect: after.effect_id(step),
        guard: Guard::Probe,
        attempt: 0,
        state: EffectState::Done,
        has_row: true,
    };
    RowChanges::of_effect(EffectChange {
        external_id,
        note: Some(FOUND_BEFORE.to_owned()),
        follows: after.earlier.is_some(),
        ..row(&Before::default(), found, flow, step)
    })
}

pub(in crate::event) fn project_named(
    before: &Before,
    after: &FoldedRun,
    flow: &Flow,
    step: &str,
    named: &NameEvent,
) -> RowChanges {
    match named {
        NameEvent::Reused {
            effect,
            by,
            external_id,
            ..
        } => match is_own(after, by) && may_have_sent(before, after, step) {
            true => project_settled(before, after, flow, step, external_id.clone()),
            false => {
                let made = (*effect, by);
                project_met(before, after, flow, step, made, external_id.clone())
            }
        },
        NameEvent::Asked { .. }
        | NameEvent::Held { .. }
        | NameEvent::Waiting { .. }
        | NameEvent::Undoing { .. }
        | NameEvent::Shared { .. } => RowChanges::default(),
        NameEvent::Left => match before.effect {
            Some(known) => {
                let left = known.with(EffectState::Failed);
                let note = "left as it is, because other runs reused it";
                noted(before, left, flow, step, note)
            }
            None => RowChanges::default(),
        },
    }
}

/// Whether the holder of a name is this run, or one before it at the same place of its key.
fn is_own(after: &FoldedRun, by: &NameHolder) -> bool {
    let NameHolder::Run(by) = by else {
        return false;
    };
    let earlier = after.earlier.as_ref();
    *by == after.run
        || earlier.is_some_and(|earlier| earlier.first == *by || earlier.runs.contains(by))
}

/// Whether this run, or one before it at the same place of its key, may have sent the effect of this very step: another
/// step of the run may hold the name as well.
fn may_have_sent(before: &Before, after: &FoldedRun, step: &str) -> bool {
    let past = after.past(step).map(|past| &past.outcome);
    before.effect.is_some()
        || match past {
            Some(PastOutcome::InDoubt { .. } | PastOutcome::DoubtErased { .. }) => true,
            Some(PastOutcome::Done { .. } | PastOutcome::Failed { .. } | PastOutcome::Undone)
            | None => false,
        }
}

/// An own doubt that was settled at the name: what was sent happened. Where an earlier run sent it, the entry
/// is this run's from now on, as if it had taken it over.
fn project_settled(
    before: &Before,
    after: &FoldedRun,
    flow: &Flow,
    step: &str,
    external_id: Option<String>,
) -> RowChanges {
    if before.effect.is_some() {
        return project_done(before, flow, step, external_id);
    }
    let past = after.past(step).map(|past| (past.effect, &past.outcome));
    let (effect, guard, attempt) = match past {
        Some((effect, PastOutcome::InDoubt { guard, attempt, .. })) => (effect, *guard, *attempt),
        Some((
            effect,
            PastOutcome::Done { .. }
            | PastOutcome::Failed { .. }
            | PastOutcome::Undone
            | PastOutcome::DoubtErased { .. },
        )) => (effect, guard_of(flow, step), 1),
        None => (after.effect_id(step), guard_of(flow, step), 1),
    };
    let settled = EffectSnapshot {
        effect,
        guard,
        attempt: attempt.max(1),
        state: EffectState::Done,
        has_row: true,
    };
    RowChanges::of_effect(EffectChange {
        external_id,
        follows: after.earlier.is_some(),
        ..row(&Before::default(), settled, flow, step)
    })
}

/// An entry without an attempt: another holder of the business key made the effect, and this run sent nothing
/// that counts. Such an entry is no second effect that is done.
fn project_met(
    before: &Before,
    after: &FoldedRun,
    flow: &Flow,
    step: &str,
    (made, by): (EffectId, &NameHolder),
    external_id: Option<String>,
) -> RowChanges {
    let known = before.effect;
    let met = EffectSnapshot {
        effect: known.map_or_else(|| after.effect_id(step), |known| known.effect),
        guard: known.map_or_else(|| guard_of(flow, step), |known| known.guard),
        attempt: 0,
        state: EffectState::Done,
        has_row: true,
    };
    let mut note =
        format!("already done by {by} ({made}) under its business key; nothing was sent");
    if known.is_some() {
        note.push_str(" then, and the attempts of this run before did not happen");
    }
    RowChanges::of_effect(EffectChange {
        external_id,
        note: Some(without_zero(&note).into_owned()),
        follows: after.earlier.is_some(),
        ..row(before, met, flow, step)
    })
}

fn guard_of(flow: &Flow, step: &str) -> Guard {
    let guard = flow.find_step(step).and_then(Step::guard);
    guard.unwrap_or(Guard::Review)
}

pub(in crate::event) fn project_failed(
    before: &Before,
    after: &FoldedRun,
    flow: &Flow,
    step: &str,
    fault: &Fault,
) -> RowChanges {
    let Some(now) = EffectSnapshot::of(after, flow) else {
        return RowChanges::default();
    };
    let is_given_up = after.effect().is_some_and(|it| it.given_up.is_some());
    let note = match is_given_up {
        // The row says `failed`, and whether it happened stays unknown.
        true => format!("{GIVEN_UP}: {}", fault.message),
        // The words of others are not those by which the ledger tells a doubt.
        false if fault.message.starts_with(GIVEN_UP) => format!("failed: {}", fault.message),
        false => fault.message.clone(),
    };
    let mut changes = noted(before, now, flow, step, &note);
    changes.tasks = withdraw(before, flow, step, fault.kind);
    changes
}

pub(in crate::event) fn project_doubted(
    before: &Before,
    flow: &Flow,
    step: &str,
    (doubt, plan): (&Doubt, &DoubtPlan),
) -> RowChanges {
    let Some(known) = before.effect else {
        return RowChanges::default();
    };
    let how = match plan {
        DoubtPlan::Repeat { .. } => "to be repeated".to_owned(),
        DoubtPlan::Probe {
            absent_from: Some(from),
            ..
        } => format!("to be probed; absent is believed from {from}"),
        DoubtPlan::Probe {
            absent_from: None, ..
        } => "to be probed".to_owned(),
        DoubtPlan::Review => "for an operator".to_owned(),
    };
    let note = format!("{} ({how})", doubt.message);
    let mut changes = noted(before, known.with(EffectState::InDoubt), flow, step, &note);
    changes.tasks = withdraw(before, flow, step, doubt.kind);
    changes
}

pub(in crate::event) fn project_probed(
    before: &Before,
    flow: &Flow,
    step: &str,
    seen: &ProbeFinding,
) -> RowChanges {
    match (before.effect, seen) {
        (
            Some(known),
            ProbeFinding::Unclear {
                fault,
                retry_at: None,
            },
        ) => {
            let note = format!("the probe failed: {} (for an operator)", fault.message);
            noted(before, known, flow, step, &note)
        }
        (
            _,
            ProbeFinding::Absent | ProbeFinding::AbsentSoFar { .. } | ProbeFinding::Unclear { .. },
        ) => RowChanges::default(),
    }
}

/// What the ledger says where the write itself will make the event that settles the effect: the
/// store corrects the row where it made another event.
pub(crate) fn expect_done(state: &FoldedRun, flow: &Flow, step: &str) -> RowChanges {
    RowChanges {
        kept_generations: kept_generations::done(state, flow, step),
        ..project_done(&Before::of(state, flow), flow, step, None)
    }
}

fn noted(before: &Before, now: EffectSnapshot, flow: &Flow, step: &str, note: &str) -> RowChanges {
    RowChanges::of_effect(EffectChange {
        note: Some(without_zero(note).into_owned()),
        ..row(before, now, flow, step)
    })
}

/// What the ledger says of an effect from now on.
fn row(before: &Before, now: EffectSnapshot, flow: &Flow, step: &str) -> EffectChange {
    let known = before.effect;
    let known = known.filter(|known| known.effect == now.effect && known.has_row);
    EffectChange {
        effect: now.effect,
        step: step.to_owned(),
        kind: flow.find_step(step).map_or("", |step| step.kind().as_str()),
        guard: now.guard,
        state: now.state,
        attempt: now.attempt,
        first: known.is_none(),
        follows: false,
        was_in_doubt: known.is_some_and(|known| known.state == EffectState::InDoubt),
        external_id: None,
        note: None,
    }
}

/// Takes a task back that no worker has.
fn withdraw(before: &Before, flow: &Flow, step: &str, kind: FaultKind) -> Vec<TaskChange> {
    let pending = before
        .effect
        .filter(|known| known.state == EffectState::Pending);
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
