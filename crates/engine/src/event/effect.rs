//! Effects: intended, settled, in doubt, probed, licensed.

mod ledger;

pub(crate) use ledger::expect_done;
pub(super) use ledger::{
    project_done, project_doubted, project_failed, project_found_before, project_intended,
    project_named, project_probed,
};

use jiff::Timestamp;
use semel_flow::{Flow, Step};
use semel_model::effect::{ConfirmedBy, LedgerEntry, Licence};
use semel_model::event::{DoubtPlan, Event, ProbeFinding};
use semel_model::{Doubt, EffectId, Fault, Guard};
use serde_json::Value;

use super::{named, words};
use crate::state::{Current, FoldedRun, NameStanding, PendingEffect, Unfit, fits};

/// The effect that a run stands at, at this step.
fn pending<'s>(
    state: &'s mut FoldedRun,
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
    state: &mut FoldedRun,
    flow: &Flow,
    event: &Event,
    at: Timestamp,
) -> Result<(), Unfit> {
    let Event::Intended {
        step,
        effect,
        attempt,
        request,
        licence,
        guard,
        window,
        generation,
    } = event
    else {
        return Err(Unfit);
    };
    if state.effect().is_some() && request.is_some() {
        may_be_renewed(pending(state, flow, step)?, *effect, *attempt)?;
        state.current = Current::Fresh;
    }
    if state.effect().is_some() {
        let pending = pending(state, flow, step)?;
        intend_again(pending, *effect, *attempt, *licence)?;
        pending.intended_at = at;
    } else {
        state.must_be_new_at(flow, step)?;
        fits(*attempt == 1)?;
        let request = request.as_deref().ok_or(Unfit)?;
        let guard = guard.or(state.step(flow).and_then(Step::guard));
        let guard = guard.unwrap_or(Guard::Review);
        let mut first = PendingEffect::intend(*effect, guard, request.clone(), at);
        first.window = *window;
        state.current = Current::Effect(Box::new(first));
    }
    // The destination keeps a refusal under the keys before this one.
    let ahead = generation.saturating_sub(state.generation(step));
    if ahead > 0 {
        *state.renewed.entry(step.clone()).or_default() += ahead;
    }
    state.stopped = false;
    named::apply_intended(state, step)
}

/// Another effect takes the place of one that is known not to have happened.
fn may_be_renewed(pending: &PendingEffect, effect: EffectId, attempt: u32) -> Result<(), Unfit> {
    let failed = matches!(pending.entry, LedgerEntry::Retrying(_)) && pending.given_up.is_none();
    fits(failed && pending.entry.id() != effect && attempt == 1)
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
        (LedgerEntry::Retrying(effect), _) => LedgerEntry::Pending(effect.again()),
        (LedgerEntry::InDoubt(effect), Some(licence)) => {
            LedgerEntry::Pending(effect.repeated(licence))
        }
        // In journals of earlier builds a repeated delivery resumes it.
        (LedgerEntry::Failed(effect), _) => LedgerEntry::Pending(effect.reopened().again()),
        (LedgerEntry::InDoubt(_), None) | (LedgerEntry::Pending(_) | LedgerEntry::Done(_), _) => {
            return Err(Unfit);
        }
    };
    pending.retry_at = None;
    pending.plan = None;
    pending.licence = None;
    pending.resumed = false;
    pending.given_up = None;
    Ok(())
}

pub(super) fn apply_done(
    state: &mut FoldedRun,
    flow: &Flow,
    (step, by): (&str, ConfirmedBy),
    (result, external_id, status): (&Value, Option<&str>, Option<u16>),
) -> Result<(), Unfit> {
    if by == ConfirmedBy::FoundBefore {
        // This run sent nothing: what it found is not its to undo.
        must_look_first(state, flow, step)?;
    } else {
        must_be_open(pending(state, flow, step)?)?;
        if state.undoing.is_none() {
            state.done.extend(state.cursor);
        }
    }
    named::apply_done(state, step);
    state.finish_step(flow, step, result.clone(), external_id, status);
    Ok(())
}

/// The run stands at a step that asks before its first attempt, and has sent nothing.
fn must_look_first(state: &FoldedRun, flow: &Flow, step: &str) -> Result<(), Unfit> {
    state.must_be_new_at(flow, step)?;
    let probe = state.step(flow).and_then(|step| step.guard.probe());
    fits(probe.is_some_and(|probe| probe.before))
}

