//! Earlier runs of the key: what a later run follows, inherits, reuses and takes over.

use std::collections::BTreeMap;

use semel_flow::Flow;
use semel_model::effect::{Effect, LedgerEntry, Pending};
use semel_model::event::{Event, FollowedRun};
use semel_model::{EffectId, PastEffect, PastOutcome, RunId};
use semel_store::journal::EffectChange;
use serde_json::Value;

use super::changes::{EffectSnapshot, RowChanges};
use crate::state::{Current, EarlierRuns, FOUND, FoldedRun, NAMED, PendingEffect, Unfit, fits};

pub(super) fn apply_follows(state: &mut FoldedRun, followed: &FollowedRun) -> Result<(), Unfit> {
    state.must_be_live()?;
    fits(state.earlier.is_none())?;
    state.earlier = Some(Box::new(EarlierRuns {
        first: followed.first,
        last: Some(followed.last),
        intent: followed.intent,
        accepts: followed.accepts.clone(),
        kept: followed.kept.clone(),
        results: BTreeMap::new(),
        effects: None,
        runs: Vec::new(),
    }));
    Ok(())
}

pub(super) fn apply_inherited(state: &mut FoldedRun, event: &Event) -> Result<(), Unfit> {
    let Event::Inherited {
        runs,
        effects,
        results,
    } = event
    else {
        return Err(Unfit);
    };
    state.must_be_live()?;
    let earlier = state.earlier.as_mut().ok_or(Unfit)?;
    fits(earlier.effects.is_none())?;
    let by_step = effects.iter().map(|it| (it.step.clone(), it.clone()));
    earlier.effects = Some(by_step.collect());
    let by_step = results.iter().map(|it| (it.step.clone(), it.clone()));
    earlier.results = by_step.collect();
    earlier.runs.clone_from(runs);
    Ok(())
}

pub(super) fn apply_reused(
    state: &mut FoldedRun,
    flow: &Flow,
    step: &str,
    (result, external_id, status): (&Value, Option<&str>, Option<u16>),
) -> Result<(), Unfit> {
    state.must_be_new_at(flow, step)?;
    let past = state.past(step).filter(|past| past.is_done());
    let kind = past.ok_or(Unfit)?.kind.as_str();
    // Not among what this run undoes: no run of its key performed it.
    let is_met = kind == NAMED || kind == FOUND;
    if state.undoing.is_none() && !is_met {
        state.done.extend(state.cursor);
    }
    state.finish_step(flow, step, result.clone(), external_id, status);
    Ok(())
}

/// The run stands at the effect as the earlier run left it: failed by an operator while in doubt.
pub(super) fn apply_taken_over(
    state: &mut FoldedRun,
    flow: &Flow,
    step: &str,
) -> Result<(), Unfit> {
    state.must_be_new_at(flow, step)?;
    let past = state.past(step).ok_or(Unfit)?;
    let PastOutcome::InDoubt {
        request,
        guard,
        attempt,
        window,
        since,
        intended_at,
        fault,
        settled_by,
    } = &past.outcome
    else {
        return Err(Unfit);
    };
    let entry = Effect::<Pending>::taken_over(past.effect, *guard, *attempt);
    let mut pending = PendingEffect::intend(past.effect, *guard, (**request).clone(), *since);
    pending.entry = LedgerEntry::Retrying(entry.retrying(fault.clone()));
    pending.window = *window;
    pending.intended_at = *intended_at;
    pending.retry_at = Some(*intended_at);
    pending.given_up = Some(*settled_by);
    state.current = Current::Effect(Box::new(pending));
    Ok(())
}

/// The ledger's row of the effect is the later run's from now on.
pub(super) fn project_taken_over(after: &FoldedRun, flow: &Flow, step: &str) -> RowChanges {
    let Some(now) = EffectSnapshot::of(after, flow) else {
        return RowChanges::default();
    };
    RowChanges::of_effect(EffectChange {
        effect: now.effect,
        step: step.to_owned(),
        kind: flow.find_step(step).map_or("", |step| step.kind().as_str()),
        guard: now.guard,
        state: now.state,
        attempt: now.attempt,
        first: true,
        follows: true,
        was_in_doubt: false,
        external_id: None,
        note: None,
    })
}

pub(super) fn describe_follows(followed: &FollowedRun) -> String {
    let last = followed.last;
    match followed.intent {
        0 => format!("follows {last}: what it did is not done again"),
        // Whether the run before had the same intent is not known here.
        intent => format!(
            "follows {last}, under intent {} of the key: what was done under it is not done again",
            intent + 1
        ),
    }
}

pub(super) fn describe_inherited(runs: &[RunId], effects: &[PastEffect]) -> String {
    let done = effects.iter().filter(|it| it.is_done()).count();
    match runs {
        [] => "earlier runs of the key are no longer in the history".to_owned(),
        // What items and branches did is read at their own places.
        _ if done == 0 => {
            "no step of the run itself was done by an earlier run of the key; items and branches read their own"
                .to_owned()
        }
        [_] => format!("{done} done by an earlier run of the key"),
        runs => format!("{done} done by {} earlier runs of the key", runs.len()),
    }
}

pub(super) fn describe_reused(step: &str, effect: EffectId, run: RunId) -> String {
    format!("{step}: already done by {run} ({effect}); nothing was sent")
}

pub(super) fn describe_taken_over(step: &str, effect: EffectId) -> String {
    format!("{step}: an earlier run left {effect} in doubt")
}
