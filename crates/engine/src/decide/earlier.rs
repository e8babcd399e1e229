//! Steps that earlier runs of the key came to: what is done is reused, what is in doubt stays so.

use semel_flow::release::{Action, RenderError, StepWork, WaitStep};
use semel_flow::{Scope, Step};
use semel_model::approval::ApprovalRequest;
use semel_model::event::Event;
use semel_model::request::StepRequest;
use semel_model::run::StopReason;
use semel_model::{EffectId, Fault, PastEffect, PastOutcome, RunId};
use serde_json::Value;
use uuid::Uuid;

use super::render::render;
use super::{DecideContext, Next, NextAction, intend};
use crate::state::{APPROVAL, FOUND, FoldedRun, NAMED, UNDO, WAIT, fingerprint, shown};

/// What a step gave in an earlier run and is not asked for again: the answer to a wait for a
/// callback or an event, or the result of a step that changes nothing and keeps it.
pub(super) fn answer(state: &FoldedRun, step: &Step) -> Option<Event> {
    let earlier = state.earlier.as_ref()?;
    if let Some(kept) = earlier.kept(step.id.as_str())
        && keeps_result(step)
    {
        return Some(Event::Computed {
            step: step.id.to_string(),
            result: kept.result.clone(),
            status: kept.status,
            usage: Value::Null,
        });
    }
    let asks = matches!(
        &step.action,
        Action::Wait(WaitStep::Callback { .. } | WaitStep::Event { .. })
    );
    let past = state.past(step.id.as_str())?;
    (asks && past.kind == WAIT).then(|| reused(past)).flatten()
}

/// Whether an earlier run came to the effect, and it is done or in doubt: there is nothing to ask.
pub(super) fn is_known(state: &FoldedRun, step: &str) -> bool {
    current(state, step).is_some_and(|past| match past.outcome {
        PastOutcome::Done { .. }
        | PastOutcome::InDoubt { .. }
        | PastOutcome::DoubtErased { .. } => true,
        PastOutcome::Failed { .. } | PastOutcome::Undone => false,
    })
}

/// What earlier runs came to at a step, unless it was meant to happen again since.
fn current<'a>(state: &'a FoldedRun, step: &str) -> Option<&'a PastEffect> {
    let past = state.past(step)?;
    (past.generation == state.generation(step)).then_some(past)
}

/// Whether a step changes nothing, so that a replay may keep its result: a read, a function, a timer.
pub(super) fn keeps_result(step: &Step) -> bool {
    match &step.action {
        Action::Wait(wait) => matches!(wait, WaitStep::Timer(_) | WaitStep::Until(_)),
        Action::Function(_) => true,
        Action::Switch(_)
        | Action::Foreach(_)
        | Action::Parallel(_)
        | Action::Approval(_)
        | Action::Fail(_)
        | Action::Return(_) => false,
        Action::Http(_)
        | Action::Db(_)
        | Action::Kv(_)
        | Action::Ssh(_)
        | Action::Notify(_)
        | Action::Llm(_)
        | Action::Persist(_)
        | Action::Emit(_)
        | Action::Call(_)
        | Action::Task(_) => step.guard().is_none(),
    }
}

/// The approval that an earlier run was given for the same content.
pub(super) fn approval(state: &FoldedRun, step: &str, asked: &ApprovalRequest) -> Option<Event> {
    let past = state.past(step)?;
    let same = past.kind == APPROVAL && past.fingerprint == shown(asked);
    same.then(|| reused(past)).flatten()
}

