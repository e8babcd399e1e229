//! Asking whether an effect in doubt happened.

use semel_flow::Step;
use semel_flow::release::{Ask, Probe, RenderError, StepGuard};
use semel_model::Fault;
use semel_model::event::{Event, Seen};
use semel_model::request::Call;

use super::{Act, DecideContext, Next, scope};
use crate::state::{Current, RunState};

/// Asks, or leaves the doubt to an operator where the probe cannot be made.
pub(super) fn probe(state: &RunState, context: &DecideContext<'_>, step: &Step) -> Next {
    let rendered = probe_of(step).map(|probe| question(state, context, probe));
    let fault = match rendered {
        Some(Ok(call)) => return Next::Act(Act::Probe(call)),
        Some(Err(error)) => error.to_fault(),
        None => Fault::permanent("no-probe", "the step has no probe"),
    };
    // A probe that cannot be made leaves the doubt to an operator.
    let seen = Seen::Unclear {
        fault,
        retry_at: None,
    };
    Next::Event(Event::Probed {
        step: step.id.to_string(),
        seen,
    })
}

/// What a probe asks, with every expression evaluated.
fn question(
    state: &RunState,
    context: &DecideContext<'_>,
    probe: &Probe,
) -> Result<Call, RenderError> {
    let scope = scope(state, context);
    let find = |name: &str| context.destinations.connection(name);
    match &probe.ask {
        Ask::Http { request, .. } => Ok(Call::Http(request.render(&scope, &find, None)?)),
        Ask::Db { query, .. } => Ok(Call::Db(query.render(&scope)?)),
        // The command itself left the marker: the probe asks for it under the command's own key.
        Ask::Marker => match &state.current {
            Current::Effect(pending) => Ok(pending.call.clone()),
            Current::Fresh
            | Current::Reading(_)
            | Current::Waiting { .. }
            | Current::Fan(_)
            | Current::Approving(_)
            | Current::Broken(_) => unreachable!("only an effect in doubt is probed"),
        },
    }
}

/// The probe of a step that has one.
pub fn probe_of(step: &Step) -> Option<&Probe> {
    match &step.guard {
        StepGuard::Probe(probe) => Some(probe),
        StepGuard::Read
        | StepGuard::Transaction
        | StepGuard::Key { .. }
        | StepGuard::Natural
        | StepGuard::Review
        | StepGuard::Repeat { .. }
        | StepGuard::Connection => None,
    }
}
