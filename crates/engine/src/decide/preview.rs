//! What a replay would do: the flow is walked by the same decisions as a run, and nothing is done.
//!
//! A step that would be performed or read has no result here. Steps that depend on it cannot be
//! known, and all others are decided as the run would decide them.

use std::collections::{BTreeMap, BTreeSet};

use semel_flow::release::StepWork;
use semel_flow::{Action, Flow, Step};
use semel_model::event::Event;
use semel_model::replay::{ChangedField, Forecast, StepForecast};
use semel_model::request::StepRequest;
use semel_model::{EffectId, Fault, Fingerprint, PastOutcome};
use serde_json::Value;

use super::earlier::keeps_result;
use super::render::render;
use super::{DecideContext, NameRequest, Next, NextAction, next, scope};
use crate::event;
use crate::state::{FoldedRun, fingerprint};

mod fields;
mod named;

use fields::differing_fields;
pub use named::NameLookup;

/// What the preview knows besides the state of the run.
#[derive(Clone, Copy)]
pub struct PreviewContext<'a> {
    /// The step from which on reads and functions are made again; the first that is not done, where
    /// nothing is said.
    pub from: Option<&'a str>,
    /// The steps whose changed requests the operator accepts.
    pub accepts: &'a [String],
    /// What earlier runs sent, by effect.
    pub requests: &'a BTreeMap<EffectId, StepRequest>,
    /// How many items of a step's list are done, and how many are not, where that is known.
    pub items: &'a BTreeMap<String, (u64, Option<u64>)>,
    /// What is there under the business keys of steps, as far as they were looked up.
    pub names: &'a BTreeMap<String, NameLookup>,
}

/// What a replay would do.
#[derive(Debug, Default)]
pub struct ReplayForecast {
    /// At each step, in order.
    pub steps: Vec<StepForecast>,
    /// The steps that keep their results.
    pub kept: Vec<String>,
    /// The first step that is made again.
    pub from: Option<String>,
    /// The business keys that have to be looked up: the forecast is good where there are none.
    pub asked: Vec<NameRequest>,
}

/// Walks the flow of a run that has begun, follows another and has inherited its ledger.
pub fn preview(
    state: FoldedRun,
    context: &DecideContext<'_>,
    about: PreviewContext<'_>,
) -> ReplayForecast {
    let mut walk = Walk {
        context,
        about,
        state,
        unknown: BTreeSet::new(),
        is_fresh: false,
        forecast: ReplayForecast::default(),
    };
    for _ in 0..=context.flow.steps.len() {
        let Some(step) = walk.state.step(context.flow) else {
            break;
        };
        if !walk.pass(step) {
            break;
        }
    }
    walk.forecast
}

struct Walk<'a> {
    context: &'a DecideContext<'a>,
    about: PreviewContext<'a>,
    state: FoldedRun,
    /// The steps whose results are not known before the run.
    unknown: BTreeSet<String>,
    /// Whether reads and functions are made again from here on.
    is_fresh: bool,
    forecast: ReplayForecast,
}

