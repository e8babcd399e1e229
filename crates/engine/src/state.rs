//! Folding: from a run's journal to what is true of it now.
//!
//! Everything that deciding needs is in [`FoldedRun`], and everything in it comes from events:
//! [`crate::event`] says what each of them changes. The same journal gives the same state on any
//! worker, at any time. An event that does not fit the state before it is an error.

mod approving;
mod child;
mod clocks;
mod earlier;
mod fingerprint;
mod name_undo;
mod named;
mod past_ledger;
mod pending_effect;
mod reading;

pub use approving::Approving;
pub(crate) use approving::approved;
pub use child::{ChildPosition, EnclosingRun, Fan};
pub use earlier::EarlierRuns;
pub use fingerprint::fingerprint;
pub(crate) use fingerprint::shown;
pub use name_undo::{NameUndo, UndoStanding};
pub use named::{NameHold, NameStanding, StepName};
pub use past_ledger::PastLedger;
pub(crate) use past_ledger::{APPROVAL, FOUND, KEPT, NAMED, UNDO, WAIT};
pub use pending_effect::PendingEffect;
pub use reading::Reading;

use std::collections::BTreeMap;

use jiff::Timestamp;
use semel_flow::{Flow, Step};
use semel_model::event::{Caller, Event, OperatorStep};
use semel_model::{
    EffectId, Fault, PastEffect, PastOutcome, RunId, SeededBug, WaitId, effect as ledger, gate,
};
use serde_json::{Map, Value, json};

use crate::memory::value_bytes;

/// What is true of a run.
#[derive(Clone, Debug)]
pub struct FoldedRun {
    /// The run.
    pub run: RunId,
    /// Whether its first event is known.
    pub begun: bool,
    /// The runs of its key before it, where it is not the first.
    pub earlier: Option<Box<EarlierRuns>>,
    /// What expressions see as `input`.
    pub input: Value,
    /// What expressions see as `headers`.
    pub headers: Value,
    /// What expressions see as `query`.
    pub query: Value,
    /// What expressions see as `trigger`.
    pub trigger: Value,
    /// What expressions see as `steps`: `{result, external_id, status}` by step.
    pub steps: Value,
    /// The steps that have a result in this run, in order; a child run knows more of them.
    pub gave: Vec<String>,
    /// Its place in its parent run, where it is a child run.
    pub child_of: Option<ChildPosition>,
    /// The run that waits for its end.
    pub caller: Option<Caller>,
    /// The place of the current step; nothing where none is left.
    pub cursor: Option<usize>,
    /// The state of that step.
    pub current: Current,
    /// Whether the run continues after it had ended.
    pub reopened: bool,
    /// How many times each step has asked people.
    pub rounds: BTreeMap<String, u32>,
    /// The names of effects, by step, where steps have business keys.
    pub names: BTreeMap<String, StepName>,
    /// Undos of effects with business keys, by the step that performed the effect.
    pub undos: BTreeMap<String, NameUndo>,
    /// How many times each step has called another flow.
    pub calls: BTreeMap<String, u32>,
    /// How many times an operator had each step's effect performed again.
    pub redone: BTreeMap<String, u32>,
    /// By how many generations each step's effect has left keys behind under which its destination
    /// keeps a refusal.
    pub renewed: BTreeMap<String, u32>,
    /// What an operator has done after the end of the run, and how the run had ended.
    pub operator_step: Option<Box<OperatorStep>>,
    /// Whether the run stands at a rejected approval.
    pub rejected: bool,
    /// Whether the operator who resumed the run last wants people to be asked again.
    pub asks_again: bool,
    /// The operator who resumed it last, where it was one and not a repeated delivery.
    pub resumed_by: Option<String>,
    /// The gates that admitted the run.
    pub admitted: Vec<gate::GateKind>,
    /// What the journal last said of a gate that the run waits at.
    pub held: Option<Event>,
    /// The places of done steps that can be undone, in order.
    pub done: Vec<usize>,
    /// Why the run undoes its effects, where it does.
    pub undoing: Option<Fault>,
    /// Who started the run, where that is known.
    pub started_by: Option<String>,
    /// When its last event was written, deferrals aside, where it has more than the first.
    pub touched_at: Option<Timestamp>,
    /// The end of the last pause that its deadlines were moved by.
    pub deferred_until: Option<Timestamp>,
    /// Whether the run is stopped until an operator acts.
    pub stopped: bool,
    /// Whether the run has ended.
    pub ended: bool,
}

