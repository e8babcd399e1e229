//! A run's life: accepted, stopped, resumed, corrected, undone, ended.

use jiff::Timestamp;
use semel_flow::release::CallStep;
use semel_flow::{Action, Flow, Step};
use semel_model::effect::LedgerEntry;
use semel_model::event::{Caller, Event, ResultAmendment};
use semel_model::run::{EndState, RunState, StopReason};
use semel_model::{EffectId, Fault, RunId, SeededBug, TriggerKind};
use semel_store::approvals::ApprovalChange;
use semel_store::journal::{RecordChange, WaitChange};
use semel_store::outbox::Emitted;
use serde_json::{Value, json};

use super::announcement::{AnnounceContext, message};
use super::changes::RowChanges;
use super::words;
use crate::call::{CANCEL, CallEnd, Cancelled, END, called};
use crate::state::{Current, FoldedRun, Unfit, fits};

/// What begins the names of events that Semel itself emits.
const OWN: &str = "semel.";

/// A run failed.
const FAILED: &str = "semel.run.failed";

/// A run is stopped until an operator acts.
const STOPPED: &str = "semel.run.stopped";

/// An accepted delivery: [`Event::Accepted`], whose payload moves into the state.
#[derive(Debug)]
pub struct Acceptance {
    /// The way it came in.
    pub trigger: TriggerKind,
    /// Its payload.
    pub input: Value,
    /// The request's headers that expressions may read.
    pub headers: Value,
    /// The request's query parameters.
    pub query: Value,
    /// The run that asked for it, and waits for its end.
    pub caller: Option<Caller>,
    /// Who started it, where a person or a program did by name.
    pub by: Option<String>,
    /// The instant that a schedule named.
    pub nominal: Option<Timestamp>,
}

/// The state of a run whose delivery was just accepted.
pub fn begin(run: RunId, accepted: Acceptance) -> FoldedRun {
    let Acceptance {
        trigger,
        input,
        headers,
        query,
        caller,
        by,
        nominal,
    } = accepted;
    FoldedRun {
        begun: true,
        trigger: match nominal {
            Some(nominal) => json!({ "kind": trigger.as_str(), "nominal": nominal.to_string() }),
            None => json!({ "kind": trigger.as_str() }),
        },
        input,
        headers,
        query,
        caller,
        started_by: by,
        ..FoldedRun::new(run)
    }
}

/// Takes the first event of a run in by value, so that its payload is not copied.
pub(super) fn apply_accepted(state: &mut FoldedRun, accepted: Event) -> Result<(), Unfit> {
    fits(!state.begun)?;
    let Event::Accepted {
        trigger,
        input,
        headers,
        query,
        caller,
        by,
        nominal,
    } = accepted
    else {
        return Err(Unfit);
    };
    let accepted = Acceptance {
        trigger,
        input,
        headers,
        query,
        caller,
        by,
        nominal,
    };
    *state = begin(state.run, accepted);
    Ok(())
}

/// The run failed; or it is a child run that succeeded, and its parent undoes its effects.
pub(super) fn apply_undoing(
    state: &mut FoldedRun,
    flow: &Flow,
    fault: &Fault,
) -> Result<(), Unfit> {
    fits(state.begun && state.undoing.is_none())?;
    let failed = match &state.current {
        Current::Broken(_) | Current::Reading(_) => true,
        Current::Effect(pending) => matches!(pending.entry, LedgerEntry::Failed(_)),
        Current::Fresh | Current::Waiting { .. } | Current::Fan(_) | Current::Approving(_) => false,
    };
    fits(failed || state.ended)?;
    state.ended = false;
    state.undoing = Some(fault.clone());
    state.next_step(flow);
    Ok(())
}

pub(super) fn apply_stopped(state: &mut FoldedRun) -> Result<(), Unfit> {
    state.must_be_live()?;
    state.stopped = true;
    Ok(())
}