impl<'a> Walk<'a> {
    fn flow(&self) -> &'a Flow {
        self.context.flow
    }

    /// Passes one step; false where the run ends at it.
    fn pass(&mut self, step: &Step) -> bool {
        let id = step.id.as_str();
        if self.about.from == Some(id) {
            self.make_fresh(id);
        }
        if let Some(before) = self.depends_on(step) {
            self.leave_open(step, &before);
            return true;
        }
        self.keep(step);
        match next(&self.state, self.context) {
            Next::Event(event) => self.meet(step, &event),
            Next::Act(act) => self.act(step, act),
        }
    }

    fn make_fresh(&mut self, step: &str) {
        if !self.is_fresh {
            self.is_fresh = true;
            self.forecast.from = Some(step.to_owned());
        }
    }

    /// The first step that is not done: where the operator names none, the replay begins here.
    fn is_not_done(&mut self, step: &Step) {
        if self.about.from.is_none() {
            self.make_fresh(step.id.as_str());
        }
    }

    /// The step whose result is not known, and without which this one cannot be decided.
    fn depends_on(&self, step: &Step) -> Option<String> {
        let exprs = step.exprs().into_iter().chain(&step.condition);
        let mut paths = exprs.flat_map(|expr| expr.references());
        paths.find_map(|path| match path.fields.first() {
            _ if path.root != "steps" => None,
            Some(named) => self.unknown.get(named).cloned(),
            None => self.unknown.first().cloned(),
        })
    }

    /// The step keeps the result that the last run has of it.
    fn keep(&mut self, step: &Step) {
        let id = step.id.as_str();
        let Some(earlier) = self.state.earlier.as_mut() else {
            return;
        };
        if !self.is_fresh && keeps_result(step) && earlier.results.contains_key(id) {
            earlier.kept.push(id.to_owned());
            self.forecast.kept.push(id.to_owned());
        }
    }

    fn meet(&mut self, step: &Step, met: &Event) -> bool {
        if let Event::Reused {
            effect,
            run,
            external_id,
            ..
        } = met
        {
            let (effect, run, external_id) = (*effect, *run, external_id.clone());
            let skipped = Forecast::Skipped {
                effect,
                run,
                external_id,
            };
            self.add(step, skipped);
            return self.apply(met);
        }
        if let Event::Intended {
            effect, request, ..
        } = met
        {
            let nothing = || Fingerprint::of(&Value::Null);
            let request = Some(request.as_deref().map_or_else(nothing, fingerprint));
            let effect = *effect;
            return self.begin(step, Forecast::Performed { effect, request });
        }
        if let Event::Broken { fault, .. } = met {
            return self.fail(step, fault);
        }
        if let Event::Skipped { .. } = met {
            if is_shown(step) {
                self.add(step, Forecast::NotRun);
            }
            return self.apply(met);
        }
        match begins(met, self.about.items, step) {
            Some(done @ Forecast::Items { left: Some(0), .. }) => {
                self.add(step, done);
                self.give_nothing(step);
                true
            }
            Some(forecast) => self.begin(step, forecast),
            None => !matches!(met, Event::Ended { .. }) && self.apply(met),
        }
    }

    fn act(&mut self, step: &Step, act: NextAction) -> bool {
        match act {
            NextAction::Read(_) | NextAction::ReadEntry(_) => self.begin(step, Forecast::Read),
            NextAction::StopRun(_, fault) => self.stop(step, &fault),
            NextAction::BeginNamed(asked) => self.meet_name(step, *asked),
            NextAction::Look(_) => self.look(step),
            NextAction::Perform(_)
            | NextAction::Change(_)
            | NextAction::BeginUndo(_)
            | NextAction::Probe(_)
            | NextAction::Sleep { .. }
            | NextAction::Pause(_)
            | NextAction::Fan
            | NextAction::CountMemory
            | NextAction::End(_) => false,
        }
    }

    /// The step asks its destination before it sends anything. A preview asks nobody: it says what
    /// is sent where the destination has nothing.
    fn look(&mut self, step: &Step) -> bool {
        let context = DecideContext {
            looked: self.state.cursor,
            ..*self.context
        };
        match next(&self.state, &context) {
            Next::Event(event) => self.meet(step, &event),
            Next::Act(_) => false,
        }
    }

    /// The step does something whose result is not known yet.
    fn begin(&mut self, step: &Step, forecast: Forecast) -> bool {
        self.is_not_done(step);
        self.add(step, forecast);
        self.give_nothing(step);
        true
    }

    /// The done effect is not the one that the step asks for now, or may be undone.
    fn stop(&mut self, step: &Step, fault: &Fault) -> bool {
        let id = step.id.as_str();
        let Some(past) = self.state.past(id).cloned() else {
            return self.fail(step, fault);
        };
        let (effect, run) = (past.effect, past.run);
        if matches!(past.outcome, PastOutcome::DoubtErased { .. }) {
            self.add(step, Forecast::InDoubt { effect });
            self.give_nothing(step);
            return true;
        }
        if !matches!(fault.code.as_str(), "effect-changed" | "undo-in-doubt") {
            self.add(step, Forecast::Differs { effect, run });
            self.give_nothing(step);
            return true;
        }
        let fields = self.changed_fields(step, effect);
        // As if it were accepted: the preview shows what would follow.
        if let Some(earlier) = self.state.earlier.as_mut() {
            earlier.accepts.push(id.to_owned());
        }
        let Next::Event(reused) = next(&self.state, self.context) else {
            return false;
        };
        let Event::Reused { external_id, .. } = &reused else {
            return false;
        };
        let changed = Forecast::Changed {
            effect,
            run,
            external_id: external_id.clone(),
            fields,
            accepted: self.about.accepts.iter().any(|accepted| accepted == id),
        };
        self.add(step, changed);
        self.apply(&reused)
    }

    /// What differs between the request that was sent and the one of now.
    fn changed_fields(&self, step: &Step, effect: EffectId) -> Vec<ChangedField> {
        let scope = scope(&self.state, self.context);
        let find = |name: &str| self.context.destinations.connection(name);
        let now = render(step, &scope, &find, Some(effect));
        match (self.about.requests.get(&effect), now) {
            (Some(then), Ok(StepWork::Request(now))) => differing_fields(then, &now),
            (None, _) | (_, Ok(StepWork::Control(_)) | Err(_)) => Vec::new(),
        }
    }

    fn fail(&mut self, step: &Step, fault: &Fault) -> bool {
        let (code, message) = (fault.code.clone(), fault.message.clone());
        self.is_not_done(step);
        self.add(step, Forecast::Fails { code, message });
        false
    }

    /// Whether and how the step is carried out cannot be known.
    fn leave_open(&mut self, step: &Step, before: &str) {
        let flow = self.flow();
        let place = self.state.cursor.unwrap_or_default();
        let behind = match matches!(step.action, Action::Switch(_)) {
            true => flow.after(place).unwrap_or(flow.steps.len()),
            false => place + 1,
        };
        let inside = flow.steps.get(place + 1..behind).unwrap_or_default();
        let inside = inside.iter().filter(|it| it.inside == step.inside);
        for open in std::iter::once(step).chain(inside) {
            if is_shown(open) && !is_undo(open) {
                let before = before.to_owned();
                self.add(open, Forecast::Unknown { before });
            }
            self.unknown.insert(open.id.to_string());
        }
        self.give_nothing(step);
    }

    /// Moves on without a result.
    fn give_nothing(&mut self, step: &Step) {
        let (flow, id) = (self.flow(), step.id.as_str());
        self.unknown.insert(id.to_owned());
        self.state.finish_step(flow, id, Value::Null, None, None);
    }

    fn apply(&mut self, event: &Event) -> bool {
        let (flow, now) = (self.flow(), self.context.now);
        event::apply(&mut self.state, event, flow, now).is_ok()
    }

    fn add(&mut self, step: &Step, forecast: Forecast) {
        self.forecast.steps.push(StepForecast {
            step: step.id.to_string(),
            kind: step.kind().as_str().to_owned(),
            forecast,
        });
    }
}

/// What a step begins that neither sends nor reads.
fn begins(
    met: &Event,
    items: &BTreeMap<String, (u64, Option<u64>)>,
    step: &Step,
) -> Option<Forecast> {
    if let Event::TakenOver { effect, .. } = met {
        return Some(Forecast::InDoubt { effect: *effect });
    }
    if let Event::WaitOpened { .. } = met {
        return Some(Forecast::Waits);
    }
    if let Event::ApprovalOpened { .. } = met {
        return Some(Forecast::Asks);
    }
    if let Event::FanOpened { .. } = met {
        let counts = items.get(step.id.as_str()).copied();
        let done = counts.map_or(0, |(done, _)| done);
        let left = counts.and_then(|(_, left)| left);
        return Some(Forecast::Items { done, left });
    }
    None
}

/// Whether a step asks for something outside of the run.
fn is_shown(step: &Step) -> bool {
    !matches!(
        &step.action,
        Action::Function(_) | Action::Switch(_) | Action::Fail(_) | Action::Return(_)
    )
}

fn is_undo(step: &Step) -> bool {
    step.id.as_str().ends_with(crate::state::UNDO)
}
