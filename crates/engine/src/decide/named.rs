//! Steps with a business key: the named effect is begun before every attempt.

use semel_flow::release::{BusinessKey, FindConnection, RenderError, StepWork};
use semel_flow::{Scope, Step};
use semel_model::request::{ExternalRequest, LocalChange, StepRequest};
use semel_model::{EffectId, EffectScope, Fault, Fingerprint, Span};
use semel_store::named_effects::EffectAction;
use uuid::Uuid;

use super::probe::{look, looks_now};
use super::render::render;
use super::{DecideContext, Next, NextAction, broken_by, earlier, intend, storable};
use crate::state::{FoldedRun, NameHold, PendingEffect, fingerprint};

/// A named effect that a step wants to perform.
#[derive(Clone, Debug)]
pub struct NameRequest {
    /// The step's path.
    pub step: String,
    /// Where its key counts.
    pub scope: EffectScope,
    /// Its key.
    pub key: String,
    /// How long it is remembered.
    pub keep: Span,
    /// Whether one that is done with another request is taken for this one.
    pub accepts_other: bool,
    /// What it is.
    pub action: EffectAction,
    /// The fingerprint of what the step sends, without a key in it.
    pub fingerprint: Fingerprint,
    /// What the step sends, for people.
    pub request: Box<StepRequest>,
    /// The key under which an earlier run of the run's own key left it in doubt.
    pub doubt: Option<EffectId>,
    /// The generation of the run's own effect.
    pub generation: u32,
    /// Whether its destination keeps a refusal under the latest key of the name.
    pub renews: bool,
}

/// The first look at a step with a business key.
pub(super) fn begin(
    state: &FoldedRun,
    context: &DecideContext<'_>,
    step: &Step,
    named: &BusinessKey,
    scope: &Scope<'_>,
) -> Result<Next, RenderError> {
    let find = |name: &str| context.destinations.connection(name);
    if let Some(hold) = held(state, step) {
        if looks_now(state, context, step) {
            return look(state, context, step);
        }
        let request = request(step, scope, &find, hold.effect)?;
        let name = step.id.as_str();
        let own = (state.effect_id(name), state.generation(name));
        return Ok(intend(context, step, own, request));
    }
    let render_with = |key| request(step, scope, &find, key);
    if let Some(next) = earlier::begin_named(state, step, named.accepts_other, render_with)? {
        return Ok(next);
    }
    let key = match named.evaluate(scope) {
        Ok(key) => key,
        Err(reason) => {
            let fault = Fault::permanent("key-failed", format!("`key`: {reason}"));
            return Ok(Next::Event(broken_by(step, fault)));
        }
    };
    // The key differs by generation, and is no part of what the step means.
    let request = request(step, scope, &find, EffectId::from_uuid(Uuid::nil()))?;
    if let Some(fault) = storable::find_fault(&request) {
        return Ok(Next::Event(broken_by(step, fault)));
    }
    if let Some(pause) = context.pauses.connection(request.connection()) {
        return Ok(Next::Act(NextAction::Pause(pause)));
    }
    Ok(Next::Act(NextAction::BeginNamed(Box::new(NameRequest {
        step: step.id.to_string(),
        scope: named.scope.stored(&context.flow.name, &step.id),
        key,
        keep: named.keep,
        accepts_other: named.accepts_other,
        action: action(&request),
        fingerprint: fingerprint(&request),
        request,
        doubt: earlier::doubt_of(state, step),
        generation: state.generation(step.id.as_str()),
        renews: earlier::is_refused(state, context, step.id.as_str()),
    }))))
}

/// What has to be begun before another attempt of an effect; nothing where it is held, or has no
/// name.
pub(super) fn before_attempt(
    state: &FoldedRun,
    step: &Step,
    pending: &PendingEffect,
) -> Option<NextAction> {
    let asked = ask_again(state, step, pending)?;
    Some(NextAction::BeginNamed(Box::new(asked)))
}

/// The same for an effect that is to be performed under the next key of the name, and the next of the run's own.
pub(super) fn before_renewal(
    state: &FoldedRun,
    step: &Step,
    pending: &PendingEffect,
) -> Option<NextAction> {
    let asked = ask_again(state, step, pending)?;
    Some(NextAction::BeginNamed(Box::new(NameRequest {
        generation: asked.generation + 1,
        renews: true,
        ..asked
    })))
}

fn ask_again(state: &FoldedRun, step: &Step, pending: &PendingEffect) -> Option<NameRequest> {
    let named = step.named.as_ref()?;
    let known = state.names.get(step.id.as_str())?;
    if known.held().is_some() {
        return None;
    }
    Some(NameRequest {
        step: step.id.to_string(),
        scope: known.scope.clone(),
        key: known.key.clone(),
        keep: named.keep,
        accepts_other: named.accepts_other,
        action: action(&pending.request),
        fingerprint: known.fingerprint,
        request: Box::new(pending.request.clone()),
        doubt: None,
        generation: state.generation(step.id.as_str()),
        renews: false,
    })
}

fn held(state: &FoldedRun, step: &Step) -> Option<NameHold> {
    state.names.get(step.id.as_str())?.held()
}

fn request(
    step: &Step,
    scope: &Scope<'_>,
    find: FindConnection<'_>,
    key: EffectId,
) -> Result<Box<StepRequest>, RenderError> {
    match render(step, scope, find, Some(key))? {
        StepWork::Request(request) => Ok(request),
        StepWork::Control(_) => unreachable!("only an effect has a business key"),
    }
}

/// What an effect is, for telling two of one name apart.
fn action(request: &StepRequest) -> EffectAction {
    let (destination, method) = match request {
        StepRequest::External(request) => {
            let host = request.address().map(host).unwrap_or_default();
            let method = match request {
                ExternalRequest::Http(request) => request.method.clone(),
                ExternalRequest::Db(_)
                | ExternalRequest::Ssh(_)
                | ExternalRequest::Notify(_)
                | ExternalRequest::Llm(_) => String::new(),
            };
            (request.connection().unwrap_or(host).to_owned(), method)
        }
        StepRequest::Local(LocalChange::Emit(emission)) => (emission.event.clone(), String::new()),
        StepRequest::Local(
            LocalChange::Kv(_) | LocalChange::Persist(_) | LocalChange::Start(_),
        )
        | StepRequest::Task(_) => (String::new(), String::new()),
    };
    EffectAction {
        kind: request.kind().to_owned(),
        destination,
        method,
    }
}

/// The host and port of an address.
fn host(address: &str) -> &str {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or(rest)
}
