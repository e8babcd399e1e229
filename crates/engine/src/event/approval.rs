//! Approvals: people are asked, reminded, decide, or do not decide in time.

use jiff::Timestamp;
use semel_flow::Flow;
use semel_model::approval::{
    ApprovalDecision, ApprovalNotice, ApprovalRequest, OnReject, OnTimeout,
};
use semel_model::{EffectId, Fault, FaultKind, RunId, WaitId};
use semel_store::approvals::ApprovalChange;
use semel_store::outbox::Emitted;
use serde_json::{Value, json};

use super::announcement::{AnnounceContext, message};
use super::changes::RowChanges;
use super::words;
use crate::address::approval_address;
use crate::state::{Approving, Current, FoldedRun, Unfit};

pub(super) fn apply_opened(
    state: &mut FoldedRun,
    flow: &Flow,
    step: &str,
    (wait, until, asked): (WaitId, Option<Timestamp>, &ApprovalRequest),
) -> Result<(), Unfit> {
    state.must_be_new_at(flow, step)?;
    state.rounds.insert(step.to_owned(), asked.round + 1);
    state.current = Current::Approving(Box::new(Approving::of(wait, until, asked)));
    Ok(())
}

pub(super) fn apply_told(
    state: &mut FoldedRun,
    flow: &Flow,
    step: &str,
    what: ApprovalNotice,
) -> Result<(), Unfit> {
    let approving = approving(state, flow, step)?;
    match what {
        ApprovalNotice::Reminded { number, next_at } => {
            approving.reminders = number;
            approving.remind_at = next_at;
        }
        ApprovalNotice::Escalated => approving.escalate_at = None,
    }
    Ok(())
}

pub(super) fn apply_decided(
    state: &mut FoldedRun,
    flow: &Flow,
    step: &str,
    decision: &ApprovalDecision,
) -> Result<(), Unfit> {
    let on_reject = approving(state, flow, step)?.asked.on_reject;
    let end = decided(decision, on_reject);
    state.rejected = end.is_err();
    finish(state, flow, step, end);
    Ok(())
}

pub(super) fn apply_elapsed(
    state: &mut FoldedRun,
    flow: &Flow,
    step: &str,
    policy: OnTimeout,
) -> Result<(), Unfit> {
    let on_reject = approving(state, flow, step)?.asked.on_reject;
    finish(state, flow, step, elapsed(policy, on_reject));
    Ok(())
}

/// The approval that the run waits for.
fn approving<'s>(
    state: &'s mut FoldedRun,
    flow: &Flow,
    step: &str,
) -> Result<&'s mut Approving, Unfit> {
    state.must_be_at(flow, step)?;
    match &mut state.current {
        Current::Approving(approving) => Ok(approving),
        Current::Fresh
        | Current::Reading(_)
        | Current::Effect(_)
        | Current::Waiting { .. }
        | Current::Fan(_)
        | Current::Broken(_) => Err(Unfit),
    }
}

fn finish(state: &mut FoldedRun, flow: &Flow, step: &str, end: Result<Value, Fault>) {
    match end {
        Ok(result) => state.finish_step(flow, step, result, None, None),
        Err(fault) => state.current = Current::Broken(fault),
    }
}

/// The step's result, or why the run does not continue.
fn decided(decision: &ApprovalDecision, on_reject: OnReject) -> Result<Value, Fault> {
    let ApprovalDecision {
        approved,
        by,
        comment,
        ..
    } = decision;
    if *approved || on_reject == OnReject::Continue {
        return Ok(crate::state::approved(decision));
    }
    let message = match comment {
        Some(comment) => format!("rejected by {by}: {comment}"),
        None => format!("rejected by {by}"),
    };
    Err(Fault::permanent("approval-rejected", message).of(FaultKind::Rejected))
}

/// What holds where there was no decision in time.
fn elapsed(policy: OnTimeout, on_reject: OnReject) -> Result<Value, Fault> {
    let undecided = |approved: Option<bool>| json!({ "approved": approved, "by": null, "comment": null, "at": null });
    match policy {
        OnTimeout::Continue => Ok(undecided(None)),
        OnTimeout::Reject if on_reject == OnReject::Continue => Ok(undecided(Some(false))),
        OnTimeout::Reject => Err(Fault::permanent(
            "approval-rejected",
            "no decision in time, which counts as a rejection",
        )
        .of(FaultKind::Rejected)),
        OnTimeout::Fail => Err(Fault::permanent(
            "approval-timed-out",
            "no decision in time",
        )),
    }
}

pub(super) fn project_opened(
    flow: &Flow,
    step: &str,
    (wait, until, asked): (WaitId, Option<Timestamp>, &ApprovalRequest),
) -> RowChanges {
    RowChanges::of_approval(ApprovalChange::Open {
        wait,
        flow: flow.name.to_string(),
        step: step.to_owned(),
        asked: Box::new(asked.clone()),
        until,
    })
}