/// The run continues: what failed or needed review may be tried again at once. A doubt that an
/// operator had failed becomes a doubt again ([`crate::settle::doubted_again`]). A rejection
/// stands, unless people are to be asked again.
pub(super) fn apply_resumed(
    state: &mut FoldedRun,
    by: Option<&str>,
    asks_again: bool,
    at: Timestamp,
) -> Result<(), Unfit> {
    fits(state.begun)?;
    state.stopped = false;
    if state.ended {
        state.operator_step = None;
    }
    state.asks_again = asks_again;
    state.resumed_by = by.map(str::to_owned);
    let had_ended = std::mem::take(&mut state.ended);
    let in_doubt = state.effect().is_some_and(|it| it.given_up.is_some());
    for named in state.names.values_mut() {
        named.resumed(had_ended, in_doubt, at);
    }
    for undo in state.undos.values_mut() {
        undo.resumed(had_ended);
    }
    if had_ended {
        // It left its gates by its end.
        state.admitted.clear();
        state.held = None;
        state.reopened = true;
        // Its end withdrew what it waited for, which the step asks for again.
        if matches!(
            state.current,
            Current::Waiting { .. } | Current::Approving(_)
        ) {
            state.current = Current::Fresh;
        }
    }
    match &mut state.current {
        Current::Effect(pending) => {
            pending.retry_at = Some(at);
            if let LedgerEntry::Failed(effect) = &pending.entry {
                // An effect that an operator failed stays failed where no operator resumes it.
                if by.is_some() || pending.given_up.is_none() {
                    pending.entry = LedgerEntry::Retrying(effect.clone().reopened());
                }
            }
            pending.resumed = matches!(pending.entry, LedgerEntry::Retrying(_));
        }
        Current::Reading(reading) => {
            reading.retry_at = Some(at);
            reading.attempts = 0;
            reading.since = at;
        }
        Current::Broken(_) if state.rejected && !asks_again => {}
        Current::Broken(_) => {
            state.current = Current::Fresh;
            state.rejected = false;
        }
        Current::Fan(fan) => fan.stopped = None,
        Current::Fresh | Current::Waiting { .. } | Current::Approving(_) => {}
    }
    Ok(())
}

/// An operator corrects the result that an operator gave an effect.
pub(super) fn apply_amended(state: &mut FoldedRun, amended: &ResultAmendment) -> Result<(), Unfit> {
    fits(state.begun)?;
    let known = state.steps.get_mut(&amended.step).ok_or(Unfit)?;
    known["result"] = amended.result.clone();
    if let Some(external_id) = &amended.external_id {
        known["external_id"] = external_id.as_str().into();
    }
    Ok(())
}

/// No run ends before what it began is settled.
pub(super) fn apply_ended(state: &mut FoldedRun) -> Result<(), Unfit> {
    state.must_be_live()?;
    let settled = match &state.current {
        Current::Effect(pending) => match &pending.entry {
            LedgerEntry::Failed(_) | LedgerEntry::Retrying(_) | LedgerEntry::Done(_) => true,
            LedgerEntry::Pending(_) | LedgerEntry::InDoubt(_) => false,
        },
        Current::Fan(_) => false,
        Current::Fresh
        | Current::Reading(_)
        | Current::Waiting { .. }
        | Current::Approving(_)
        | Current::Broken(_) => true,
    };
    fits(settled)?;
    state.ended = true;
    Ok(())
}

pub(super) fn project_stopped(reason: StopReason, fault: &Fault) -> RowChanges {
    RowChanges::of_record(RecordChange {
        fault: Some(to_record(fault)),
        fault_code: Some(fault.code.clone()),
        ..RecordChange::to(reason.into())
    })
}

/// The record says how the run ended; a wait or an approval that it leaves open is over.
pub(super) fn project_ended(
    after: &FoldedRun,
    state: EndState,
    result: &Value,
    fault: Option<&Fault>,
) -> RowChanges {
    let mut changes = RowChanges::of_record(RecordChange {
        result: (!result.is_null()).then(|| result.to_string()),
        fault: fault.map(to_record),
        fault_code: fault.map(|fault| fault.code.clone()),
        has_inherited: after.earlier.as_ref().is_some_and(|it| it.are_read()),
        ..RecordChange::to(end_state(state))
    });
    match &after.current {
        Current::Waiting { wait, .. } => changes.waits = vec![WaitChange::Cancel { wait: *wait }],
        Current::Approving(approving) => {
            let wait = approving.wait;
            changes.approvals = vec![ApprovalChange::Withdraw { wait }];
        }
        Current::Fresh
        | Current::Reading(_)
        | Current::Effect(_)
        | Current::Fan(_)
        | Current::Broken(_) => {}
    }
    changes
}

/// How a run ended, as the record keeps it.
fn end_state(state: EndState) -> RunState {
    match state {
        EndState::Succeeded => RunState::Succeeded,
        EndState::Failed => RunState::Failed,
        EndState::Cancelled => RunState::Cancelled,
        EndState::Superseded => RunState::Superseded,
    }
}

/// A fault as the record keeps it.
fn to_record(fault: &Fault) -> String {
    serde_json::to_value(fault.for_record())
        .unwrap_or(Value::Null)
        .to_string()
}

