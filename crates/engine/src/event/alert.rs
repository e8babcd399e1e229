//! What people must learn of: runs that stop until an operator acts, and approvals.

use semel_flow::Flow;
use semel_model::AlertKind;
use semel_model::event::Event;
use semel_model::run::StopReason;
use semel_store::alerts::RaisedAlert;

use crate::state::{FoldedRun, NameStanding, StepName};

/// The alerts that an event raises, where `after` is what is true by it. They are recorded only where
/// the namespace has alerts set.
pub(super) fn raised(event: &Event, after: &FoldedRun, flow: &Flow) -> Vec<RaisedAlert> {
    let at = |kind, step: &str| {
        let known = flow.steps.iter().find(|known| known.id.as_str() == step);
        let connection = known.and_then(|step| step.connection());
        vec![RaisedAlert {
            kind,
            flow: flow.name.to_string(),
            connection: connection.unwrap_or_default().to_owned(),
            step: step.to_owned(),
        }]
    };
    match event {
        Event::Stopped { reason, .. } => {
            let step = after.step(flow).map_or("", |step| step.id.as_str());
            at(kind_of(*reason), step)
        }
        Event::ApprovalOpened { step, .. } => at(AlertKind::ApprovalPending, step),
        Event::ApprovalTold { step, .. } | Event::ApprovalElapsed { step, .. } => {
            at(AlertKind::ApprovalOverdue, step)
        }
        // The run goes on without it, and its name stays in doubt.
        Event::Failed { step, .. } if leaves_name_in_doubt(after, step) => {
            at(AlertKind::Doubt, step)
        }
        Event::ApprovalDecided { .. }
        | Event::Ended { .. }
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
        | Event::Deferred(_)
        | Event::FanOpened { .. }
        | Event::FanLoaded { .. }
        | Event::FanStopped { .. }
        | Event::FanEnded { .. }
        | Event::Started { .. }
        | Event::WaitOpened { .. }
        | Event::WaitEnded { .. } => Vec::new(),
    }
}

/// Whether an operator failed an effect in doubt whose name others may ask for.
fn leaves_name_in_doubt(after: &FoldedRun, step: &str) -> bool {
    let given_up = after.effect().is_some_and(|it| it.given_up.is_some());
    let used = |it: &StepName| it.standing == NameStanding::Used;
    given_up && after.names.get(step).is_some_and(used)
}

fn kind_of(reason: StopReason) -> AlertKind {
    match reason {
        StopReason::InDoubt => AlertKind::Doubt,
        StopReason::NeedsReview => AlertKind::NeedsReview,
        StopReason::Quarantined => AlertKind::Quarantined,
    }
}
