//! What a run did, as later runs of its key read it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::civil::Date;
use semel_model::approval::ApprovalRequest;
use semel_model::effect::ConfirmedBy;
use semel_model::event::{Event, ProbeFinding, WaitEnd};
use semel_model::{Fault, PastEffect, PastOutcome, PastResult, RunId};
use serde_json::Value;

use super::fingerprint::fingerprint;

mod answers;
mod met;
mod open_effect;

use met::AskedName;
use open_effect::OpenEffect;

/// What a run did, gathered from its journal without its flow, which may have changed since.
#[derive(Debug)]
pub struct PastLedger {
    run: RunId,
    intent: u32,
    /// The first run of its key, or the child run at its place of that, where it is not the first itself.
    first: Option<RunId>,
    /// The run that it is a child run of, and the partition of that one's journal.
    parent: Option<(RunId, Date)>,
    /// The run that it follows, until what that one did is known.
    follows: Option<RunId>,
    /// The runs before it, the latest first.
    runs: Vec<RunId>,
    effects: BTreeMap<String, PastEffect>,
    /// Effects that are not settled, by step.
    open: BTreeMap<String, OpenEffect>,
    /// Effects that failed, by step: a run that is resumed may try them again.
    closed: BTreeMap<String, OpenEffect>,
    /// What steps gave that change nothing.
    results: BTreeMap<String, PastResult>,
    /// What people were asked, by step: they may be asked again.
    asked: BTreeMap<String, Box<ApprovalRequest>>,
    /// The business keys that were asked for, by step.
    names: BTreeMap<String, AskedName>,
}

impl PastLedger {
    /// A run of which nothing is known yet.
    pub fn new(run: RunId) -> Self {
        Self {
            run,
            intent: 0,
            first: None,
            parent: None,
            follows: None,
            runs: Vec::new(),
            effects: BTreeMap::new(),
            open: BTreeMap::new(),
            closed: BTreeMap::new(),
            results: BTreeMap::new(),
            asked: BTreeMap::new(),
            names: BTreeMap::new(),
        }
    }

    /// The run before this one, where this one ended before it had read what that one did.
    pub fn unread(&self) -> Option<RunId> {
        self.follows
    }

    /// The run that it is a child run of, whose key says under which intent both ran.
    pub fn parent(&self) -> Option<(RunId, Date)> {
        self.parent
    }

    /// What it did was done under this intent of the key.
    pub fn set_intent(&mut self, intent: u32) {
        self.intent = intent;
    }

    /// The first run of its key and the later of two intents, where it ended before it had read what the
    /// run before it did.
    pub fn unread_since(&self, intent: u32) -> Option<(RunId, u32)> {
        self.follows?;
        Some((self.first?, intent.max(self.intent)))
    }

    /// Takes in what is kept of runs before this one whose history is gone.
    pub fn remember(&mut self, kept: Vec<PastEffect>) {
        for past in kept {
            self.effects.entry(past.step.clone()).or_insert(past);
        }
    }

    /// Takes in what the run before this one did, which this one did not come to read.
    pub fn follow(&mut self, before: Self) {
        let at = Timestamp::UNIX_EPOCH;
        self.read(before.inherited(self.intent, |_| true), at);
    }

    /// Takes in the next event of the run's journal, written at `at`.
    pub fn read(&mut self, event: Event, at: Timestamp) {
        match event {
            Event::Follows(followed) => {
                self.intent = followed.intent;
                self.first = Some(followed.first);
                self.follows = Some(followed.last);
            }
            Event::Begun(begun) => {
                self.first = begun.first;
                self.parent = Some((begun.parent, begun.partition_date));
                self.follows = begun.last;
            }
            Event::Inherited {
                runs,
                effects,
                results,
            } => {
                self.follows = None;
                self.runs = runs;
                let by_step = effects.into_iter().map(|it| (it.step.clone(), it));
                self.effects = by_step.collect();
                self.results = results
                    .into_iter()
                    .map(|it| (it.step.clone(), it))
                    .collect();
            }
            Event::Intended { .. } => self.intended(event, at),
            Event::Doubted { step, doubt, .. } => {
                self.reopen(&step);
                if let Some(open) = self.open.get_mut(&step) {
                    open.doubt = Some(doubt.settled_by);
                    open.is_doubted = true;
                    open.was_doubted = true;
                }
            }
            Event::Probed {
                step,
                seen: ProbeFinding::Absent,
            } => self.did_not_happen(&step),
            Event::Named { step, named } => self.named(step, named),
            Event::TakenOver { step, .. } => self.taken_over(step),
            Event::Failed {
                step,
                fault,
                retry_at,
            } => match retry_at {
                None => self.failed(&step, fault),
                Some(_) => self.is_tried_again(&step),
            },
            Event::Done {
                step,
                by: ConfirmedBy::FoundBefore,
                external_id,
                status,
                result,
            } => self.found(step, external_id, status, result),
            Event::Done {
                step,
                external_id,
                status,
                result,
                ..
            } => self.done(&step, external_id, status, result),
            Event::WaitEnded {
                step,
                how: WaitEnd::Answered { payload },
            } => self.answered(step, payload),
            Event::Computed {
                step,
                result,
                status,
                ..
            } => self.gave(step, result, status),
            Event::WaitEnded {
                step,
                how: WaitEnd::Elapsed,
            } => self.gave(step, Value::Null, None),
            Event::ApprovalOpened { step, asked, .. } => drop(self.asked.insert(step, asked)),
            Event::ApprovalDecided { step, decision } => self.decided(step, &decision),
            Event::Broken {
                step: Some(step),
                fault,
            } => self.failed(&step, fault),
            Event::Amended(amended) => {
                self.amended(&amended.step, amended.external_id, amended.result);
            }
            Event::Accepted { .. }
            | Event::Reused { .. }
            | Event::Switched { .. }
            | Event::FanOpened { .. }
            | Event::FanLoaded { .. }
            | Event::FanStopped { .. }
            | Event::FanEnded { .. }
            | Event::Started { .. }
            | Event::Undoing { .. }
            | Event::GateWaiting(_)
            | Event::Admitted { .. }
            | Event::Joined { .. }
            | Event::ReadFailed { .. }
            | Event::Skipped { .. }
            | Event::Broken { .. }
            | Event::Probed { .. }
            | Event::Licensed { .. }
            | Event::WaitOpened { .. }
            | Event::WaitEnded { .. }
            | Event::ApprovalTold { .. }
            | Event::ApprovalElapsed { .. }
            | Event::Stopped { .. }
            | Event::Resumed { .. }
            | Event::Deferred(_)
            | Event::OperatorStep(_)
            | Event::Ended { .. } => {}
        }
    }