/// The state of the current step.
#[derive(Clone, Debug)]
pub enum Current {
    /// Not begun.
    Fresh,
    /// A read that did not succeed yet.
    Reading(Reading),
    /// An effect that is not settled.
    Effect(Box<PendingEffect>),
    /// Waiting.
    Waiting {
        /// For this.
        wait: WaitId,
        /// Until then, at the latest.
        until: Option<Timestamp>,
    },
    /// Its child runs are running.
    Fan(Fan),
    /// People are asked.
    Approving(Box<Approving>),
    /// It cannot be carried out.
    Broken(Fault),
}

impl Current {
    /// How many attempts at the current read have failed, and since when; none before `at`, where
    /// there is no such read.
    pub(crate) fn reads_so_far(&self, at: Timestamp) -> (u32, Timestamp) {
        match self {
            Self::Reading(reading) => (reading.attempts, reading.since),
            Self::Fresh
            | Self::Effect(_)
            | Self::Waiting { .. }
            | Self::Fan(_)
            | Self::Approving(_)
            | Self::Broken(_) => (0, at),
        }
    }
}

/// An event that does not fit the state of its run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{event}` does not fit a run that {state}")]
pub struct Misfit {
    /// The event's name.
    pub event: &'static str,
    /// What the run does instead, in words.
    pub state: String,
}

impl Misfit {
    /// The same, found at a row of the journal.
    #[must_use]
    pub fn at(self, seq: i32) -> FoldError {
        let Self { event, state } = self;
        FoldError { seq, event, state }
    }
}

/// A journal whose events do not follow on each other: Semel did not write it, or has a bug.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("row {seq} of the journal: `{event}` does not fit a run that {state}")]
pub struct FoldError {
    /// The row.
    pub seq: i32,
    /// The event's name.
    pub event: &'static str,
    /// What the run does instead, in words.
    pub state: String,
}

/// What an event says when it does not fit; [`crate::event::apply`] adds which, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unfit;

impl FoldedRun {
    /// A run of which nothing is known yet.
    pub fn new(run: RunId) -> Self {
        Self {
            run,
            begun: false,
            earlier: None,
            input: Value::Null,
            headers: Value::Null,
            query: Value::Null,
            trigger: Value::Null,
            steps: Value::Object(Map::new()),
            gave: Vec::new(),
            child_of: None,
            caller: None,
            cursor: Some(0),
            current: Current::Fresh,
            reopened: false,
            rounds: BTreeMap::new(),
            names: BTreeMap::new(),
            undos: BTreeMap::new(),
            calls: BTreeMap::new(),
            redone: BTreeMap::new(),
            renewed: BTreeMap::new(),
            operator_step: None,
            rejected: false,
            asks_again: false,
            resumed_by: None,
            admitted: Vec::new(),
            held: None,
            done: Vec::new(),
            undoing: None,
            started_by: None,
            touched_at: None,
            deferred_until: None,
            stopped: false,
            ended: false,
        }
    }

    /// Whether it waits for something that comes from outside, or for time.
    pub fn is_waiting(&self) -> bool {
        matches!(self.current, Current::Waiting { .. })
    }

