//! Deferrals: a pause is over, and deadlines are moved by its time.

use semel_flow::Flow;
use semel_model::event::Deferral;
use semel_model::request::StepRequest;
use semel_store::approvals::ApprovalChange;
use semel_store::journal::WaitChange;
use semel_store::tasks::TaskChange;

use super::changes::RowChanges;
use crate::settle::span_between;
use crate::state::{Current, FoldedRun, Unfit};

pub(super) fn apply(state: &mut FoldedRun, flow: &Flow, deferral: Deferral) -> Result<(), Unfit> {
    state.must_be_live()?;
    state.defer(flow, span_between(deferral.from, deferral.until));
    state.deferred_until = Some(deferral.until);
    Ok(())
}

/// The tables say when something ends by itself, too.
pub(super) fn project(after: &FoldedRun) -> RowChanges {
    match &after.current {
        Current::Waiting { wait, until } => RowChanges::of_wait(WaitChange::Defer {
            wait: *wait,
            until: *until,
        }),
        Current::Approving(approving) => RowChanges::of_approval(ApprovalChange::Defer {
            wait: approving.wait,
            until: approving.until,
            escalate_at: approving.escalate_at,
        }),
        Current::Effect(pending) => match &pending.request {
            StepRequest::Task(request) => RowChanges {
                tasks: vec![TaskChange::Defer {
                    task: pending.entry.id(),
                    until: request.until,
                }],
                ..RowChanges::default()
            },
            StepRequest::External(_) | StepRequest::Local(_) => RowChanges::default(),
        },
        Current::Reading(_) | Current::Fresh | Current::Fan(_) | Current::Broken(_) => {
            RowChanges::default()
        }
    }
}

pub(super) fn describe(deferral: Deferral) -> String {
    let secs = span_between(deferral.from, deferral.until).as_millis() / 1000;
    format!("a pause of {secs} s is over: deadlines moved by it")
}
