//! Notes: what happened in a turn since its last write.

use jiff::Timestamp;
use semel_flow::{Flow, Step};
use semel_model::effect;
use semel_model::event::{Event, Plan, Seen, WaitEnd};
use semel_model::kv::Operation;
use semel_model::request::Emission;
use semel_model::run::{Reason, State};
use semel_model::storable::without_zero;
use semel_model::{EffectId, Fault, GateId, Guard, RunId, WaitId};
use semel_store::approvals::ApprovalChange;
use semel_store::audit::Act;
use semel_store::journal::{EffectChange, RecordChange, WaitChange};
use semel_store::kv::Write;
use semel_store::outbox::Emitted;
use semel_store::tasks::TaskChange;

mod outside;
mod points;
mod transition;
mod words;

pub(super) use transition::Identity;

use words::{is_callback, to_text, topic};

use super::end_state;
use crate::fold::{Current, RunState};

/// What happened since the last write.
#[derive(Default)]
pub(super) struct Notes {
    events: Vec<Event>,
    effects: Vec<EffectChange>,
    waits: Vec<WaitChange>,
    tasks: Vec<TaskChange>,
    approvals: Vec<ApprovalChange>,
    kv: Option<Write>,
    emitted: Vec<Emitted>,
    departs: Vec<GateId>,
    record: Option<RecordChange>,
    acts: Vec<Act>,
    /// Whether the write itself will make an event.
    expects_event: bool,
    /// The effect that events speak of.
    current: Option<Followed>,
}

/// An effect, and what the ledger says of it.
#[derive(Clone, Copy)]
struct Followed {
    effect: EffectId,
    guard: Guard,
    attempt: u32,
    state: effect::State,
    /// Whether the ledger has a row of it.
    has_row: bool,
}

/// An attempt that was made and whose outcome is not on record yet.
pub(super) struct Sent {
    pub(super) step: String,
    pub(super) effect: EffectId,
    pub(super) guard: Guard,
    pub(super) attempt: u32,
}

impl Notes {
    /// Nothing but an attempt whose outcome is not on record.
    pub(super) fn of_attempt(sent: Option<&Sent>) -> Self {
        let current = sent.map(|sent| Followed {
            effect: sent.effect,
            guard: sent.guard,
            attempt: sent.attempt,
            state: effect::State::Pending,
            has_row: true,
        });
        Self {
            current,
            ..Self::default()
        }
    }

    /// Takes over which effect the run stands at.
    pub(super) fn follow(&mut self, flow: &Flow, state: &RunState) {
        if let Current::Effect(standing) = &state.current {
            let (attempt, state_now) = (standing.entry.attempt(), standing.entry.state());
            let is_first = attempt == 1 && state_now == effect::State::Pending;
            self.current = Some(Followed {
                effect: standing.entry.id(),
                guard: standing.entry.guard(),
                attempt,
                state: state_now,
                has_row: !(is_first && state.step(flow).is_some_and(Step::commits_here)),
            });
        }
    }

    /// The events of an opening, and the entry of the ledger that it makes. Nothing where it makes
    /// more than that.
    pub(super) fn take_opening(&mut self) -> Option<(Vec<Event>, Option<EffectChange>)> {
        let more = self.kv.is_some() || self.record.is_some() || !self.emitted.is_empty();
        if more || !self.waits.is_empty() || !self.tasks.is_empty() || !self.approvals.is_empty() {
            return None;
        }
        let effect = match self.effects.len() {
            0 | 1 => self.effects.pop(),
            _ => return None,
        };
        Some((std::mem::take(&mut self.events), effect))
    }

    /// Notes that a wait is left open by a run that ends.
    pub(super) fn cancel_wait(&mut self, wait: WaitId) {
        self.waits.push(WaitChange::Cancel { wait });
    }

    /// Notes what a person did, to be recorded with the next write.
    pub(super) fn act(&mut self, act: Act) {
        self.acts.push(act);
    }