    fn settle(&mut self, step: &str, open: &OpenEffect, outcome: PastOutcome) {
        let past = PastEffect {
            step: step.to_owned(),
            effect: open.effect,
            sent_as: open.sent_as,
            generation: open.generation,
            run: self.run,
            kind: open.request.kind().to_owned(),
            connection: open.request.connection().map(str::to_owned),
            fingerprint: fingerprint(&open.request),
            outcome,
        };
        let before = self.effects.get(step);
        let stays_done = before.is_some_and(PastEffect::is_done);
        if stays_done && matches!(past.outcome, PastOutcome::Failed { .. }) {
            // An operator had it performed again, and it was refused: what was done is done.
            return;
        }
        self.effects.insert(step.to_owned(), past);
    }

    fn done(
        &mut self,
        step: &str,
        external_id: Option<String>,
        status: Option<u16>,
        result: Value,
    ) {
        let Some(open) = self.open.remove(step) else {
            return;
        };
        let outcome = PastOutcome::Done {
            external_id,
            status,
            result,
        };
        self.settle(step, &open, outcome);
        if let Some(undone) = step.strip_suffix(UNDO)
            && let Some(past) = self.effects.get_mut(undone)
        {
            past.outcome = PastOutcome::Undone;
        }
    }

    /// It failed; after a doubt, because an operator said so, who need not know what happened.
    fn failed(&mut self, step: &str, fault: Fault) {
        let Some(mut open) = self.open.remove(step) else {
            return;
        };
        if !open.is_doubted {
            open.doubt = None;
        }
        self.close(step, &open, fault);
        self.closed.insert(step.to_owned(), open);
    }

    fn close(&mut self, step: &str, open: &OpenEffect, fault: Fault) {
        let outcome = match open.doubt {
            None => PastOutcome::Failed { fault },
            Some(settled_by) => PastOutcome::InDoubt {
                request: open.request.clone(),
                guard: open.guard,
                attempt: open.attempt,
                window: open.window,
                since: open.since,
                intended_at: open.intended_at,
                fault,
                settled_by,
            },
        };
        self.settle(step, open, outcome);
    }

    /// What the run came to at a step, as far as that is settled.
    pub fn at(&self, step: &str) -> Option<&PastEffect> {
        self.effects.get(step)
    }

    /// What a run that follows this one inherits; where the key came back as a new intent since,
    /// nothing of it counts as done. Of what steps gave that change nothing, it inherits what `keeps`
    /// says.
    pub fn inherited(mut self, intent: u32, keeps: impl Fn(&str) -> bool) -> Event {
        let open = std::mem::take(&mut self.open);
        for (step, open) in &open {
            let fault = Fault::passing("not-tried-again", "its run ended before the next attempt");
            self.close(step, open, fault);
        }
        let mut effects: Vec<PastEffect> = self.effects.into_values().collect();
        if intent > self.intent {
            effects.retain(|past| past.kind != WAIT && past.kind != APPROVAL);
            self.results.clear();
            for past in &mut effects {
                past.outcome = PastOutcome::Undone;
            }
        }
        let mut runs = vec![self.run];
        runs.append(&mut self.runs);
        let results = self.results.into_values();
        let results = results.filter(|it| keeps(&it.step)).collect();
        Event::Inherited {
            runs,
            effects,
            results,
        }
    }
}

/// How the step is called that undoes another.
pub(crate) const UNDO: &str = ".undo";

/// What a past effect is called that is no effect but an answered wait.
pub(crate) const WAIT: &str = "wait";

/// What a past effect is called that is no effect but a given approval.
pub(crate) const APPROVAL: &str = "approval";

/// What a past effect is called that another holder of its business key performed.
pub(crate) const NAMED: &str = "named";

/// What a past effect is called of which the generation is kept, and its history is gone.
pub(crate) const KEPT: &str = "kept";

/// What a past effect is called that was at its destination before anything was sent.
pub(crate) const FOUND: &str = "found";