/// Announces a failure to subscribers, the end to the run that waits for this one, and a
/// cancellation to the run that this one waits for.
pub(super) fn announce_ended(
    context: &AnnounceContext<'_>,
    state: &FoldedRun,
    how: EndState,
    (result, fault): (&Value, Option<&Fault>),
) -> Vec<Emitted> {
    let mut told = Vec::new();
    if state.operator_step.is_some() {
        // Its end was announced before.
        return told;
    }
    if how == EndState::Failed && state.child_of.is_none() {
        told.extend(problem_event(
            context,
            state,
            FAILED,
            (RunState::Failed, fault),
        ));
    }
    if let Some(caller) = state.caller {
        let run = state.run.to_string();
        let end = json!({ "run": run, "state": how, "result": result, "fault": fault });
        let effect = EffectId::derive(state.run, "", "end", context.number());
        told.push(message(effect, END, &CallEnd { caller, end }));
    }
    let step = state.step(&context.release.flow);
    if let Some((step, call)) = step.and_then(as_call)
        && state.is_waiting()
        && let Some((_, claim)) = called(context.release, state.first(), step, &call.flow)
    {
        let effect = EffectId::derive(state.run, "", "cancel", context.number());
        told.push(message(effect, CANCEL, &Cancelled { claim }));
    }
    told
}

pub(super) fn announce_stopped(
    context: &AnnounceContext<'_>,
    state: &FoldedRun,
    reason: StopReason,
    fault: &Fault,
) -> Vec<Emitted> {
    if SeededBug::StopUnannounced.is_seeded() {
        return Vec::new();
    }
    let told = problem_event(context, state, STOPPED, (reason.into(), Some(fault)));
    told.into_iter().collect()
}

/// Announces a run that failed or is stopped: an event that flows and subscriptions take like any
/// other. A flow that takes these events announces no failure of its own, or one failure would
/// never end.
fn problem_event(
    context: &AnnounceContext<'_>,
    state: &FoldedRun,
    event: &str,
    (how, fault): (RunState, Option<&Fault>),
) -> Option<Emitted> {
    let flow = &context.release.flow;
    let takes = flow.trigger.event.as_ref();
    if takes.is_some_and(|takes| takes.name.starts_with(OWN)) {
        return None;
    }
    let data = json!({
        "run": state.run.to_string(),
        "flow": flow.name.as_str(),
        "key": context.key.text(),
        "state": how.as_str(),
        "code": fault.map(|fault| fault.code.clone()),
        "message": fault.map(|fault| fault.message.clone()),
        "parent": state.child_of.as_ref().map(|child| child.parent.to_string()),
    });
    let effect = EffectId::derive(state.run, "", event, context.number());
    Some(message(effect, event, &data))
}

fn as_call(step: &Step) -> Option<(&Step, &CallStep)> {
    if let Action::Call(call) = &step.action {
        return Some((step, call));
    }
    None
}

pub(super) fn describe_accepted(
    trigger: TriggerKind,
    nominal: Option<Timestamp>,
    input: &Value,
) -> String {
    let input = words::value(input);
    match nominal {
        Some(nominal) => format!("accepted by schedule for {nominal}: {input}"),
        None => format!("accepted by {trigger}: {input}"),
    }
}

pub(super) fn describe_undoing(fault: &Fault) -> String {
    format!("failed {}; undoing what was done", words::fault(fault))
}

pub(super) fn describe_stopped(reason: StopReason, fault: &Fault) -> String {
    let why = match reason {
        StopReason::InDoubt => "in doubt",
        StopReason::NeedsReview => "needs review",
        StopReason::Quarantined => "quarantined",
    };
    format!("stopped, {why} {}", words::fault(fault))
}

pub(super) fn describe_resumed(by: Option<&str>, reason: &str) -> String {
    format!("resumed by {}: {reason}", by.unwrap_or("Semel"))
}

pub(super) fn describe_amended(step: &str, result: &Value) -> String {
    let result = words::value(result);
    format!("{step}: result corrected by an operator to {result}")
}

pub(super) fn describe_ended(state: EndState, result: &Value, fault: Option<&Fault>) -> String {
    let why = fault.map_or_else(String::new, |fault| format!(": {}", fault.message));
    match state {
        EndState::Succeeded => format!("succeeded with {}", words::value(result)),
        EndState::Failed => format!("failed{why}"),
        EndState::Cancelled => format!("cancelled{why}"),
        EndState::Superseded => format!("superseded{why}"),
    }
}