/// It may have happened: the intent is written, and it is not known that it did not.
pub(super) fn must_be_open(pending: &PendingEffect) -> Result<(), Unfit> {
    match &pending.entry {
        LedgerEntry::Pending(_) | LedgerEntry::InDoubt(_) => Ok(()),
        LedgerEntry::Retrying(_) | LedgerEntry::Failed(_) | LedgerEntry::Done(_) => Err(Unfit),
    }
}

/// The effect that a run stands at happened: the caller decides what follows.
pub(super) fn must_be_open_at(state: &mut FoldedRun, flow: &Flow, step: &str) -> Result<(), Unfit> {
    must_be_open(pending(state, flow, step)?)
}

pub(super) fn apply_failed(
    state: &mut FoldedRun,
    flow: &Flow,
    step: &str,
    (fault, retry_at): (&Fault, Option<Timestamp>),
) -> Result<(), Unfit> {
    let pending = pending(state, flow, step)?;
    pending.entry = match pending.entry.clone() {
        LedgerEntry::Pending(effect) if fault.retryable => {
            LedgerEntry::Retrying(effect.retrying(fault.clone()))
        }
        LedgerEntry::Pending(effect) => LedgerEntry::Failed(effect.failed(fault.clone())),
        LedgerEntry::Retrying(effect) => LedgerEntry::Failed(effect.given_up()),
        LedgerEntry::InDoubt(effect) => {
            // Unless a probe found nothing, an operator failed it.
            let is_absent = pending.licence == Some(Licence::Absent);
            pending.given_up = (!is_absent).then_some(effect.state().doubt.settled_by);
            LedgerEntry::Failed(effect.refuted(fault.clone()))
        }
        LedgerEntry::Done(_) | LedgerEntry::Failed(_) => return Err(Unfit),
    };
    pending.retry_at = retry_at;
    pending.licence = None;
    pending.held_back += u32::from(fault.is_held_back());
    let over = matches!(pending.entry, LedgerEntry::Failed(_)) && pending.given_up.is_none();
    state.stopped = false;
    if over {
        named::leave(state, step, NameStanding::Over);
    }
    Ok(())
}

pub(super) fn apply_doubted(
    state: &mut FoldedRun,
    flow: &Flow,
    step: &str,
    (doubt, plan): (&Doubt, &DoubtPlan),
) -> Result<(), Unfit> {
    let pending = pending(state, flow, step)?;
    pending.entry = match pending.entry.clone() {
        LedgerEntry::Pending(effect) => LedgerEntry::InDoubt(effect.in_doubt(doubt.clone())),
        LedgerEntry::Retrying(effect) => LedgerEntry::InDoubt(effect.in_doubt(doubt.clone())),
        // In journals of earlier builds a repeated delivery resumes it.
        LedgerEntry::Failed(effect) => {
            LedgerEntry::InDoubt(effect.reopened().in_doubt(doubt.clone()))
        }
        // The plan was to repeat it, and its time is over: the first doubt stays.
        LedgerEntry::InDoubt(effect) => LedgerEntry::InDoubt(effect),
        LedgerEntry::Done(_) => return Err(Unfit),
    };
    pending.plan = Some(plan.clone());
    pending.licence = None;
    pending.resumed = false;
    pending.given_up = None;
    pending.probes = 0;
    pending.absences = 0;
    Ok(())
}

pub(super) fn apply_probed(
    state: &mut FoldedRun,
    flow: &Flow,
    step: &str,
    seen: &ProbeFinding,
) -> Result<(), Unfit> {
    if state.effect().is_none() {
        // The look before the first attempt: the intent follows in the same write.
        must_look_first(state, flow, step)?;
        return fits(*seen == ProbeFinding::Absent);
    }
    let pending = in_doubt(state, flow, step)?;
    match seen {
        ProbeFinding::Absent => pending.licence = Some(Licence::Absent),
        ProbeFinding::AbsentSoFar {
            absent_from,
            next_at,
        } => {
            pending.absences += 1;
            pending.plan = Some(DoubtPlan::Probe {
                at: *next_at,
                absent_from: Some(*absent_from),
            });
        }
        ProbeFinding::Unclear {
            retry_at: Some(at), ..
        } => {
            pending.probes += 1;
            let (at, absent_from) = (*at, pending.absent_from());
            pending.plan = Some(DoubtPlan::Probe { at, absent_from });
        }
        ProbeFinding::Unclear { retry_at: None, .. } => pending.plan = Some(DoubtPlan::Review),
    }
    Ok(())
}

