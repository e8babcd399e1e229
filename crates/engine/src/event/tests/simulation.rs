//! A run whose world is played by a script: what happens next is its next byte.

mod world;

use std::collections::HashMap;

use jiff::Timestamp;
use semel_flow::Flow;
use semel_model::effect::EffectState;
use semel_model::event::Event;
use semel_model::{EffectId, RunId, TriggerKind, WaitId};
use serde_json::{Value, json};
use uuid::Uuid;

use super::start;
use crate::decide::{DecideContext, Decision, NextAction, decide};
use crate::event::{Acceptance, Before, RowChanges, apply, begin, project};
use crate::external_result::ExternalResult;
use crate::landing::Landing;
use crate::pauses::RunPauses;
use crate::state::FoldedRun;
use crate::vault::Destinations;

/// How much a simulated run does at the most.
const ACTS_MAX: usize = 120;

/// What a run wrote.
pub(super) struct Written {
    pub(super) journal: Vec<(Timestamp, Event)>,
    pub(super) ledger: HashMap<EffectId, EffectState>,
}

pub(super) struct Simulation<'f> {
    flow: &'f Flow,
    /// The state that the run began with, where it is a child.
    origin: Option<FoldedRun>,
    state: FoldedRun,
    written: Written,
    now: Timestamp,
    script: std::vec::IntoIter<u8>,
    cancel: bool,
    answers: Vec<(WaitId, Value)>,
    late_responses: Vec<(EffectId, Value)>,
    outside: ExternalResult,
    /// The step at whose destination the turn has looked.
    looked: Option<usize>,
}

impl<'f> Simulation<'f> {
    pub(super) fn start(flow: &'f Flow, script: Vec<u8>) -> Self {
        let run = RunId::from_uuid(Uuid::from_u128(7));
        let input = json!({ "id": 1, "items": ["a", "b"] });
        let accepted = Event::Accepted {
            trigger: TriggerKind::Api,
            input: input.clone(),
            headers: Value::Null,
            query: Value::Null,
            caller: None,
            by: None,
            nominal: None,
        };
        let state = begin(
            run,
            Acceptance {
                trigger: TriggerKind::Api,
                input,
                headers: Value::Null,
                query: Value::Null,
                caller: None,
                by: None,
                nominal: None,
            },
        );
        let mut simulation = Self::at(flow, state, script);
        simulation.written.journal.push((start(), accepted));
        simulation
    }

    fn at(flow: &'f Flow, state: FoldedRun, script: Vec<u8>) -> Self {
        Self {
            flow,
            origin: None,
            state,
            written: Written {
                journal: Vec::new(),
                ledger: HashMap::new(),
            },
            now: start(),
            script: script.into_iter(),
            cancel: false,
            answers: Vec::new(),
            late_responses: Vec::new(),
            outside: ExternalResult::Nothing,
            looked: None,
        }
    }

    pub(super) fn written(self) -> Written {
        self.written
    }

    /// One of so many ways; the first where the script is over.
    fn choose(&mut self, ways: u8) -> u8 {
        self.script.next().unwrap_or_default() % ways
    }

    /// Continues until the run rests for good.
    pub(super) fn go(&mut self) {
        for _ in 0..ACTS_MAX {
            let act = self.decide();
            self.folds_to_the_same();
            if !self.play(act) {
                break;
            }
            self.folds_to_the_same();
        }
    }

    fn decide(&mut self) -> NextAction {
        let destinations = Destinations::default();
        let (flow, nothing) = (self.flow, Value::Null);
        let mut state = self.state.clone();
        let decision = decide(&mut state, &self.context(flow, &destinations, &nothing));
        self.state = state;
        let Decision {
            events,
            changes,
            act,
        } = decision.unwrap_or_else(|misfit| panic!("{misfit}: {:#?}", self.written.journal));
        self.land(changes);
        let at = self.now;
        self.written
            .journal
            .extend(events.into_iter().map(|event| (at, event)));
        act
    }

    fn context<'a>(
        &'a self,
        flow: &'a Flow,
        destinations: &'a Destinations,
        nothing: &'a Value,
    ) -> DecideContext<'a> {
        DecideContext {
            flow,
            destinations,
            run: nothing,
            waits: nothing,
            landing: Landing::default(),
            now: self.now,
            jitter: 0.5,
            cancel: self.cancel,
            answers: &self.answers,
            late_responses: &self.late_responses,
            outside: &self.outside,
            looked: self.looked,
            pauses: RunPauses::default(),
        }
    }

    /// Takes an event in, as a turn does.
    pub(super) fn record(&mut self, event: Event) {
        let before = Before::of(&self.state, self.flow);
        let applied = apply(&mut self.state, &event, self.flow, self.now);
        applied.unwrap_or_else(|misfit| panic!("{misfit}: {:#?}", self.written.journal));
        let changes = project(&before, &event, &self.state, self.flow);
        self.land(changes);
        self.written.journal.push((self.now, event));
    }

    /// The ledger has a row of an effect from its first change on, and not before.
    fn land(&mut self, changes: RowChanges) {
        for change in changes.effects {
            let known = self.written.ledger.insert(change.effect, change.state);
            assert_eq!(change.first, known.is_none(), "{change:?}");
        }
    }

    /// A worker that takes the run from here folds the same state, and the ledger agrees with it.
    fn folds_to_the_same(&self) {
        let mut folded = match &self.origin {
            Some(origin) => origin.clone(),
            None => FoldedRun::new(self.state.run),
        };
        for (at, event) in &self.written.journal {
            let applied = apply(&mut folded, event, self.flow, *at);
            applied.unwrap_or_else(|misfit| panic!("{misfit}: {:#?}", self.written.journal));
        }
        assert_eq!(format!("{folded:?}"), format!("{:?}", self.state));
        let snapshot = Before::of(&self.state, self.flow).effect;
        if let Some(known) = snapshot.filter(|known| known.has_row) {
            let row = self.written.ledger.get(&known.effect);
            let resumed = known.state == EffectState::Retrying;
            assert!(row == Some(&known.state) || resumed, "{known:?}: {row:?}");
        }
    }
}
