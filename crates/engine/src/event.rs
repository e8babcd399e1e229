//! Events: what each one means, in one place.
//!
//! Every verb below is one `match` that names every event, and hands it to the file of its group:
//!
//! | verb | answers |
//! |---|---|
//! | [`apply`] | what it changes of the run's state |
//! | [`project`] | what it changes of the tables |
//! | `announce` | what it puts into the outbox |
//! | [`describe`] | what a timeline says of it |
//!
//! Nothing here acts: the turn stores what these return, in one commit with the event.

mod alert;
mod announcement;
mod approval;
mod changes;
mod children;
mod deferred;
mod describe;
mod earlier;
mod effect;
mod gate;
mod kept_generations;
mod lifecycle;
mod named;
mod operator_step;
mod step;
mod wait;
mod words;

pub(crate) use announcement::{AnnounceContext, message};
pub use changes::{Before, EffectSnapshot, RowChanges};
pub use children::begin_child;
pub use describe::describe;
pub(crate) use effect::expect_done;
pub use lifecycle::{Acceptance, begin};

use jiff::Timestamp;
use semel_flow::Flow;
use semel_model::effect::ConfirmedBy;
use semel_model::event::Event;
use semel_store::outbox::Emitted;

use crate::state::{FoldedRun, Misfit, Unfit};

/// Changes the state of a run by an event that is written at the instant `at`. Where the event does
/// not fit, nothing is changed.
pub fn apply(
    state: &mut FoldedRun,
    event: &Event,
    flow: &Flow,
    at: Timestamp,
) -> Result<(), Misfit> {
    let applied = match event {
        Event::Accepted { .. } => lifecycle::apply_accepted(state, event.clone()),
        Event::Undoing { fault } => lifecycle::apply_undoing(state, flow, fault),
        Event::Stopped { .. } => lifecycle::apply_stopped(state),
        Event::Resumed { by, asks_again, .. } => {
            lifecycle::apply_resumed(state, by.as_deref(), *asks_again, at)
        }
        Event::Deferred(deferral) => deferred::apply(state, flow, *deferral),
        Event::OperatorStep(asked) => operator_step::apply(state, flow, asked),
        Event::Amended(amended) => lifecycle::apply_amended(state, amended),
        Event::Ended { .. } => lifecycle::apply_ended(state),

        Event::GateWaiting(_) | Event::Joined { .. } => gate::apply_held(state, event),
        Event::Admitted { gate } => gate::apply_admitted(state, *gate),

        Event::Switched { step, case } => step::apply_switched(state, flow, step, *case),
        Event::Skipped { step } => step::apply_skipped(state, flow, step),
        Event::Computed {
            step,
            result,
            status,
            usage,
        } => step::apply_computed(state, flow, step, (result, *status, usage)),
        Event::ReadFailed {
            step,
            fault,
            retry_at,
        } => step::apply_read_failed(state, flow, step, (fault, *retry_at, at)),
        Event::Broken { step, fault } => step::apply_broken(state, flow, step.as_deref(), fault),

        Event::Intended { .. } => effect::apply_intended(state, flow, event, at),
        Event::Done {
            step,
            by,
            external_id,
            status,
            result,
        } => {
            let given = (result, external_id.as_deref(), *status);
            effect::apply_done(state, flow, (step, *by), given)
        }
        Event::Failed {
            step,
            fault,
            retry_at,
        } => effect::apply_failed(state, flow, step, (fault, *retry_at)),
        Event::Doubted { step, doubt, plan } => {
            effect::apply_doubted(state, flow, step, (doubt, plan))
        }
        Event::Probed { step, seen } => effect::apply_probed(state, flow, step, seen),
        Event::Licensed { step, .. } => effect::apply_licensed(state, flow, step),

        Event::Follows(followed) => earlier::apply_follows(state, followed),
        Event::Inherited { .. } => earlier::apply_inherited(state, event),
        Event::Reused {
            step,
            external_id,
            status,
            result,
            ..
        } => earlier::apply_reused(state, flow, step, (result, external_id.as_deref(), *status)),
        Event::TakenOver { step, .. } => earlier::apply_taken_over(state, flow, step),
        Event::Named { step, named } => named::apply_named(state, flow, step, named, at),

        // Only what its parent knew says where a child run begins: `begin_child`.
        Event::Begun(_) => Err(Unfit),
        Event::FanOpened { step } => children::apply_opened(state, flow, step),
        Event::FanLoaded {
            step,
            count,
            repeats,
        } => children::apply_loaded(state, flow, step, (*count, *repeats)),
        Event::FanStopped {
            step,
            cancels,
            fault,
        } => children::apply_stopped(state, flow, step, (fault.as_ref(), *cancels)),
        Event::FanEnded {
            step,
            result,
            joined,
            fault,
        } => children::apply_ended(state, flow, step, (result, joined, fault.as_ref())),
        Event::Started { step, run, wait } => {
            children::apply_started(state, flow, step, (*run, *wait))
        }

        Event::WaitOpened {
            step, wait, until, ..
        } => wait::apply_opened(state, flow, step, (*wait, *until)),
        Event::WaitEnded { step, how } => wait::apply_ended(state, flow, step, how),

        Event::ApprovalOpened {
            step,
            wait,
            until,
            asked,
        } => approval::apply_opened(state, flow, step, (*wait, *until, asked)),
        Event::ApprovalTold { step, what } => approval::apply_told(state, flow, step, *what),
        Event::ApprovalDecided { step, decision } => {
            approval::apply_decided(state, flow, step, decision)
        }
        Event::ApprovalElapsed { step, policy } => {
            approval::apply_elapsed(state, flow, step, *policy)
        }
    };
    applied.map_err(|Unfit| misfit(state, event.name(), flow))?;
    // Several pauses may be over at once: one deferral does not hide the next. A run that has just begun
    // waits for nothing.
    if !matches!(
        event,
        Event::Deferred(_) | Event::Accepted { .. } | Event::Begun(_)
    ) {
        state.touched_at = Some(at);
    }
    Ok(())
}

