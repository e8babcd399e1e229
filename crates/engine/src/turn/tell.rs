//! What a run has to tell others: the one that it calls, the one that called it, and people.

use semel_flow::release::CallStep;
use semel_flow::{Action, Step};
use semel_model::event::{Caller, Event};
use semel_model::request::{Emission, RunStart};
use semel_model::run::{EndState, State};
use semel_model::{EffectId, Fault, WaitId};
use serde::Serialize;
use serde_json::{Value, json};

use super::Turn;
use crate::calls::{Asked, CANCEL, END, Ended, START, called};

/// What begins the names of events that Semel itself emits.
const OWN: &str = "semel.";

/// A run failed.
pub(super) const FAILED: &str = "semel.run.failed";

/// A run is kept for a person.
pub(super) const PARKED: &str = "semel.run.parked";

impl Turn {
    /// Asks for a run of another flow, with the commit that says so.
    pub(super) fn perform_start(&mut self, effect: EffectId, start: RunStart) {
        let step = self.step();
        let Some((key, run)) = called(&self.release, self.run, step, &start.flow) else {
            unreachable!("an identity and a name are no longer than a key may be");
        };
        let name = step.id.to_string();
        let wait = start.wait.then(|| WaitId::derive(self.run, &name));
        let caller = wait.map(|wait| Caller {
            run: self.run,
            wait,
        });
        let asked = Asked {
            flow: start.flow,
            key: key.text(),
            input: start.input,
            caller,
        };
        self.tell(effect, START, &asked);
        self.observe(Event::Started {
            step: name,
            run,
            wait,
        });
    }

    /// Tells whoever waits for this run's end, and the run that it waits for itself.
    pub(super) fn tell_of_end(&mut self, state: EndState, result: &Value, fault: Option<&Fault>) {
        if state == EndState::Failed && self.state.part.is_none() {
            self.tell_of_trouble(FAILED, State::Failed, fault);
        }
        let number = u32::try_from(self.seq).unwrap_or_default();
        if let Some(caller) = self.state.caller {
            let run = self.run.to_string();
            let end = json!({ "run": run, "state": state, "result": result, "fault": fault });
            let effect = EffectId::derive(self.run, "", "end", number);
            self.tell(effect, END, &Ended { caller, end });
        }
        let step = self.state.step(&self.release.flow);
        if let Some((step, call)) = step.and_then(as_call)
            && self.state.is_waiting()
            && let Some((_, run)) = called(&self.release, self.run, step, &call.flow)
        {
            let effect = EffectId::derive(self.run, "", "cancel", number);
            self.tell(effect, CANCEL, &json!({ "run": run }));
        }
    }

    /// Tells people of a run that failed or is kept for them: an event that flows and subscriptions
    /// take like any other. A flow that takes these itself tells nobody of its own trouble, or one
    /// failure would never end.
    pub(super) fn tell_of_trouble(&mut self, event: &str, state: State, fault: Option<&Fault>) {
        let flow = &self.release.flow;
        let takes = flow.trigger.event.as_ref();
        if takes.is_some_and(|takes| takes.name.starts_with(OWN)) {
            return;
        }
        if event == PARKED && semel_model::SeededBug::ParkedUntold.is_seeded() {
            return;
        }
        let data = json!({
            "run": self.run.to_string(),
            "flow": flow.name.as_str(),
            "key": self.key.text(),
            "state": state.as_str(),
            "code": fault.map(|fault| fault.code.clone()),
            "message": fault.map(|fault| fault.message.clone()),
            "parent": self.state.part.as_ref().map(|part| part.parent.to_string()),
        });
        let number = u32::try_from(self.seq).unwrap_or_default();
        let effect = EffectId::derive(self.run, "", event, number);
        self.tell(effect, event, &data);
    }

    fn tell(&mut self, effect: EffectId, event: &str, data: &impl Serialize) {
        let Ok(data) = serde_json::to_value(data) else {
            unreachable!("what runs tell each other is plain data");
        };
        let event = event.to_owned();
        self.notes.emit(effect, Emission { event, data });
    }
}

fn as_call(step: &Step) -> Option<(&Step, &CallStep)> {
    if let Action::Call(call) = &step.action {
        return Some((step, call));
    }
    None
}