    /// Notes that a run leaves its gates by its end.
    pub(super) fn depart(&mut self, gates: impl Iterator<Item = GateId>) {
        self.departs.extend(gates);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty() && self.kv.is_none()
    }

    /// Whether something is noted that a crash must not lose: more than values that can be
    /// worked out again.
    pub(super) fn must_be_written(&self) -> bool {
        let pure = |event: &Event| {
            matches!(
                event,
                Event::Computed { .. } | Event::Skipped { .. } | Event::Admitted { .. }
            )
        };
        self.kv.is_some() || !self.events.iter().all(pure)
    }

    /// Notes an event, and what it makes of ledger, waits and record.
    pub(super) fn add(&mut self, flow: &Flow, run: RunId, event: Event) {
        self.ask_outside(flow, run, &event);
        match &event {
            Event::Intended {
                step,
                effect,
                attempt,
                guard,
                ..
            } => {
                let known = self.current.filter(|known| known.effect == *effect);
                let has_row = known.is_some_and(|known| known.has_row);
                let said = flow.find_step(step).and_then(Step::guard);
                let guard = known.map(|known| known.guard).or(*guard).or(said);
                self.current = Some(Followed {
                    effect: *effect,
                    guard: guard.unwrap_or(Guard::Review),
                    attempt: *attempt,
                    state: effect::State::Pending,
                    has_row,
                });
                // What commits with its own outcome is never seen pending: its row comes with that.
                if has_row || !flow.find_step(step).is_some_and(Step::commits_here) {
                    self.change(flow, step, None, None);
                }
            }
            Event::Done {
                step, external_id, ..
            } => {
                self.settle(effect::State::Done);
                self.change(flow, step, external_id.clone(), None);
            }
            Event::Failed { step, fault, .. } => {
                let pending = self
                    .current
                    .is_some_and(|known| known.state == effect::State::Pending);
                let retrying = pending && fault.retryable;
                self.settle(if retrying {
                    effect::State::Retrying
                } else {
                    effect::State::Failed
                });
                self.change(flow, step, None, Some(fault.message.clone()));
            }
            Event::Doubted { step, doubt, plan } => {
                self.settle(effect::State::InDoubt);
                let how = match plan {
                    Plan::Repeat { .. } => "to be repeated".to_owned(),
                    Plan::Probe {
                        absent_from: Some(from),
                        ..
                    } => format!("to be probed; absent is believed from {from}"),
                    Plan::Probe {
                        absent_from: None, ..
                    } => "to be probed".to_owned(),
                    Plan::Review => "for a person".to_owned(),
                };
                self.change(flow, step, None, Some(format!("{} ({how})", doubt.message)));
            }
            Event::Probed {
                step,
                seen:
                    Seen::Unclear {
                        fault,
                        retry_at: None,
                    },
            } => {
                let note = format!("the probe failed: {} (for a person)", fault.message);
                self.change(flow, step, None, Some(note));
            }
            Event::WaitOpened {
                step,
                wait,
                until,
                about,
            } if is_callback(flow, step) => {
                self.waits.push(WaitChange::Open {
                    wait: *wait,
                    step: step.clone(),
                    until: *until,
                    topic: topic(flow, step, about.as_ref()),
                });
            }
            Event::WaitEnded {
                step,
                how: WaitEnd::TimedOut,
            } => {
                let wait = WaitId::derive(run, step);
                self.waits.push(WaitChange::Elapse { wait });
            }
            Event::Ended {
                state,
                result,
                fault,
            } => {
                self.record = Some(RecordChange {
                    state: end_state(*state),
                    result: (!result.is_null()).then(|| result.to_string()),
                    fault: fault.as_ref().map(to_text),
                });
            }
            Event::Started { step, run, wait } => {
                self.settle(effect::State::Done);
                self.change(flow, step, Some(run.to_string()), None);
                if let Some(wait) = wait {
                    let (wait, step) = (*wait, step.clone());
                    let (until, topic) = (None, None);
                    self.waits.push(WaitChange::Open {
                        wait,
                        step,
                        until,
                        topic,
                    });
                }
            }
            Event::Accepted { .. }
            | Event::Held { .. }
            | Event::Admitted { .. }
            | Event::Joined { .. }
            | Event::Begun { .. }
            | Event::Switched { .. }
            | Event::FanOpened { .. }
            | Event::FanLoaded { .. }
            | Event::FanStopped { .. }
            | Event::FanEnded { .. }
            | Event::Undoing { .. }
            | Event::Computed { .. }
            | Event::ReadFailed { .. }
            | Event::Skipped { .. }
            | Event::Broken { .. }
            | Event::Probed { .. }
            | Event::Licensed { .. }
            | Event::WaitOpened { .. }
            | Event::WaitEnded { .. }
            | Event::ApprovalOpened { .. }
            | Event::ApprovalTold { .. }
            | Event::ApprovalDecided { .. }
            | Event::ApprovalElapsed { .. }
            | Event::Parked { .. }
            | Event::Resumed { .. }
            | Event::Amended { .. } => {}
        }
        self.events.push(event);
    }

