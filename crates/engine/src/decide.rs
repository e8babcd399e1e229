//! Deciding: what comes next, from what is true now. Pure: no I/O and no clock of its own.
//!
//! [`decide`] goes through everything that needs no I/O (conditions, functions, intents, ends of
//! waits) and stops at the first thing that does. It returns what it went through as events, with
//! their changes to the tables; the turn commits them and then acts.

use jiff::Timestamp;
use semel_flow::release::{ControlStep, RenderError, StepWork};
use semel_flow::{Flow, Scope, Step};
use semel_model::event::Event;
use semel_model::kv::Operation;
use semel_model::request::{ExternalRequest, LocalChange, StepRequest};
use semel_model::run::StopReason;
use semel_model::{EffectId, Fault, SeededBug, WaitId};
use serde_json::Value;

mod answer;
mod approval;
mod earlier;
mod effect;
mod end;
mod name_undo;
mod named;
mod preview;
mod probe;
mod render;
mod renewed;
mod settle_context;
mod storable;
mod task;
mod wait;

pub(crate) use answer::external_id;
pub use answer::{confirmed, found, read_result};
pub(crate) use earlier::{in_doubt_elsewhere, undo_in_doubt};
use end::{by_a_person, cancelled, fail, finish, succeeded};
pub use name_undo::{UndoRequest, UndoneHold};
pub use named::NameRequest;
pub use preview::{NameLookup, PreviewContext, ReplayForecast, preview};
pub use probe::probe_of;
use probe::{look, looks_now};
pub use settle_context::settle_context;
use wait::{open, wake};

use crate::event::{self, Before, RowChanges};
use crate::external_result::ExternalResult;
use crate::landing::Landing;
use crate::pauses::RunPauses;
use crate::state::{Current, FoldedRun, Misfit};
use crate::vault::Destinations;

/// What the decision may look at besides the journal.
#[derive(Clone, Copy)]
pub struct DecideContext<'a> {
    /// The release that the run is on.
    pub flow: &'a Flow,
    /// Where its connections lead.
    pub destinations: &'a Destinations,
    /// What expressions see as `run`.
    pub run: &'a Value,
    /// What expressions see as `waits`.
    pub waits: &'a Value,
    /// How long after its intent a request may still land.
    pub landing: Landing,
    /// The database's time.
    pub now: Timestamp,
    /// A fraction from 0 to 1, for jitter.
    pub jitter: f64,
    /// Whether the run is to be cancelled.
    pub cancel: bool,
    /// Callbacks that came, by wait.
    pub answers: &'a [(WaitId, Value)],
    /// Late responses that workers recorded after they had lost their lease, by effect.
    pub late_responses: &'a [(EffectId, Value)],
    /// What came from outside for the run's current step.
    pub outside: &'a ExternalResult,
    /// The place of the step at whose destination this turn has looked, and found nothing. The
    /// journal does not know it: a worker that takes the run later looks again.
    pub looked: Option<usize>,
    /// What is paused.
    pub pauses: RunPauses<'a>,
}

/// How much the steps of one decision may give, about, before the turn counts it.
const GIVEN_BYTES_MAX: usize = 64 << 10;

/// What the turn does next.
#[derive(Clone, Debug)]
pub enum NextAction {
    /// Have an executor perform the effect whose intent is among the events, once they are
    /// committed.
    Perform(ExternalRequest),
    /// Make the change of Semel's own tables whose intent is among the events, once they are
    /// committed.
    Change(LocalChange),
    /// Begin the named effect of the run's current step, before an intent.
    BeginNamed(Box<NameRequest>),
    /// Tell the name of an effect that the run's current step undoes it, before the intent of that.
    BeginUndo(Box<UndoRequest>),
    /// Make a read; it may be made again.
    Read(ExternalRequest),
    /// Read a shared entry.
    ReadEntry(Operation),
    /// Ask whether an effect in doubt happened.
    Probe(ExternalRequest),
    /// Ask whether an effect is there already, before its first attempt.
    Look(ExternalRequest),
    /// Sleep.
    Sleep {
        /// Until then, or until something wakes the run.
        until: Option<Timestamp>,
        /// Whether it rests before another attempt, and does not wait for something.
        retrying: bool,
    },
    /// Sleep until the pause with this number is over.
    Pause(i64),
    /// Start and await the child runs of the run's current step.
    Fan,
    /// Count what the run takes by now: its last steps gave much.
    CountMemory,
    /// Stop the run until an operator acts.
    StopRun(StopReason, Fault),
    /// End the run by this event, which is not applied yet.
    End(Event),
}

