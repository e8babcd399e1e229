//! Going on: after a person let the run, and where a wait ran out.

use jiff::Timestamp;
use semel_flow::release::Wait;
use semel_flow::{Action, Step};
use semel_model::effect::Entry;
use serde_json::Value;

use super::{Current, RunState};

impl RunState {
    /// A person lets the run go on: what had given up or failed may be tried again at once. A
    /// doubt that was given up becomes one again ([`crate::settle::doubted_again`]). A rejection
    /// stands, unless people are to be asked again.
    pub(super) fn resumed(&mut self, by: Option<&str>, asks_again: bool, at: Timestamp) {
        self.parked = false;
        self.asks_again = asks_again;
        self.resumed_by = by.map(str::to_owned);
        if std::mem::take(&mut self.ended) {
            // It left its gates by its end.
            self.admitted.clear();
            self.held = None;
            self.reopened = true;
        }
        match &mut self.current {
            Current::Effect(standing) => {
                standing.retry_at = Some(at);
                if let Entry::Failed(effect) = &standing.entry {
                    // What an operator gave up stays so where no operator resumes it.
                    if by.is_some() || standing.given_up.is_none() {
                        standing.entry = Entry::Retrying(effect.clone().reopened());
                    }
                }
            }
            Current::Reading(reading) => {
                reading.retry_at = Some(at);
                reading.attempts = 0;
                reading.since = at;
            }
            Current::Broken(_) if self.rejected && !asks_again => {}
            Current::Broken(_) => {
                self.current = Current::Fresh;
                self.rejected = false;
            }
            Current::Fan(fan) => fan.stopped = None,
            Current::Fresh | Current::Waiting { .. } | Current::Approving(_) => {}
        }
    }
}

impl RunState {
    /// A person corrects what a person said that an effect gave.
    pub(super) fn amended(&mut self, step: &str, external_id: Option<&str>, result: &Value) {
        let known = &mut self.steps[step];
        known["result"] = result.clone();
        if let Some(external_id) = external_id {
            known["external_id"] = external_id.into();
        }
    }
}

/// Whether a run goes on where a wait of this step ran out.
pub(super) fn goes_on(step: &Step) -> bool {
    matches!(
        &step.action,
        Action::Wait(Wait::Callback { goes_on: true, .. } | Wait::Event { goes_on: true, .. })
    )
}
