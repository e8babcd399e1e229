//! Steps that earlier runs of the key came to: what is done is reused, what is in doubt stays so.

use semel_flow::release::{Action, RenderError, StepWork, WaitStep};
use semel_flow::{Scope, Step};
use semel_model::event::Event;
use semel_model::request::StepRequest;
use semel_model::run::StopReason;
use semel_model::{EffectId, Fault, PastEffect, PastOutcome};

use super::{DecideContext, Next, NextAction, intend, named};
use crate::state::{FoldedRun, WAIT, fingerprint};

/// The answer that an earlier run got at a wait for a callback or an event.
pub(super) fn answer(state: &FoldedRun, step: &Step) -> Option<Event> {
    let asks = matches!(
        &step.action,
        Action::Wait(WaitStep::Callback { .. } | WaitStep::Event { .. })
    );
    let past = state.past(step.id.as_str())?;
    (asks && past.kind == WAIT).then(|| reused(past)).flatten()
}

/// Whether an earlier run came to the effect, and it is done or in doubt: there is nothing to ask.
pub(super) fn is_known(state: &FoldedRun, step: &str) -> bool {
    let past = state
        .past(step)
        .filter(|past| past.effect == state.effect_id(step));
    past.is_some_and(|past| match past.outcome {
        PastOutcome::Done { .. } | PastOutcome::InDoubt { .. } => true,
        PastOutcome::Failed { .. } | PastOutcome::Undone => false,
    })
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
    let past = state.past(name).filter(|past| past.effect == effect);
    match past.map(|past| (past, &past.outcome)) {
        Some((past, PastOutcome::Done { .. })) => Ok(reuse(state, past, &request)),
        Some((past, PastOutcome::InDoubt { .. })) => Ok(Next::Event(Event::TakenOver {
            step: past.step.clone(),
            effect,
        })),
        // The destination may have stored its refusal, and takes no other bytes under the key.
        Some((past, PastOutcome::Failed { fault }))
            if past.fingerprint != fingerprint(&request) || is_stored(context, past, fault) =>
        {
            let generation = generation + 1;
            let effect = EffectId::derive(state.first(), name, "", generation);
            let find = |name: &str| context.destinations.connection(name);
            match named::work(step, scope, &find, Some(effect))? {
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

/// Reuses a done effect, unless it is not the one that the step asks for now.
fn reuse(state: &FoldedRun, past: &PastEffect, request: &StepRequest) -> Next {
    let (step, run) = (&past.step, past.run);
    if !past.goes_where(request) {
        let message = format!(
            "{run} performed `{step}` as {} over {}, and it is another effect now: give the step \
             another id",
            past.kind,
            past.connection.as_deref().unwrap_or("no connection"),
        );
        return review(Fault::permanent("effect-differs", message));
    }
    let earlier = state.earlier.as_ref();
    let accepted = earlier.is_some_and(|it| it.accepts.contains(step));
    if past.fingerprint != fingerprint(request) && !accepted {
        let message = format!(
            "{run} performed `{step}` with another request ({}): nothing was sent; compare them, \
             semel effect show {}",
            past.effect, past.effect,
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
fn is_stored(context: &DecideContext<'_>, past: &PastEffect, fault: &Fault) -> bool {
    let connection = past.connection.as_deref();
    let connection = connection.and_then(|name| context.destinations.connection(name));
    let (Some(connection), Some(status)) = (connection, fault.http_status()) else {
        return false;
    };
    connection.final_refusals().contains(&status)
}