pub(super) fn apply_licensed(state: &mut FoldedRun, flow: &Flow, step: &str) -> Result<(), Unfit> {
    in_doubt(state, flow, step)?.licence = Some(Licence::Operator);
    state.stopped = false;
    Ok(())
}

fn in_doubt<'s>(
    state: &'s mut FoldedRun,
    flow: &Flow,
    step: &str,
) -> Result<&'s mut PendingEffect, Unfit> {
    let pending = pending(state, flow, step)?;
    fits(matches!(pending.entry, LedgerEntry::InDoubt(_)))?;
    Ok(pending)
}

pub(super) fn describe_intended(step: &str, attempt: u32, licence: Option<Licence>) -> String {
    let why = licence.map_or("", licensed);
    format!("{step}: attempt {attempt} started{why}")
}

/// Why an effect in doubt may be performed again.
const fn licensed(licence: Licence) -> &'static str {
    match licence {
        Licence::Key => " (repeat: the destination honours the key)",
        Licence::Natural => " (repeat: a second time changes nothing)",
        Licence::Repeat => " (repeat: the author accepts duplicates)",
        Licence::Absent => " (repeat: a probe found nothing)",
        Licence::Uncommitted => " (repeat: nothing was committed)",
        Licence::Marker => " (repeat: the destination keeps a marker)",
        Licence::Operator => " (repeat: an operator confirmed that it did not happen)",
    }
}

pub(super) fn describe_done(
    step: &str,
    by: ConfirmedBy,
    external_id: Option<&str>,
    status: Option<u16>,
) -> String {
    let status = status.map_or_else(String::new, |status| format!(" with {status}"));
    let id = external_id.map_or_else(String::new, |id| format!(" as {id}"));
    let by = match by {
        ConfirmedBy::Answer => "response received",
        ConfirmedBy::Commit => "committed",
        ConfirmedBy::Probe => "found by a probe",
        ConfirmedBy::FoundBefore => "found before anything was sent",
        ConfirmedBy::LateResponse => "late response received",
        ConfirmedBy::Operator => "confirmed by an operator",
    };
    format!("{step}: done{status}{id} ({by})")
}

pub(super) fn describe_failed(step: &str, fault: &Fault, retry_at: Option<Timestamp>) -> String {
    let (fault, retry) = (words::fault(fault), words::retry(retry_at));
    format!("{step}: did not happen {fault}{retry}")
}

pub(super) fn describe_doubted(step: &str, doubt: &Doubt, plan: &DoubtPlan) -> String {
    let (code, message) = (&doubt.code, &doubt.message);
    let plan = match plan {
        DoubtPlan::Repeat { at, .. } => format!("repeat at {at}"),
        DoubtPlan::Probe {
            at,
            absent_from: Some(from),
        } if from > at => format!("probe at {at}; absent counts from {from}"),
        DoubtPlan::Probe { at, .. } => format!("probe at {at}"),
        DoubtPlan::Review => "an operator settles it".to_owned(),
    };
    format!("{step}: in doubt ({code}): {message}; {plan}")
}

pub(super) fn describe_probed(step: &str, seen: &ProbeFinding) -> String {
    match seen {
        ProbeFinding::Absent => format!("{step}: probe found nothing"),
        ProbeFinding::AbsentSoFar {
            absent_from,
            next_at,
        } => format!(
            "{step}: probe found nothing; absent counts from {absent_from}, next probe at {next_at}"
        ),
        ProbeFinding::Unclear { fault, retry_at } => {
            let (fault, retry) = (words::fault(fault), words::retry(*retry_at));
            format!("{step}: probe failed {fault}{retry}")
        }
    }
}

pub(super) fn describe_licensed(step: &str, reason: &str) -> String {
    format!("{step}: an operator confirmed that it did not happen: {reason}")
}