/// What was decided without I/O, and what the turn does next.
#[derive(Debug)]
pub struct Decision {
    /// The events that led there, applied to the state.
    pub events: Vec<Event>,
    /// What they change of the tables.
    pub changes: RowChanges,
    /// What comes next.
    pub act: NextAction,
}

/// Continues until I/O is needed. The events that led there are applied to `state`; an end is left
/// to the turn, because the run leaves its gates first.
///
/// # Errors
///
/// Where a decision does not fit the state that it was made from: that is a defect.
pub fn decide(state: &mut FoldedRun, context: &DecideContext<'_>) -> Result<Decision, Misfit> {
    let mut events = Vec::new();
    let mut changes = RowChanges::default();
    let mut given_bytes = 0;
    let act = loop {
        let event = match next(state, context) {
            Next::Event(end @ Event::Ended { .. }) => break NextAction::End(end),
            Next::Event(event) => event,
            Next::Act(act) => break act,
        };
        let before = Before::of(state, context.flow);
        let given = state.gave.len();
        event::apply(state, &event, context.flow, context.now)?;
        given_bytes += state.given_bytes(given);
        changes.add(event::project(&before, &event, state, context.flow));
        let intended = matches!(event, Event::Intended { .. });
        events.push(event);
        if intended && let Some(pending) = state.effect() {
            match &pending.request {
                StepRequest::External(request) => break NextAction::Perform(request.clone()),
                StepRequest::Local(change) => break NextAction::Change(change.clone()),
                // An outside worker performs a task: the run sleeps until it answers.
                StepRequest::Task(_) => {}
            }
        }
        if given_bytes > GIVEN_BYTES_MAX {
            break NextAction::CountMemory;
        }
    };
    Ok(Decision {
        events,
        changes,
        act,
    })
}

enum Next {
    Event(Event),
    Act(NextAction),
}

fn next(state: &FoldedRun, context: &DecideContext<'_>) -> Next {
    let Some(step) = state.step(context.flow) else {
        return Next::Event(finish(state, context));
    };
    // A run that undoes what it did is already about to end.
    let cancel = context.cancel && state.undoing.is_none() && !SeededBug::CancelIgnored.is_seeded();
    // Cancelling needs no step.
    if let Some(pause) = context.pauses.flow()
        && !cancel
    {
        return Next::Act(NextAction::Pause(pause));
    }
    match &state.current {
        // An answer that was taken is recorded, so that a later run of the key need not wait for it.
        Current::Waiting { wait, .. }
            if cancel && !context.answers.iter().any(|(of, _)| of == wait) =>
        {
            Next::Event(cancelled())
        }
        Current::Fresh | Current::Reading(_) | Current::Approving(_) | Current::Broken(_)
            if cancel =>
        {
            Next::Event(cancelled())
        }
        Current::Fresh => begin(state, context, step).unwrap_or_else(|error| broken(step, &error)),
        Current::Broken(fault) => fail(state, context, fault),
        Current::Reading(reading) => match reading.retry_at {
            Some(at) if context.now < at => sleep(at, true),
            Some(_) => begin(state, context, step).unwrap_or_else(|error| broken(step, &error)),
            None if reading.fault.retryable => Next::Act(NextAction::StopRun(
                StopReason::NeedsReview,
                reading.fault.clone(),
            )),
            None => fail(state, context, &reading.fault),
        },
        Current::Effect(pending) => effect::go_on(state, context, step, pending),
        Current::Waiting { wait, until } => wake(context, step, *wait, *until),
        Current::Fan(fan) if cancel && fan.stopped.is_none() => Next::Event(Event::FanStopped {
            step: step.id.to_string(),
            cancels: true,
            fault: Some(by_a_person()),
        }),
        Current::Fan(_) => Next::Act(NextAction::Fan),
        Current::Approving(approving) => approval::go_on(context, step, approving),
    }
}

/// The first look at a step.
fn begin(state: &FoldedRun, context: &DecideContext<'_>, step: &Step) -> Result<Next, RenderError> {
    let scope = scope(state, context);
    if let Some(condition) = &step.condition
        && !condition.eval_bool(&scope)?
    {
        return Ok(Next::Event(Event::Skipped {
            step: step.id.to_string(),
        }));
    }
    if let Some(event) = earlier::answer(state, step) {
        return Ok(Next::Event(event));
    }
    if let Some(named) = &step.named {
        return named::begin(state, context, step, named, &scope);
    }
    if let Some(next) = name_undo::before_undo(state, context, step) {
        return Ok(next);
    }
    let find = |name: &str| context.destinations.connection(name);
    let name = step.id.as_str();
    let key = step.guard().map(|_| state.effect_id(name));
    match render::render(step, &scope, &find, key)? {
        StepWork::Request(request) => match key {
            Some(_) if looks_now(state, context, step) && !earlier::is_known(state, name) => {
                look(state, context, step)
            }
            Some(_) if state.earlier.is_some() => {
                earlier::begin(state, context, step, &scope, request)
            }
            Some(effect) => {
                let named = (effect, state.generation(name));
                Ok(intend(context, step, named, request))
            }
            None => Ok(read(step, *request)),
        },
        StepWork::Control(control) => move_on(state, context, step, control, &scope),
    }
}

