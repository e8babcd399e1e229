//! Another key for an effect whose refusal its destination keeps under the last one.
//!
//! A resumed run sends what failed again under the same key. A destination that stored its refusal
//! would answer that key with it for ever, so the effect is performed under the next generation, as a
//! replay does ([`super::earlier`]). The effect of a step with a business key has the key of its name: that is
//! asked first, and takes its next one. What undoes the effect of such a step asks the name first, as for
//! any attempt.

use semel_flow::Step;
use semel_flow::release::StepWork;
use semel_model::effect::{Effect, Retrying};
use semel_model::run::StopReason;
use semel_model::{EffectId, Guard};

use super::earlier::is_stored;
use super::render::render;
use super::{DecideContext, Next, NextAction, intend, name_undo, named, scope};
use crate::state::{FoldedRun, NameStanding, PendingEffect};

/// The first intent under the next key, or what comes before it. Nothing where the effect keeps its key.
pub(super) fn renew(
    state: &FoldedRun,
    context: &DecideContext<'_>,
    step: &Step,
    pending: &PendingEffect,
    effect: &Effect<Retrying>,
) -> Option<Next> {
    let connection = pending.request.connection();
    let is_refusal_stored = pending.resumed
        && settles_doubt(effect)
        && is_stored(context, connection, &effect.state().fault);
    if step.named.is_some() {
        return renew_named(state, context, step, pending, is_refusal_stored);
    }
    is_refusal_stored.then(|| {
        let asks = name_undo::before_undo(state, context, step);
        asks.unwrap_or_else(|| begin(state, context, step, None))
    })
}

/// The run asks for the name under the next generation of its own effect, so that its journal says of a turn that was cut
/// off that the name had its next key already.
fn renew_named(
    state: &FoldedRun,
    context: &DecideContext<'_>,
    step: &Step,
    pending: &PendingEffect,
    is_refusal_stored: bool,
) -> Option<Next> {
    let name = step.id.as_str();
    let known = state.names.get(name)?;
    let is_under_way = known.generation > state.generation(name);
    // A name that the run still holds keeps its key.
    let is_over = is_refusal_stored && known.standing == NameStanding::Over;
    if !is_under_way && !is_over {
        return None;
    }
    if let Some(hold) = known.held() {
        return Some(begin(state, context, step, Some(hold.effect)));
    }
    if let Some(pause) = context.pauses.connection(pending.request.connection()) {
        return Some(Next::Act(NextAction::Pause(pause)));
    }
    named::before_renewal(state, step, pending).map(Next::Act)
}

/// Whether the refusal says that no earlier attempt happened either: a destination that honours keys
/// refuses by a stored answer only after it has looked the key up.
fn settles_doubt(effect: &Effect<Retrying>) -> bool {
    !effect.doubted() || effect.guard() == Guard::Key
}

/// `sent_key` is what the destination is sent, where that is not the key of the run's own effect.
fn begin(
    state: &FoldedRun,
    context: &DecideContext<'_>,
    step: &Step,
    sent_key: Option<EffectId>,
) -> Next {
    let name = step.id.as_str();
    let generation = state.generation(name) + 1;
    let effect = EffectId::derive(state.first(), name, "", generation);
    let find = |name: &str| context.destinations.connection(name);
    let scope = scope(state, context);
    let request = match render(step, &scope, &find, sent_key.or(Some(effect))) {
        Ok(StepWork::Request(request)) => request,
        Ok(StepWork::Control(_)) => unreachable!("a step that made a request makes another"),
        Err(error) => {
            let stop = NextAction::StopRun(StopReason::NeedsReview, error.to_fault());
            return Next::Act(stop);
        }
    };
    intend(context, step, (effect, generation), request)
}
