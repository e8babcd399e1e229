//! Asking whether an effect happened: in doubt, or before its first attempt.

use semel_flow::Step;
use semel_flow::release::{Ask, Probe, RenderError};
use semel_model::Fault;
use semel_model::event::{Event, ProbeFinding};
use semel_model::request::{ExternalRequest, StepRequest};
use serde_json::json;

use super::{DecideContext, Next, NextAction, broken_by, scope};
use crate::state::FoldedRun;

/// Asks, or leaves the doubt to an operator where the probe cannot be made.
pub(super) fn probe(state: &FoldedRun, context: &DecideContext<'_>, step: &Step) -> Next {
    let rendered = probe_of(step).map(|probe| question(state, context, step, probe));
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

/// Whether the destination is to be asked before the first attempt, and was not yet.
pub(super) fn looks_now(state: &FoldedRun, context: &DecideContext<'_>, step: &Step) -> bool {
    let looks_first = probe_of(step).is_some_and(|probe| probe.before);
    looks_first && (context.looked.is_none() || context.looked != state.cursor)
}

/// Asks before the first attempt. Nothing was sent, so a question that cannot be made is an
/// ordinary fault of the step.
pub(super) fn look(
    state: &FoldedRun,
    context: &DecideContext<'_>,
    step: &Step,
) -> Result<Next, RenderError> {
    let asked = match probe_of(step) {
        Some(probe) => question(state, context, step, probe)?,
        None => None,
    };
    Ok(match asked {
        Some(request) => Next::Act(NextAction::Look(request)),
        None => {
            let fault = Fault::permanent("no-probe", "the step has no probe");
            Next::Event(broken_by(step, fault))
        }
    })
}

/// What a probe asks, with every expression evaluated; nothing where the effect has no destination that
/// could be asked.
fn question(
    state: &FoldedRun,
    context: &DecideContext<'_>,
    step: &Step,
    probe: &Probe,
) -> Result<Option<ExternalRequest>, RenderError> {
    let held = || state.names.get(step.id.as_str())?.held();
    let key = || match (state.effect(), held()) {
        (Some(pending), _) => pending.key(),
        (None, Some(hold)) => hold.effect,
        (None, None) => state.effect_id(step.id.as_str()),
    };
    let effect = step.reads_key.then(|| json!({ "key": key().to_string() }));
    let mut scope = scope(state, context);
    if let Some(effect) = &effect {
        scope = scope.with("effect", effect);
    }
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
    step.guard.probe()
}