/// The first look at an effect of a run that follows another of its key.
pub(super) fn begin(
    state: &FoldedRun,
    context: &DecideContext<'_>,
    step: &Step,
    scope: &Scope<'_>,
    request: Box<StepRequest>,
) -> Result<Next, RenderError> {
    let name = step.id.as_str();
    let (effect, generation) = (state.effect_id(name), state.generation(name));
    match current(state, name).map(|past| (past, &past.outcome)) {
        Some((past, PastOutcome::Done { .. })) => Ok(reuse(state, past, &request, false)),
        Some((past, PastOutcome::InDoubt { .. })) if past.sent_as.is_some() => {
            Ok(review(in_doubt_elsewhere(past)))
        }
        Some((past, PastOutcome::InDoubt { .. })) => Ok(Next::Event(Event::TakenOver {
            step: past.step.clone(),
            effect,
        })),
        Some((past, PastOutcome::DoubtErased { .. })) => Ok(review(doubt_erased(past))),
        // The destination may have stored its refusal, and takes no other bytes under the key.
        Some((past, PastOutcome::Failed { fault }))
            if past.fingerprint != fingerprint(&request)
                || is_stored(context, past.connection.as_deref(), fault) =>
        {
            let generation = generation + 1;
            let effect = EffectId::derive(state.first(), name, "", generation);
            let find = |name: &str| context.destinations.connection(name);
            match render(step, scope, &find, Some(effect))? {
                StepWork::Request(request) => {
                    Ok(intend(context, step, (effect, generation), request))
                }
                StepWork::Control(_) => unreachable!("a step that made a request makes another"),
            }
        }
        Some((_, PastOutcome::Failed { .. } | PastOutcome::Undone)) | None => {
            Ok(intend(context, step, (effect, generation), request))
        }
    }
}

/// The first look at a step with a business key: what earlier runs of the run's own key did is not done
/// again, whatever became of the business key since. Nothing where the business key decides.
pub(super) fn begin_named(
    state: &FoldedRun,
    step: &Step,
    accepts_other: bool,
    render_with: impl FnOnce(EffectId) -> Result<Box<StepRequest>, RenderError>,
) -> Result<Option<Next>, RenderError> {
    let Some(past) = current(state, step.id.as_str()) else {
        return Ok(None);
    };
    Ok(match &past.outcome {
        PastOutcome::Done { .. } => {
            let key = match past.kind.as_str() {
                // Its fingerprint is that of a request without a key.
                NAMED => EffectId::from_uuid(Uuid::nil()),
                _ => past.sent_as.unwrap_or(past.effect),
            };
            let request = render_with(key)?;
            Some(reuse(state, past, &request, accepts_other))
        }
        PastOutcome::InDoubt { .. } if past.sent_as.is_none() => {
            Some(Next::Event(Event::TakenOver {
                step: past.step.clone(),
                effect: past.effect,
            }))
        }
        // The run's own key may have performed it, whatever the state of the business key.
        PastOutcome::DoubtErased { .. } => Some(review(doubt_erased(past))),
        PastOutcome::InDoubt { .. } | PastOutcome::Failed { .. } | PastOutcome::Undone => None,
    })
}

/// The key under which an earlier run left the effect of a step in doubt, where it had a business key.
pub(super) fn doubt_of(state: &FoldedRun, step: &Step) -> Option<EffectId> {
    let past = current(state, step.id.as_str())?;
    let in_doubt = matches!(past.outcome, PastOutcome::InDoubt { .. });
    past.sent_as.filter(|_| in_doubt)
}

/// Whether an earlier run met a refusal at a step that its destination keeps under that key.
pub(super) fn is_refused(state: &FoldedRun, context: &DecideContext<'_>, step: &str) -> bool {
    let Some(past) = current(state, step) else {
        return false;
    };
    if let PastOutcome::Failed { fault } = &past.outcome {
        is_stored(context, past.connection.as_deref(), fault)
    } else {
        false
    }
}

/// An earlier run may have performed the effect under a business key that the step does not have any
/// more.
pub(crate) fn in_doubt_elsewhere(past: &PastEffect) -> Fault {
    let (run, step) = (past.run, &past.step);
    let message = format!(
        "{run} left `{step}` in doubt under another business key: settle that one first, \
         semel run show {run}"
    );
    Fault::permanent("effect-differs", message)
}

