//! What the script has the world do.

use std::time::Duration;

use jiff::Timestamp;
use semel_model::approval::ApprovalDecision as Verdict;
use semel_model::effect::{ConfirmedBy, LedgerEntry};
use semel_model::event::{ChildBegun, Event, ProbeFinding};
use semel_model::request::{LocalChange, StepRequest};
use semel_model::run::{EndState, StopReason};
use semel_model::{Doubt, Fault, FaultKind, Outcome, Receipt, RunId, WaitId, task};
use serde_json::{Value, json};
use uuid::Uuid;

mod names;

use super::Simulation;
use crate::decide::{NextAction, confirmed, settle_context};
use crate::event::{begin_child, expect_done};
use crate::external_result::ExternalResult;
use crate::settle;
use crate::state::Current;
use crate::vault::Destinations;

impl Simulation<'_> {
    /// Plays what the world does; false where the run rests for good.
    pub(super) fn play(&mut self, act: NextAction) -> bool {
        match act {
            NextAction::Perform(_) => self.perform(),
            NextAction::Change(change) => self.change(&change),
            NextAction::BeginNamed(asked) => return self.begin_named(*asked),
            NextAction::BeginUndo(_) => return self.begin_undo(),
            NextAction::Read(_) => self.read(),
            NextAction::ReadEntry(_) => self.compute(),
            NextAction::Probe(_) => self.probe(),
            NextAction::Look(_) => self.look(),
            NextAction::Sleep { until, .. } => return self.wake(until),
            NextAction::Pause(_) => unreachable!("nothing is paused"),
            NextAction::Fan => self.fan(),
            NextAction::CountMemory => {}
            NextAction::StopRun(reason, fault) => return self.park(reason, fault),
            NextAction::End(end) => return self.end(end),
        }
        true
    }

    fn step(&self) -> String {
        let step = self.state.step(self.flow);
        step.map_or_else(String::new, |step| step.id.to_string())
    }

    fn change(&mut self, change: &LocalChange) {
        let step = self.step();
        if matches!(change, LocalChange::Kv(_)) {
            let expected = expect_done(&self.state, self.flow, &step).effects;
            let known = &self.written.ledger;
            assert!(
                expected
                    .iter()
                    .all(|it| it.first != known.contains_key(&it.effect))
            );
        }
        if let LocalChange::Start(asked) = change {
            let run = RunId::from_uuid(Uuid::from_u128(9));
            let wait = asked
                .wait
                .then(|| WaitId::derive(self.state.first(), &step));
            self.answers.retain(|(answered, _)| Some(*answered) != wait);
            return self.record(Event::Started { step, run, wait });
        }
        self.perform();
    }

    fn perform(&mut self) {
        let outcome = match self.choose(6) {
            0 => Outcome::Done(Receipt::new(json!({ "status": 200 }), Some(200))),
            1 => Outcome::Failed(Fault::passing("http-503", "busy")),
            2 => Outcome::Failed(Fault::permanent("http-404", "no").of(FaultKind::Http(404))),
            3 => Outcome::InDoubt(Doubt::new("no-answer", "nothing came")),
            4 => Outcome::Failed(Fault::passing("destination-busy", "").of(FaultKind::HeldBack)),
            // The worker is lost: the next one finds the intent.
            _ => return,
        };
        let destinations = Destinations::default();
        let (flow, nothing) = (self.flow, Value::Null);
        let (Some(at), Some(pending)) = (self.state.step(flow), self.state.effect()) else {
            panic!("an attempt is made at a step");
        };
        let LedgerEntry::Pending(effect) = &pending.entry else {
            panic!("an attempt is made by its intent");
        };
        let context = self.context(flow, &destinations, &nothing);
        let settled = settle::settle(settle_context(&context, at, pending), effect, &outcome);
        let event = settled.unwrap_or_else(|| confirmed(at, &json!({}), ConfirmedBy::Answer));
        self.record(event);
    }

    fn compute(&mut self) {
        let step = self.step();
        self.record(Event::Computed {
            step,
            result: json!(1),
            status: None,
            usage: Value::Null,
        });
    }

    fn read(&mut self) {
        let step = self.step();
        let retry_at = Some(self.now + Duration::from_secs(1));
        let failed = |fault, retry_at| Event::ReadFailed {
            step: step.clone(),
            fault,
            retry_at,
        };
        let event = match self.choose(5) {
            0 => return self.compute(),
            1 => failed(Fault::passing("http-503", "busy"), retry_at),
            2 => failed(Fault::passing("http-503", "busy"), None),
            3 => failed(Fault::permanent("http-400", "no"), None),
            _ => Event::Broken {
                step: Some(step),
                fault: Fault::permanent("answer-too-deep", "deep"),
            },
        };
        self.record(event);
    }

    fn probe(&mut self) {
        let step = self.step();
        let later = self.now + Duration::from_secs(30);
        let fault = Fault::passing("http-503", "busy");
        let seen = match self.choose(5) {
            0 => return self.done_by(ConfirmedBy::Probe),
            1 => ProbeFinding::Absent,
            2 => ProbeFinding::AbsentSoFar {
                absent_from: later,
                next_at: later,
            },
            3 => ProbeFinding::Unclear {
                fault,
                retry_at: Some(later),
            },
            _ => ProbeFinding::Unclear {
                fault,
                retry_at: None,
            },
        };
        self.record(Event::Probed { step, seen });
    }

    fn look(&mut self) {
        let step = self.step();
        let fault = Fault::passing("http-503", "busy");
        match self.choose(4) {
            0 => {
                self.looked = self.state.cursor;
                let seen = ProbeFinding::Absent;
                self.record(Event::Probed { step, seen });
                // The worker is lost before its intent is committed: the next one looks again.
                if self.choose(3) == 1 {
                    self.looked = None;
                }
            }
            1 => self.done_by(ConfirmedBy::FoundBefore),
            2 => self.record(Event::ReadFailed {
                step,
                fault,
                retry_at: Some(self.now + Duration::from_secs(1)),
            }),
            _ => self.record(Event::ReadFailed {
                step,
                fault,
                retry_at: None,
            }),
        }
    }

    fn done_by(&mut self, by: ConfirmedBy) {
        let step = self.step();
        self.record(Event::Done {
            step,
            by,
            external_id: None,
            status: None,
            result: Value::Null,
        });
    }

    /// Time passes, something comes from outside, or an operator cancels.
    fn wake(&mut self, until: Option<Timestamp>) -> bool {
        let choice = self.choose(4);
        if let (Some(until), 1) = (until, choice) {
            self.now = self.now.max(until);
            return true;
        }
        if choice == 2 && !self.cancel {
            self.cancel = true;
            return true;
        }
        match &self.state.current {
            Current::Waiting { wait, .. } => {
                let state = if choice == 1 { "failed" } else { "succeeded" };
                let answer = json!({ "state": state, "result": 1 });
                self.answers.push((*wait, answer));
            }
            Current::Approving(_) => {
                self.outside = ExternalResult::Decision(Verdict {
                    approved: choice == 0,
                    by: "ada".to_owned(),
                    comment: None,
                    at: self.now,
                });
            }
            Current::Effect(pending) if matches!(pending.request, StepRequest::Task(_)) => {
                let attempt = i32::try_from(pending.entry.attempt()).unwrap();
                self.outside = ExternalResult::Task(self.seen_task(choice, attempt));
            }
            Current::Effect(_)
            | Current::Fresh
            | Current::Reading(_)
            | Current::Fan(_)
            | Current::Broken(_) => {}
        }
        match until {
            Some(until) => self.now = self.now.max(until),
            None if choice == 3 => return false,
            None => {}
        }
        true
    }

    fn seen_task(&self, choice: u8, attempt: i32) -> semel_store::tasks::TaskSnapshot {
        semel_store::tasks::TaskSnapshot {
            state: match choice {
                0 => task::TaskState::Done,
                1 => task::TaskState::Lost,
                2 => task::TaskState::Open,
                _ => task::TaskState::Failed,
            },
            attempt,
            answer: None,
        }
    }

    fn fan(&mut self) {
        let Current::Fan(fan) = &self.state.current else {
            panic!("only a step with child runs has them");
        };
        let (step, loaded) = (self.step(), fan.count.is_some());
        let stopped = fan.stopped.is_some();
        let event = match self.choose(4) {
            0 if !loaded => self.load(step),
            1 if !loaded && self.state.undoing.is_none() => Event::Broken {
                step: Some(step),
                fault: Fault::permanent("items-not-a-list", "no list"),
            },
            _ if !loaded => self.load(step),
            1 if !stopped => Event::FanStopped {
                step,
                cancels: false,
                fault: None,
            },
            2 if self.state.undoing.is_none() => Event::FanEnded {
                step,
                result: Value::Null,
                joined: Value::Null,
                fault: Some(Fault::permanent("item-failed", "one")),
            },
            _ => Event::FanEnded {
                step,
                result: json!({ "count": 2 }),
                joined: json!({ "runtime": { "result": 1 } }),
                fault: None,
            },
        };
        self.record(event);
    }

    /// All child runs are recorded; the rest of the script plays the first of them.
    fn load(&mut self, step: String) -> Event {
        let begun = Event::Begun(ChildBegun {
            parent: self.state.run,
            partition_date: jiff::civil::date(2026, 1, 1),
            seq: 1,
            step: step.clone(),
            index: 0,
            item: json!("a"),
            first: None,
            last: None,
        });
        let run = self.state.run.child(&step, "a");
        let child = begin_child(run, &self.state, begun, self.flow).unwrap();
        let script: Vec<u8> = self.script.clone().skip(3).collect();
        let mut played = Self::at(self.flow, child.clone(), script);
        played.origin = Some(child);
        played.go();
        played.take_back();
        Event::FanLoaded {
            step,
            count: 2,
            repeats: 0,
        }
    }

    /// A child that succeeded undoes its effects, because its parent does.
    fn take_back(&mut self) {
        let end = self.written.journal.last().map(|(_, event)| event.clone());
        if let Some(Event::Ended { state, .. }) = end
            && state == EndState::Succeeded
            && self.state.undoing.is_none()
        {
            let fault = Fault::permanent("enough", "no");
            self.record(Event::Undoing { fault });
            self.go();
        }
    }

    /// An operator acts on a stopped run, or does not.
    fn park(&mut self, reason: StopReason, fault: Fault) -> bool {
        if !self.state.stopped {
            self.record(Event::Stopped { reason, fault });
        }
        let step = self.step();
        match (reason, self.choose(6)) {
            (_, 5) => return false,
            (_, 4) if !self.cancel => self.cancel = true,
            (StopReason::InDoubt, 0) => self.record(Event::Licensed {
                step,
                reason: "looked".to_owned(),
            }),
            (StopReason::InDoubt, 1) => self.done_by(ConfirmedBy::Operator),
            (StopReason::InDoubt, 2) => {
                let id = self.state.effect().map(|pending| pending.entry.id());
                self.late_responses
                    .extend(id.map(|id| (id, json!({ "status": 200 }))));
            }
            (StopReason::InDoubt, _) => self.record(Event::Failed {
                step,
                fault: Fault::permanent("failed-by-person", "enough"),
                retry_at: None,
            }),
            (StopReason::NeedsReview | StopReason::Quarantined, _) => self.resume(true),
        }
        true
    }

    fn resume(&mut self, by_operator: bool) {
        self.now += Duration::from_secs(60);
        let asks_again = by_operator && self.choose(2) == 1;
        self.record(Event::Resumed {
            reason: "again".to_owned(),
            by: by_operator.then(|| "ada".to_owned()),
            asks_again,
        });
    }

    fn end(&mut self, end: Event) -> bool {
        let failed = matches!(
            end,
            Event::Ended {
                state: EndState::Failed,
                ..
            }
        );
        self.record(end);
        match self.choose(4) {
            1 if failed => self.resume(true),
            2 if failed => self.resume(false),
            _ => return false,
        }
        self.cancel = false;
        self.outside = ExternalResult::Nothing;
        true
    }
}