    /// Notes that a shared entry is written with the next write.
    pub(super) fn write_entry(
        &mut self,
        step: String,
        operation: Operation,
        retry_at: Option<Timestamp>,
    ) {
        assert!(self.kv.is_none(), "one entry is written per commit");
        self.kv = Some(Write {
            step,
            operation,
            retry_at,
        });
    }

    /// Notes that an event goes out with the next write.
    pub(super) fn emit(&mut self, effect: EffectId, emission: Emission) {
        self.emitted.push(Emitted { effect, emission });
    }

    /// Notes that the next write will make the event that settles the current effect.
    pub(super) fn expect_done(&mut self, _: RunId) {
        self.expects_event = true;
        self.settle(effect::State::Done);
        if let (Some(known), Some(write)) = (&mut self.current, &self.kv) {
            self.effects.push(EffectChange {
                effect: known.effect,
                step: write.step.clone(),
                kind: "kv",
                guard: Guard::Transaction,
                state: known.state,
                attempt: known.attempt,
                first: !std::mem::replace(&mut known.has_row, true),
                external_id: None,
                note: None,
            });
        }
    }

    /// Whether the write that was just made should have made an event.
    pub(super) fn take_expectation(&mut self) -> bool {
        std::mem::take(&mut self.expects_event)
    }

    /// Notes that the record shall say that the run is kept for a person.
    pub(super) fn park(&mut self, reason: Reason, fault: &Fault) {
        self.record = Some(RecordChange {
            state: reason.into(),
            result: None,
            fault: Some(to_text(fault)),
        });
    }

    /// Notes that the record shall say that the run goes on.
    pub(super) fn unpark(&mut self) {
        self.record.get_or_insert(RecordChange {
            state: State::Active,
            result: None,
            fault: None,
        });
    }

    fn settle(&mut self, state: effect::State) {
        if let Some(known) = &mut self.current {
            known.state = state;
        }
    }

    /// Notes what the ledger says of the current effect; the last word of a write counts.
    fn change(
        &mut self,
        flow: &Flow,
        step: &str,
        external_id: Option<String>,
        note: Option<String>,
    ) {
        let Some(known) = &mut self.current else {
            return;
        };
        let first = !std::mem::replace(&mut known.has_row, true);
        let Followed {
            effect,
            guard,
            attempt,
            state,
            ..
        } = *known;
        let kind = flow.find_step(step).map_or("http", Step::kind);
        let change = EffectChange {
            effect,
            step: step.to_owned(),
            kind,
            guard,
            state,
            attempt,
            first,
            external_id,
            note: note.map(|note| without_zero(&note).into_owned()),
        };
        match self.effects.iter_mut().find(|it| it.effect == effect) {
            Some(earlier) => {
                let first = earlier.first || change.first;
                *earlier = EffectChange { first, ..change };
            }
            None => self.effects.push(change),
        }
    }
}