/// [`apply`], which takes the first event of a run by value: its payload moves into the state.
pub fn apply_owned(
    state: &mut FoldedRun,
    event: Event,
    flow: &Flow,
    at: Timestamp,
) -> Result<(), Misfit> {
    if state.begun {
        return apply(state, &event, flow, at);
    }
    let name = event.name();
    lifecycle::apply_accepted(state, event).map_err(|Unfit| misfit(state, name, flow))
}

fn misfit(state: &FoldedRun, event: &'static str, flow: &Flow) -> Misfit {
    let state = state.in_words(flow);
    Misfit { event, state }
}

/// What an event makes of the tables: `before` is what was true, `after` what is true by it.
pub fn project(before: &Before, event: &Event, after: &FoldedRun, flow: &Flow) -> RowChanges {
    let mut changes = match event {
        Event::Intended { .. } => effect::project_intended(before, event, after, flow),
        Event::Deferred(_) => deferred::project(after),
        Event::Done {
            step,
            by: ConfirmedBy::FoundBefore,
            external_id,
            ..
        } => effect::project_found_before(after, flow, step, external_id.clone()),
        Event::Done {
            step, external_id, ..
        } => effect::project_done(before, flow, step, external_id.clone()),
        Event::Failed { step, fault, .. } => {
            effect::project_failed(before, after, flow, step, fault)
        }
        Event::Doubted { step, doubt, plan } => {
            effect::project_doubted(before, flow, step, (doubt, plan))
        }
        Event::Probed { step, seen } => effect::project_probed(before, flow, step, seen),
        Event::TakenOver { step, .. } => earlier::project_taken_over(after, flow, step),
        Event::Named { step, named } => effect::project_named(before, after, flow, step, named),
        Event::Started { step, run, wait } => {
            children::project_started(before, flow, step, (*run, *wait))
        }
        Event::WaitOpened {
            step,
            wait,
            until,
            about,
        } => wait::project_opened(flow, step, (*wait, *until, about.as_ref())),
        Event::WaitEnded { step, how } => wait::project_ended(after.first(), step, how),
        Event::ApprovalOpened {
            step,
            wait,
            until,
            asked,
        } => approval::project_opened(flow, step, (*wait, *until, asked)),
        Event::ApprovalTold { step, .. } => approval::project_told(after.run, step),
        Event::ApprovalElapsed { step, .. } => approval::project_elapsed(after.run, step),
        Event::Stopped { reason, fault } => lifecycle::project_stopped(*reason, fault),
        Event::Ended {
            state,
            result,
            fault,
        } => lifecycle::project_ended(after, *state, result, fault.as_ref()),
        // The decision is in its table before the run reads it.
        Event::ApprovalDecided { .. }
        | Event::Accepted { .. }
        | Event::Undoing { .. }
        | Event::Resumed { .. }
        | Event::OperatorStep(_)
        | Event::Amended(_)
        | Event::GateWaiting(_)
        | Event::Joined { .. }
        | Event::Admitted { .. }
        | Event::Switched { .. }
        | Event::Skipped { .. }
        | Event::Computed { .. }
        | Event::ReadFailed { .. }
        | Event::Broken { .. }
        | Event::Licensed { .. }
        | Event::Begun(_)
        | Event::Follows(_)
        | Event::Inherited { .. }
        | Event::Reused { .. }
        | Event::FanOpened { .. }
        | Event::FanLoaded { .. }
        | Event::FanStopped { .. }
        | Event::FanEnded { .. } => RowChanges::default(),
    };
    changes.notices = named::notices(event, after, flow);
    changes.kept_generations = kept_generations::changes(event, after, flow);
    changes.alerts = alert::raised(event, after, flow);
    changes.resumed_by(before, after)
}