pub(super) fn project_told(run: RunId, step: &str) -> RowChanges {
    let wait = WaitId::derive(run, step);
    RowChanges::of_approval(ApprovalChange::Told { wait })
}

pub(super) fn project_elapsed(run: RunId, step: &str) -> RowChanges {
    let wait = WaitId::derive(run, step);
    RowChanges::of_approval(ApprovalChange::Elapse { wait })
}

pub(super) fn announce_opened(
    context: &AnnounceContext<'_>,
    state: &FoldedRun,
    step: &str,
    (asked, until): (&ApprovalRequest, Option<Timestamp>),
) -> Vec<Emitted> {
    let data = with_shown(json!({ "from": asked.from, "until": until }), asked);
    vec![destinations(context, state, step, ("requested", 0), data)]
}

pub(super) fn announce_told(
    context: &AnnounceContext<'_>,
    state: &FoldedRun,
    step: &str,
    what: ApprovalNotice,
) -> Vec<Emitted> {
    let Current::Approving(open) = &state.current else {
        return Vec::new();
    };
    let (name, number, from) = match what {
        ApprovalNotice::Reminded { number, .. } => ("reminded", number, &open.asked.from),
        ApprovalNotice::Escalated => ("escalated", 0, &open.asked.escalate),
    };
    let data = json!({ "from": from, "until": open.until, "number": number });
    let data = with_shown(data, &open.asked);
    vec![destinations(context, state, step, (name, number), data)]
}

pub(super) fn announce_decided(
    context: &AnnounceContext<'_>,
    state: &FoldedRun,
    step: &str,
    decision: &ApprovalDecision,
) -> Vec<Emitted> {
    vec![plain(context, state, step, ("decided", 0), json!(decision))]
}

pub(super) fn announce_elapsed(
    context: &AnnounceContext<'_>,
    state: &FoldedRun,
    step: &str,
    policy: OnTimeout,
) -> Vec<Emitted> {
    let data = json!({ "approved": null, "by": null, "on_timeout": policy });
    vec![plain(context, state, step, ("decided", 0), data)]
}

/// The announcement of an approval that can be decided: with the link to do so.
fn destinations(
    context: &AnnounceContext<'_>,
    state: &FoldedRun,
    step: &str,
    named: (&str, u32),
    data: Value,
) -> Emitted {
    let link = approval_address(context.options, state.run, step, round(state, step));
    plain(
        context,
        state,
        step,
        named,
        merged(json!({ "link": link }), data),
    )
}

/// The announcement of an approval. `number` tells it from others of its name.
fn plain(
    context: &AnnounceContext<'_>,
    state: &FoldedRun,
    step: &str,
    (name, number): (&str, u32),
    data: Value,
) -> Emitted {
    let event = format!("semel.approval.{name}");
    let round = round(state, step);
    let effect = EffectId::derive(state.run, step, &format!("{event}.{number}"), round);
    let about = json!({
        "approval": WaitId::derive(state.run, step),
        "run": state.run,
        "flow": context.release.flow.name.as_str(),
        "step": step,
    });
    message(effect, &event, &merged(about, data))
}

/// The round of asking: each round has its own news. By now the step has asked at least once.
fn round(state: &FoldedRun, step: &str) -> u32 {
    let rounds = state.rounds.get(step).copied().unwrap_or_default();
    rounds.saturating_sub(1)
}

fn with_shown(data: Value, asked: &ApprovalRequest) -> Value {
    merged(
        data,
        json!({ "shown": asked.shown, "digest": asked.digest, "login": asked.login }),
    )
}

fn merged(mut one: Value, other: Value) -> Value {
    if let (Value::Object(one), Value::Object(other)) = (&mut one, other) {
        one.extend(other);
    }
    one
}

pub(super) fn describe_opened(
    step: &str,
    (wait, until, asked): (WaitId, Option<Timestamp>, &ApprovalRequest),
) -> String {
    let (people, until) = (asked.from.join(", "), words::until(until));
    format!("{step}: approval requested from {people} ({wait}{until})")
}

pub(super) fn describe_told(step: &str, what: ApprovalNotice) -> String {
    match what {
        ApprovalNotice::Reminded { number, .. } => format!("{step}: reminder {number} sent"),
        ApprovalNotice::Escalated => format!("{step}: escalated (half of the time is over)"),
    }
}

pub(super) fn describe_decided(step: &str, decision: &ApprovalDecision) -> String {
    let verb = match decision.approved {
        true => "approved",
        false => "rejected",
    };
    let comment = decision.comment.as_deref();
    let comment = comment.map_or_else(String::new, |comment| format!(": {comment}"));
    format!("{step}: {verb} by {}{comment}", decision.by)
}

pub(super) fn describe_elapsed(step: &str, policy: OnTimeout) -> String {
    let then = match policy {
        OnTimeout::Reject => "this counts as a rejection",
        OnTimeout::Fail => "the run fails",
        OnTimeout::Continue => "the run continues",
    };
    format!("{step}: no decision in time; {then}")
}
