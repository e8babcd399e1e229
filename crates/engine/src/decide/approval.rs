//! What comes next for an approval: a decision, a reminder, or the end of its time.

use jiff::Timestamp;
use semel_flow::release::{ApprovalStep, RenderError};
use semel_flow::{Scope, Step};
use semel_model::WaitId;
use semel_model::approval::ApprovalNotice;
use semel_model::event::Event;

use super::{DecideContext, Next, NextAction, earlier};
use crate::state::{Approving, FoldedRun};

/// The most reminders of one approval.
const REMINDERS_MAX: u32 = 100;

/// Asks people.
pub(super) fn open(
    state: &FoldedRun,
    context: &DecideContext<'_>,
    step: &Step,
    ask: &ApprovalStep,
    scope: &Scope<'_>,
) -> Result<Next, RenderError> {
    let mut asked = ask.render(scope, context.now, state.started_by.as_deref())?;
    if let Some(reused) = earlier::approval(state, step.id.as_str(), &asked) {
        return Ok(Next::Event(reused));
    }
    asked.round = state.rounds.get(step.id.as_str()).copied().unwrap_or(0);
    let until = ask.within.map(|within| context.now + within.to_duration());
    Ok(Next::Event(Event::ApprovalOpened {
        step: step.id.to_string(),
        wait: WaitId::derive(state.run, step.id.as_str()),
        until,
        asked: Box::new(asked),
    }))
}

/// The next look at an approval.
pub(super) fn go_on(context: &DecideContext<'_>, step: &Step, approving: &Approving) -> Next {
    let step = step.id.to_string();
    if let Some(decision) = context.outside.decision() {
        let decision = decision.clone();
        return Next::Event(Event::ApprovalDecided { step, decision });
    }
    let due = |at: Option<Timestamp>| at.is_some_and(|at| context.now >= at);
    if due(approving.until) {
        let policy = approving.asked.on_timeout;
        return Next::Event(Event::ApprovalElapsed { step, policy });
    }
    if due(approving.escalate_at) {
        let what = ApprovalNotice::Escalated;
        return Next::Event(Event::ApprovalTold { step, what });
    }
    if due(approving.remind_at) {
        let what = remind(context, approving);
        return Next::Event(Event::ApprovalTold { step, what });
    }
    let ends = [approving.until, approving.escalate_at, approving.remind_at];
    Next::Act(NextAction::Sleep {
        until: ends.into_iter().flatten().min(),
        retrying: false,
    })
}

/// However many reminders were missed, Semel sends one.
fn remind(context: &DecideContext<'_>, approving: &Approving) -> ApprovalNotice {
    let number = approving.reminders + 1;
    let again = approving.asked.remind.filter(|_| number < REMINDERS_MAX);
    ApprovalNotice::Reminded {
        number,
        next_at: again.map(|span| context.now + span.to_duration()),
    }
}