/// What goes to the outbox with an event, where `state` is what is true after it.
pub(crate) fn announce(
    context: &AnnounceContext<'_>,
    state: &FoldedRun,
    event: &Event,
) -> Vec<Emitted> {
    match event {
        Event::Ended {
            state: how,
            result,
            fault,
        } => lifecycle::announce_ended(context, state, *how, (result, fault.as_ref())),
        Event::Stopped { reason, fault } => {
            lifecycle::announce_stopped(context, state, *reason, fault)
        }
        Event::ApprovalOpened {
            step, asked, until, ..
        } => approval::announce_opened(context, state, step, (asked, *until)),
        Event::ApprovalTold { step, what } => {
            approval::announce_told(context, state, step, *what)
        }
        Event::ApprovalDecided { step, decision } => {
            approval::announce_decided(context, state, step, decision)
        }
        Event::ApprovalElapsed { step, policy } => {
            approval::announce_elapsed(context, state, step, *policy)
        }
        Event::Accepted { .. }
        | Event::Undoing { .. }
        | Event::Resumed { .. }
        | Event::Deferred(_)
        | Event::OperatorStep(_)
        | Event::Amended(_)
        | Event::GateWaiting(_)
        | Event::Joined { .. }
        | Event::Admitted { .. }
        | Event::Switched { .. }
        | Event::Skipped { .. }
        | Event::Computed { .. }
        | Event::ReadFailed { .. }
        | Event::Broken { .. }
        | Event::Intended { .. }
        | Event::Done { .. }
        | Event::Failed { .. }
        | Event::Doubted { .. }
        | Event::Probed { .. }
        | Event::Licensed { .. }
        | Event::Begun(_)
        | Event::Follows(_)
        | Event::Inherited { .. }
        | Event::Reused { .. }
        | Event::TakenOver { .. }
        | Event::Named { .. }
        | Event::FanOpened { .. }
        | Event::FanLoaded { .. }
        | Event::FanStopped { .. }
        | Event::FanEnded { .. }
        // The request for the other run is sent with the act itself: `turn::outbox`.
        | Event::Started { .. }
        | Event::WaitOpened { .. }
        | Event::WaitEnded { .. } => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