/// What a step comes to that moves the run itself.
fn move_on(
    state: &FoldedRun,
    context: &DecideContext<'_>,
    step: &Step,
    control: ControlStep<'_>,
    scope: &Scope<'_>,
) -> Result<Next, RenderError> {
    let id = step.id.to_string();
    Ok(match control {
        ControlStep::Function(function) => {
            let result = function.0.eval(scope)?;
            Next::Event(Event::Computed {
                step: id,
                result,
                status: None,
                usage: Value::Null,
            })
        }
        ControlStep::Wait(wait) => Next::Event(open(state, context, step, wait, scope)?),
        ControlStep::Switch(switch) => {
            let mut way = None;
            for (number, case) in switch.cases.iter().enumerate() {
                if case.when.eval_bool(scope)? {
                    way = u32::try_from(number).ok();
                    break;
                }
            }
            Next::Event(Event::Switched {
                step: id,
                case: way,
            })
        }
        ControlStep::Foreach(_) | ControlStep::Parallel(_) => {
            Next::Event(Event::FanOpened { step: id })
        }
        ControlStep::Fail(fail) => {
            let message = fail.message.render(scope)?;
            Next::Event(Event::Broken {
                step: Some(id),
                fault: Fault::permanent(fail.code.clone(), message),
            })
        }
        ControlStep::Return(end) => {
            let result = end.0.eval(scope)?;
            Next::Event(succeeded(result))
        }
        ControlStep::Approval(ask) => approval::open(state, context, step, ask, scope)?,
    })
}

/// The first intent of an effect, with what it sends.
fn intend(
    context: &DecideContext<'_>,
    step: &Step,
    (effect, generation): (EffectId, u32),
    mut request: Box<StepRequest>,
) -> Next {
    if let Some(pause) = context.pauses.connection(request.connection()) {
        return Next::Act(NextAction::Pause(pause));
    }
    task::set_limit(step, &mut request, context.now);
    if let Some(fault) = storable::find_fault(&request) {
        return Next::Event(broken_by(step, fault));
    }
    let connection = request.connection();
    let connection = connection.and_then(|name| context.destinations.connection(name));
    let said = step.guard.window(None);
    Next::Event(Event::Intended {
        step: step.id.to_string(),
        effect,
        attempt: 1,
        licence: None,
        guard: step.guard.decided_by(connection),
        window: step.guard.window(connection).filter(|it| said != Some(*it)),
        request: Some(request),
        generation,
    })
}

/// A request that changes nothing.
fn read(step: &Step, request: StepRequest) -> Next {
    if let Some(fault) = storable::find_fault(&request) {
        return Next::Event(broken_by(step, fault));
    }
    match request {
        StepRequest::External(request) => Next::Act(NextAction::Read(request)),
        StepRequest::Local(LocalChange::Kv(operation)) => {
            Next::Act(NextAction::ReadEntry(operation))
        }
        // These always change something, so that a release gives each of them a guard.
        StepRequest::Local(
            LocalChange::Persist(_) | LocalChange::Emit(_) | LocalChange::Start(_),
        )
        | StepRequest::Task(_) => {
            let message = format!("`{}` is no read", request.kind());
            Next::Event(broken_by(step, Fault::permanent("no-executor", message)))
        }
    }
}

fn broken_by(step: &Step, fault: Fault) -> Event {
    Event::Broken {
        step: Some(step.id.to_string()),
        fault,
    }
}

fn broken(step: &Step, error: &RenderError) -> Next {
    Next::Event(broken_by(step, error.to_fault()))
}

fn sleep(until: Timestamp, retrying: bool) -> Next {
    Next::Act(NextAction::Sleep {
        until: Some(until),
        retrying,
    })
}

/// What the step's expressions can see.
pub(crate) fn scope<'a>(state: &'a FoldedRun, context: &DecideContext<'a>) -> Scope<'a> {
    let scope = Scope::new()
        .with("input", &state.input)
        .with("headers", &state.headers)
        .with("query", &state.query)
        .with("trigger", &state.trigger)
        .with("steps", &state.steps)
        .with("waits", context.waits)
        .with("run", context.run)
        .with("env", &context.flow.env);
    match state
        .child_of
        .as_ref()
        .and_then(|child| child.item.as_ref())
    {
        Some((name, item)) => scope.with(name, item),
        None => scope,
    }
}
