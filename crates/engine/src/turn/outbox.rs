//! Effects that are messages in the outbox: the request for a run of another flow.
//!
//! What events announce by themselves is said in [`crate::event`].

use semel_model::event::{Caller, Event};
use semel_model::request::RunStart;
use semel_model::{EffectId, RunId, WaitId};

use super::{Turn, TurnError};
use crate::call::{CallAgain, CallRequest, START, called};
use crate::event::message;

impl Turn {
    /// Requests a run of another flow, in the commit that records the request.
    pub(super) fn perform_start(
        &mut self,
        effect: EffectId,
        start: RunStart,
    ) -> Result<(), TurnError> {
        let step = self.step();
        let Some((key, claim)) = called(&self.release, self.state.first(), step, &start.flow)
        else {
            unreachable!("an identity and a name are no longer than a key may be");
        };
        let name = step.id.to_string();
        let wait = start
            .wait
            .then(|| WaitId::derive(self.state.first(), &name));
        let caller = wait.map(|wait| Caller {
            run: self.run,
            wait,
        });
        // What answered the call before this one was loaded with the run.
        self.answers.retain(|(answered, _)| Some(*answered) != wait);
        let asked = CallRequest {
            flow: start.flow,
            key: key.text(),
            input: start.input,
            caller,
            claim,
            again: self.call_again(&name),
        };
        self.pending.announce(message(effect, START, &asked));
        self.record(Event::Started {
            step: name,
            run: RunId::derive(claim, 0),
            wait,
        })
    }

    /// How the run that a step called before is resumed, where it did.
    fn call_again(&self, step: &str) -> Option<CallAgain> {
        let again = self.state.generation(step) > 0 || self.state.earlier.is_some();
        again.then(|| CallAgain {
            by: self.state.resumed_by.clone(),
            asks_again: self.state.asks_again,
        })
    }
}