/// Why a done effect is not reused: an earlier run left it in doubt whether it undid it. An undo of what was done before
/// the latest redo says nothing of that.
pub(crate) fn undo_in_doubt(past: &PastEffect, undo: &PastEffect, run: RunId) -> Option<Fault> {
    let is_in_doubt = matches!(
        undo.outcome,
        PastOutcome::InDoubt { .. } | PastOutcome::DoubtErased { .. }
    );
    if !is_in_doubt || !past.is_done() || undo.generation < past.generation {
        return None;
    }
    let (step, by) = (&past.step, undo.run);
    let message = format!(
        "{by} left it in doubt whether `{step}` was undone: resume that run and settle it. Or look at the \
         destination: if the effect stands, semel run replay {run} --accept-changed {step}; if it is gone, \
         semel key drop FLOW KEY --new-intent --reason …"
    );
    Some(Fault::permanent("undo-in-doubt", message))
}

/// An earlier run left the effect in doubt, and its request was erased since: no probe can be made of it,
/// and no destination be asked to recognise its bytes.
fn doubt_erased(past: &PastEffect) -> Fault {
    let (run, step, effect) = (past.run, &past.step, past.sent_as.unwrap_or(past.effect));
    let message = format!(
        "{run} left `{step}` in doubt, and its request was erased: whether {effect} happened is for a person \
         to find out at the destination, and nothing was sent; if it has to be performed, cancel this run \
         and make the key a new intent, semel key drop FLOW KEY --new-intent --reason …"
    );
    Fault::permanent("doubt-erased", message)
}

/// Reuses a done effect, unless it is not the one that the step asks for now, or may be undone.
fn reuse(state: &FoldedRun, past: &PastEffect, request: &StepRequest, accepts: bool) -> Next {
    let (step, run) = (&past.step, past.run);
    let is_met = past.kind == NAMED || past.kind == FOUND;
    if !is_met && !past.goes_where(request) {
        let message = format!(
            "{run} performed `{step}` as {} over {}, and it is another effect now: give the step \
             another id",
            past.kind,
            past.connection.as_deref().unwrap_or("no connection"),
        );
        return review(Fault::permanent("effect-differs", message));
    }
    let earlier = state.earlier.as_ref();
    let by_operator = earlier.is_some_and(|it| it.accepts.contains(step));
    let undo = state.past(&format!("{step}{UNDO}"));
    if let Some(fault) = undo.and_then(|undo| undo_in_doubt(past, undo, state.run))
        && !by_operator
    {
        return review(fault);
    }
    let accepted = accepts || by_operator;
    let is_same = past.kind == FOUND || past.fingerprint == fingerprint(request);
    if !is_same && !accepted {
        let message = format!(
            "{run} performed `{step}` with another request ({}): nothing was sent; compare them, \
             semel run replay {}; to reuse it all the same, add --accept-changed {step}",
            past.effect, state.run,
        );
        return review(Fault::permanent("effect-changed", message));
    }
    match reused(past) {
        Some(event) => Next::Event(event),
        None => unreachable!("only a done effect is reused"),
    }
}

fn review(fault: Fault) -> Next {
    Next::Act(NextAction::StopRun(StopReason::NeedsReview, fault))
}

fn reused(past: &PastEffect) -> Option<Event> {
    let PastOutcome::Done {
        external_id,
        status,
        result,
    } = &past.outcome
    else {
        return None;
    };
    Some(Event::Reused {
        step: past.step.clone(),
        effect: past.effect,
        run: past.run,
        external_id: external_id.clone(),
        status: *status,
        result: result.clone(),
    })
}

/// Whether the destination answers the key with its refusal from now on, by what its connection
/// says.
pub(super) fn is_stored(
    context: &DecideContext<'_>,
    connection: Option<&str>,
    fault: &Fault,
) -> bool {
    let connection = connection.and_then(|name| context.destinations.connection(name));
    let (Some(connection), Some(status)) = (connection, fault.http_status()) else {
        return false;
    };
    connection.final_refusals().contains(&status)
}
