//! The next look at an effect that is not settled.

use semel_flow::Step;
use semel_model::Fault;
use semel_model::effect::{ConfirmedBy, LedgerEntry, Licence};
use semel_model::event::{DoubtPlan, Event};
use semel_model::request::StepRequest;
use semel_model::run::StopReason;

use super::end::{by_a_person, cancelled, fail};
use super::probe::probe;
use super::renewed::renew;
use super::settle_context::{is_forgotten, settle_context};
use super::{DecideContext, Next, NextAction, confirmed, name_undo, named, sleep, task};
use crate::settle;
use crate::state::{FoldedRun, PendingEffect};

/// The next look at an effect that is not settled.
pub(super) fn go_on(
    state: &FoldedRun,
    context: &DecideContext<'_>,
    step: &Step,
    pending: &PendingEffect,
) -> Next {
    let pauses = context.pauses;
    let paused = || pauses.flow().map(NextAction::Pause).map(Next::Act);
    let again = |licence| {
        let connection = pending.request.connection();
        if let Some(pause) = pauses.flow().or_else(|| pauses.connection(connection)) {
            return Next::Act(NextAction::Pause(pause));
        }
        if let Some(begin) = named::before_attempt(state, step, pending) {
            return Next::Act(begin);
        }
        if let Some(begin) = name_undo::before_undo(state, context, step) {
            return begin;
        }
        Next::Event(Event::Intended {
            step: step.id.to_string(),
            effect: pending.entry.id(),
            attempt: pending.entry.attempt() + 1,
            request: None,
            licence,
            guard: None,
            window: None,
            generation: 0,
        })
    };
    match &pending.entry {
        LedgerEntry::Pending(effect) if let StepRequest::Task(request) = &pending.request => {
            task::go_on(context, step, pending, effect, request)
        }
        // Another worker wrote this intent, not this one: the outcome is not known.
        LedgerEntry::Pending(effect) => Next::Event(settle::found_pending(
            settle_context(context, step, pending),
            effect,
        )),
        // An operator failed it in doubt, and its run was resumed: it may have happened.
        LedgerEntry::Retrying(effect) if let Some(settled_by) = pending.given_up => {
            let judged_by = settle_context(context, step, pending);
            Next::Event(settle::doubted_again(judged_by, effect, settled_by))
        }
        // An attempt before this one may have happened: Semel finds that out first.
        LedgerEntry::Retrying(effect)
            if context.cancel && state.undoing.is_none() && !effect.doubted() =>
        {
            Next::Event(give_up(step))
        }
        LedgerEntry::Retrying(effect) => match pending.retry_at {
            Some(at) if context.now < at => sleep(at, true),
            Some(_) if let Some(next) = renew(state, context, step, pending, effect) => next,
            Some(_) if effect.doubted() && is_forgotten(context, step, pending) => {
                Next::Event(settle::too_late(step, &effect.state().fault.to_doubt()))
            }
            Some(_) => again(None),
            None => Next::Act(NextAction::StopRun(
                StopReason::NeedsReview,
                effect.state().fault.clone(),
            )),
        },
        LedgerEntry::InDoubt(effect) => {
            if let Some((_, response)) = context
                .late_responses
                .iter()
                .find(|(id, _)| *id == effect.id())
            {
                return Next::Event(confirmed(step, response, ConfirmedBy::LateResponse));
            }
            match (pending.licence, &pending.plan) {
                // It is known not to be there, and the author's attempts are used up.
                (Some(Licence::Absent), _) if effect.attempt() >= step.retry.attempts => {
                    let doubt = &effect.state().doubt;
                    let fault = Fault::permanent(doubt.code.clone(), doubt.message.clone());
                    Next::Event(Event::Failed {
                        step: step.id.to_string(),
                        fault,
                        retry_at: None,
                    })
                }
                (Some(licence), _) => again(Some(licence)),
                (None, Some(DoubtPlan::Repeat { at, .. }))
                    if context.now >= *at && is_forgotten(context, step, pending) =>
                {
                    Next::Event(settle::too_late(step, &effect.state().doubt))
                }
                (None, Some(DoubtPlan::Repeat { at, licence })) if context.now >= *at => {
                    again(Some(*licence))
                }
                (None, Some(DoubtPlan::Repeat { at, .. })) => sleep(*at, true),
                (None, Some(DoubtPlan::Probe { at, .. })) if context.now < *at => sleep(*at, true),
                (None, Some(DoubtPlan::Probe { .. })) => {
                    paused().unwrap_or_else(|| probe(state, context, step))
                }
                (None, Some(DoubtPlan::Review) | None) => {
                    let doubt = &effect.state().doubt;
                    let fault = Fault::permanent(doubt.code.clone(), doubt.message.clone());
                    Next::Act(NextAction::StopRun(StopReason::InDoubt, fault))
                }
            }
        }
        LedgerEntry::Failed(_) if context.cancel && state.undoing.is_none() => {
            Next::Event(cancelled())
        }
        LedgerEntry::Failed(effect) => fail(state, context, &effect.state().fault),
        LedgerEntry::Done(_) => unreachable!("a done effect moves the run to its next step"),
    }
}

fn give_up(step: &Step) -> Event {
    Event::Failed {
        step: step.id.to_string(),
        fault: by_a_person(),
        retry_at: None,
    }
}
