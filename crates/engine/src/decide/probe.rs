//! Asking whether an effect in doubt happened.

use semel_flow::Step;
use semel_flow::release::{Ask, Probe, RenderError, StepGuard};
use semel_model::Fault;
use semel_model::event::{Event, ProbeFinding};
use semel_model::request::{ExternalRequest, StepRequest};

use super::{DecideContext, Next, NextAction, scope};
use crate::state::FoldedRun;

/// Asks, or leaves the doubt to an operator where the probe cannot be made.
pub(super) fn probe(state: &FoldedRun, context: &DecideContext<'_>, step: &Step) -> Next {
    let rendered = probe_of(step).map(|probe| question(state, context, probe));
    let fault = match rendered {
        Some(Ok(Some(request))) => return Next::Act(NextAction::Probe(request)),
        Some(Err(error)) => error.to_fault(),
        Some(Ok(None)) | None => Fault::permanent("no-probe", "the step has no probe"),
    };
    // A probe that cannot be made leaves the doubt to an operator.
    let seen = ProbeFinding::Unclear {
        fault,
        retry_at: None,
    };
    Next::Event(Event::Probed {
        step: step.id.to_string(),
        seen,
    })
}

/// What a probe asks, with every expression evaluated; nothing where the effect has no destination that
/// could be asked.
fn question(
    state: &FoldedRun,
    context: &DecideContext<'_>,
    probe: &Probe,
) -> Result<Option<ExternalRequest>, RenderError> {
    let scope = scope(state, context);
    let find = |name: &str| context.destinations.connection(name);
    Ok(match &probe.ask {
        Ask::Http { request, .. } => {
            Some(ExternalRequest::Http(request.render(&scope, &find, None)?))
        }
        Ask::Db { query, .. } => Some(ExternalRequest::Db(query.render(&scope)?)),
        // The command itself left the marker: the probe asks for it under the command's own key.
        Ask::Marker => match state.effect().map(|pending| &pending.request) {
            Some(StepRequest::External(request)) => Some(request.clone()),
            Some(StepRequest::Local(_) | StepRequest::Task(_)) | None => None,
        },
    })
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