    /// The current step.
    pub fn step<'f>(&self, flow: &'f Flow) -> Option<&'f Step> {
        flow.steps.get(self.cursor?)
    }

    /// The effect of the current step, where it has one.
    pub fn effect(&self) -> Option<&PendingEffect> {
        match &self.current {
            Current::Effect(pending) => Some(pending),
            Current::Fresh
            | Current::Reading(_)
            | Current::Waiting { .. }
            | Current::Fan(_)
            | Current::Approving(_)
            | Current::Broken(_) => None,
        }
    }

    /// The first run of the key, or the child run at the same place of it: the keys of effects and
    /// the addresses of callbacks derive from it.
    pub fn first(&self) -> RunId {
        self.earlier.as_ref().map_or(self.run, |it| it.first)
    }

    /// What earlier runs of the key came to at a step.
    pub fn past(&self, step: &str) -> Option<&PastEffect> {
        self.earlier.as_ref()?.at(step)
    }

    /// The key of a step's effect, unless another request replaces one that failed.
    pub fn effect_id(&self, step: &str) -> EffectId {
        EffectId::derive(self.first(), step, "", self.generation(step))
    }

    /// The generation of a step's effect: 0, and one more each time that it was meant to happen
    /// again: it was undone, an operator redoes it, the key came back as a new intent, or a call of the step ended without
    /// success before its run was resumed, or its destination keeps a refusal under the key before.
    pub fn generation(&self, step: &str) -> u32 {
        // What undoes an effect belongs to that effect.
        let of = step.strip_suffix(UNDO).unwrap_or(step);
        let count = |counts: &BTreeMap<String, u32>| counts.get(of).copied().unwrap_or_default();
        let undoes = of != step;
        let own = self.renewed.get(step).filter(|_| undoes).copied();
        let again = count(&self.calls) + count(&self.redone) + count(&self.renewed);
        let again = again + own.unwrap_or_default();
        let Some(earlier) = &self.earlier else {
            return again;
        };
        let before = match earlier.at(of) {
            Some(past) if matches!(past.outcome, PastOutcome::Undone) => past.generation + 1,
            Some(past) => past.generation,
            None => earlier.intent,
        };
        // An undo may have left more keys behind than the effect that it undoes; where all of it counts as
        // undone, by a later intent or without its history, it may have happened under the last.
        let left = earlier.at(step).filter(|_| undoes);
        let left = left.map(|past| {
            let may_be_used = past.is_done() || matches!(past.outcome, PastOutcome::Undone);
            past.generation + u32::from(may_be_used)
        });
        before.max(left.unwrap_or_default()) + again
    }

    /// The run has begun and has not ended.
    pub(crate) fn must_be_live(&self) -> Result<(), Unfit> {
        fits(self.begun && !self.ended)
    }

    /// The run stands at this step.
    pub(crate) fn must_be_at(&self, flow: &Flow, step: &str) -> Result<(), Unfit> {
        self.must_be_live()?;
        let here = self.step(flow);
        fits(here.is_some_and(|here| here.id.as_str() == step))
    }

    /// The run stands at this step, which has no outcome yet: a read may be made again.
    pub(crate) fn must_be_new_at(&self, flow: &Flow, step: &str) -> Result<(), Unfit> {
        self.must_be_at(flow, step)?;
        fits(matches!(self.current, Current::Fresh | Current::Reading(_)))
    }

    /// Moves to the next step; backwards, where the run undoes its effects.
    pub(crate) fn next_step(&mut self, flow: &Flow) {
        self.cursor = match self.undoing {
            None if self.operator_step.is_some() => None,
            None => self.cursor.and_then(|place| flow.after(place)),
            Some(_) => self.next_undo(flow),
        };
        self.current = Current::Fresh;
        self.stopped = false;
    }

    /// The last done step that can be undone.
    fn next_undo(&mut self, flow: &Flow) -> Option<usize> {
        loop {
            let forward = SeededBug::UndoneInForwardOrder.is_seeded();
            let place = match forward && !self.done.is_empty() {
                true => self.done.remove(0),
                false => self.done.pop()?,
            };
            let undo = flow.steps.get(place).and_then(|step| step.undo);
            // Child runs undo their own effects.
            let inside = Some(place).filter(|place| flow.undoes_inside(*place));
            if let Some(next) = undo.or(inside) {
                return Some(next);
            }
        }
    }

    pub(crate) fn finish_step(
        &mut self,
        flow: &Flow,
        step: &str,
        result: Value,
        external_id: Option<&str>,
        status: Option<u16>,
    ) {
        if let Value::Object(steps) = &mut self.steps {
            let view = json!({ "result": result, "external_id": external_id, "status": status });
            steps.insert(step.to_owned(), view);
        }
        self.gave.push(step.to_owned());
        self.next_step(flow);
    }

    /// About how many bytes the results take that steps gave after so many others.
    pub(crate) fn given_bytes(&self, after: usize) -> usize {
        let given = self.gave.get(after..).unwrap_or_default();
        let results = given.iter().filter_map(|step| self.steps.get(step));
        results.map(value_bytes).sum()
    }

    /// The state of the run, in words that follow "a run that".
    pub(crate) fn in_words(&self, flow: &Flow) -> String {
        let what = match &self.current {
            _ if !self.begun => return "has not begun".to_owned(),
            _ if self.ended => return "has ended".to_owned(),
            Current::Fresh => "is about to begin a step",
            Current::Reading(_) => "retries a read",
            Current::Effect(pending) => match pending.entry.state() {
                ledger::EffectState::Pending => "has a pending effect",
                ledger::EffectState::Retrying => "retries an effect",
                ledger::EffectState::Done => "has a done effect",
                ledger::EffectState::Failed => "has a failed effect",
                ledger::EffectState::InDoubt => "has an effect in doubt",
            },
            Current::Waiting { .. } => "waits",
            Current::Fan(_) => "waits for child runs",
            Current::Approving(_) => "waits for an approval",
            Current::Broken(_) => "cannot carry its step out",
        };
        match self.step(flow) {
            Some(step) => format!("{what} at `{}`", step.id),
            None => format!("{what} after its last step"),
        }
    }
}

/// An event fits where this is true.
pub(crate) fn fits(fits: bool) -> Result<(), Unfit> {
    match fits {
        true => Ok(()),
        false => Err(Unfit),
    }
}
