//! What a timeline says of each event.

use semel_model::event::Event;

use super::{
    approval, children, deferred, earlier, effect, gate, lifecycle, named, operator_step, step,
    wait,
};

/// What a timeline says of an event: one sentence, in plain words. Text from outside is not
/// escaped: the caller that shows it has to do that.
pub fn describe(event: &Event) -> String {
    match event {
        Event::Accepted {
            trigger,
            nominal,
            input,
            ..
        } => lifecycle::describe_accepted(*trigger, *nominal, input),
        Event::Undoing { fault } => lifecycle::describe_undoing(fault),
        Event::Stopped { reason, fault } => lifecycle::describe_stopped(*reason, fault),
        Event::Resumed { by, reason, .. } => lifecycle::describe_resumed(by.as_deref(), reason),
        Event::Deferred(deferral) => deferred::describe(*deferral),
        Event::OperatorStep(asked) => operator_step::describe(asked),
        Event::Amended(amended) => lifecycle::describe_amended(&amended.step, &amended.result),
        Event::Ended {
            state,
            result,
            fault,
        } => lifecycle::describe_ended(*state, result, fault.as_ref()),
        Event::GateWaiting(wait) => gate::describe_held(wait.gate, wait.behind, wait.until),
        Event::Joined { run } => gate::describe_joined(*run),
        Event::Admitted { gate } => gate::describe_admitted(*gate),
        Event::Switched { step, case } => step::describe_switched(step, *case),
        Event::Skipped { step } => step::describe_skipped(step),
        Event::Computed {
            step,
            result,
            usage,
            ..
        } => step::describe_computed(step, result, usage),
        Event::ReadFailed {
            step,
            fault,
            retry_at,
        } => step::describe_read_failed(step, fault, *retry_at),
        Event::Broken { step, fault } => step::describe_broken(step.as_deref(), fault),
        Event::Intended {
            step,
            attempt,
            licence,
            ..
        } => effect::describe_intended(step, *attempt, *licence),
        Event::Done {
            step,
            by,
            external_id,
            status,
            ..
        } => effect::describe_done(step, *by, external_id.as_deref(), *status),
        Event::Failed {
            step,
            fault,
            retry_at,
        } => effect::describe_failed(step, fault, *retry_at),
        Event::Doubted { step, doubt, plan } => effect::describe_doubted(step, doubt, plan),
        Event::Probed { step, seen } => effect::describe_probed(step, seen),
        Event::Licensed { step, reason } => effect::describe_licensed(step, reason),
        Event::Begun(begun) => children::describe_begun(begun),
        Event::Follows(followed) => earlier::describe_follows(followed),
        Event::Inherited { runs, effects, .. } => earlier::describe_inherited(runs, effects),
        Event::Reused {
            step, effect, run, ..
        } => earlier::describe_reused(step, *effect, *run),
        Event::TakenOver { step, effect } => earlier::describe_taken_over(step, *effect),
        Event::Named { step, named } => named::describe_named(step, named),
        Event::FanOpened { step } => children::describe_opened(step),
        Event::FanLoaded {
            step,
            count,
            repeats,
        } => children::describe_loaded(step, *count, *repeats),
        Event::FanStopped {
            step,
            cancels,
            fault,
        } => children::describe_stopped(step, *cancels, fault.as_ref()),
        Event::FanEnded {
            step,
            result,
            fault,
            ..
        } => children::describe_ended(step, result, fault.as_ref()),
        Event::Started { step, run, wait } => children::describe_started(step, *run, *wait),
        Event::WaitOpened {
            step, wait, until, ..
        } => wait::describe_opened(step, *wait, *until),
        Event::WaitEnded { step, how } => wait::describe_ended(step, how),
        Event::ApprovalOpened {
            step,
            wait,
            until,
            asked,
        } => approval::describe_opened(step, (*wait, *until, asked)),
        Event::ApprovalTold { step, what } => approval::describe_told(step, *what),
        Event::ApprovalDecided { step, decision } => approval::describe_decided(step, decision),
        Event::ApprovalElapsed { step, policy } => approval::describe_elapsed(step, *policy),
    }
}
