//! A batch of transitions, turned on its side: one array per column of each statement.

use std::borrow::Cow;
use std::collections::HashMap;

use jiff::Timestamp;
use jiff::civil::Date;
use semel_model::RunId;
use semel_model::event::Event;
use uuid::Uuid;

use super::events::to_text;
use super::{LeaseChange, Transition, WaitChange};
use crate::column_text::ColumnText;
use crate::gate_exits::GateExit;
use crate::kept_generations::GenerationChange;
use crate::runs::Stage;
use crate::{
    alerts, approvals, attention, audit, claims, effects, event_waits, gate_exits,
    kept_generations, kv, late_responses, named_effects, outbox, tasks,
};

/// Which run each transition moves, under which lease, and what happens to the lease.
#[derive(Default)]
pub(super) struct Moves {
    pub(super) runs: Vec<Uuid>,
    pub(super) epochs: Vec<i64>,
    pub(super) seqs: Vec<i32>,
    pub(super) holders: Vec<Uuid>,
    pub(super) partition_date: Vec<Date>,
    pub(super) ends: Vec<bool>,
    pub(super) holds: Vec<bool>,
    pub(super) dues: Vec<Option<Timestamp>>,
    pub(super) stages: Vec<&'static str>,
    pub(super) saw_cancels: Vec<bool>,
    pub(super) progress: Vec<bool>,
    pub(super) pause_versions: Vec<Option<i64>>,
    pub(super) count: i64,
}

impl Moves {
    pub(super) fn of(batch: &[&Transition]) -> Self {
        let mut moves = Self::default();
        for item in batch {
            moves.add(item);
        }
        moves
    }

    fn add(&mut self, item: &Transition) {
        self.runs.push(*item.run.as_uuid());
        self.epochs.push(item.epoch);
        self.seqs.push(item.seq);
        self.holders.push(*item.holder.as_uuid());
        self.partition_date.push(item.partition_date);
        self.ends.push(item.lease == LeaseChange::End);
        self.holds.push(item.lease == LeaseChange::Keep);
        let (due_at, stage) = match &item.lease {
            LeaseChange::Return { due_at, stage } => (*due_at, *stage),
            LeaseChange::Keep | LeaseChange::End => (None, Stage::Ready),
        };
        self.dues.push(due_at);
        self.stages.push(stage.as_str());
        self.saw_cancels.push(item.saw_cancel);
        self.progress.push(item.progresses);
        self.pause_versions.push(item.pause_version);
        self.count += 1;
    }
}

/// Everything that a batch writes.
pub(super) struct Columns<'a> {
    pub(super) moves: Moves,
    pub(super) events: Vec<Cow<'a, str>>,
    pub(super) new_effects: effects::Rows<'a>,
    pub(super) old_effects: effects::Rows<'a>,
    pub(super) opened: OpenedWaits<'a>,
    pub(super) elapsed: Vec<Uuid>,
    pub(super) elapsed_count: i64,
    pub(super) cancelled: Vec<Uuid>,
    pub(super) deferred: DeferredWaits,
    pub(super) tasks: tasks::Rows<'a>,
    pub(super) approvals: approvals::Rows<'a>,
    pub(super) stopped: late_responses::StoppedRuns,
    pub(super) records: Records<'a>,
    pub(super) sets: kv::Rows<'a>,
    pub(super) emitted: outbox::Rows<'a>,
    pub(super) attention: attention::Rows,
    pub(super) alerts: alerts::Rows<'a>,
    pub(super) gate_exits: gate_exits::Rows,
    pub(super) notices: named_effects::NoticeRows<'a>,
    pub(super) kept_generations: kept_generations::Rows<'a>,
    pub(super) ended_children: EndedChildren,
    pub(super) event_waits: event_waits::Rows<'a>,
    pub(super) acts: audit::Rows<'a>,
    pub(super) next_runs: claims::Rows<'a>,
    pub(super) paused: PausedRuns,
}

#[derive(Default)]
pub(super) struct DeferredWaits {
    pub(super) ids: Vec<Uuid>,
    pub(super) untils: Vec<Option<Timestamp>>,
}

#[derive(Default)]
pub(super) struct PausedRuns {
    pub(super) runs: Vec<Uuid>,
    pub(super) pauses: Vec<i64>,
}

#[derive(Default)]
pub(super) struct EndedChildren {
    pub(super) runs: Vec<Uuid>,
    pub(super) states: Vec<&'static str>,
}

#[derive(Default)]
pub(super) struct OpenedWaits<'a> {
    pub(super) ids: Vec<Uuid>,
    pub(super) runs: Vec<Uuid>,
    pub(super) steps: Vec<&'a str>,
    pub(super) untils: Vec<Option<Timestamp>>,
    pub(super) namespaces: Vec<i32>,
}

#[derive(Default)]
pub(super) struct Records<'a> {
    pub(super) runs: Vec<Uuid>,
    pub(super) states: Vec<&'static str>,
    pub(super) results: Vec<Option<&'a str>>,
    pub(super) faults: Vec<Option<&'a str>>,
    pub(super) fault_codes: Vec<Option<ColumnText<'a>>>,
    pub(super) inherited: Vec<bool>,
    pub(super) ended: Vec<bool>,
}

impl<'a> Columns<'a> {
    /// `made` holds the events that the writes of this transaction made themselves; `with_sets`
    /// says whether the statement makes the plain sets.
    pub(super) fn of(
        batch: &[&'a Transition],
        made: &'a HashMap<RunId, Event>,
        with_sets: bool,
    ) -> Self {
        let mut columns = Self {
            moves: Moves::of(batch),
            events: batch
                .iter()
                .map(|item| journal_text(item, made.get(&item.run)))
                .collect(),
            new_effects: effects::Rows::default(),
            old_effects: effects::Rows::default(),
            opened: OpenedWaits::default(),
            elapsed: Vec::new(),
            elapsed_count: 0,
            cancelled: Vec::new(),
            deferred: DeferredWaits::default(),
            tasks: tasks::Rows::default(),
            approvals: approvals::Rows::default(),
            stopped: late_responses::StoppedRuns::default(),
            records: Records::default(),
            sets: if with_sets {
                kv::rows(batch)
            } else {
                kv::Rows::default()
            },
            emitted: outbox::Rows::default(),
            attention: attention::Rows::default(),
            alerts: alerts::Rows::default(),
            gate_exits: gate_exits::Rows::default(),
            notices: named_effects::NoticeRows::default(),
            kept_generations: kept_generations::Rows::default(),
            ended_children: EndedChildren::default(),
            event_waits: event_waits::Rows::default(),
            acts: audit::Rows::default(),
            next_runs: claims::Rows::default(),
            paused: PausedRuns::default(),
        };
        for item in batch {
            columns.add(item, made.get(&item.run));
        }
        columns
    }

    fn add(&mut self, item: &'a Transition, made: Option<&'a Event>) {
        for change in &item.effects {
            let rows = if change.first {
                &mut self.new_effects
            } else {
                &mut self.old_effects
            };
            rows.push(item, change, made);
        }
        self.attention.push(item);
        for change in &item.waits {
            self.add_wait(item, change);
        }
        if let LeaseChange::Return {
            stage: Stage::Stopped,
            ..
        } = &item.lease
        {
            self.stopped.push(item.run);
        }
        if let Some(record) = &item.record {
            self.records.runs.push(*item.run.as_uuid());
            self.records.states.push(record.state.as_str());
            self.records.results.push(record.result.as_deref());
            self.records.faults.push(record.fault.as_deref());
            let code = record.fault_code.as_deref();
            self.records.fault_codes.push(code.map(ColumnText::name));
            self.records.inherited.push(record.has_inherited);
            self.records.ended.push(record.state.is_ended());
        }
        if item.ends_child()
            && let Some(record) = &item.record
        {
            self.ended_children.runs.push(*item.run.as_uuid());
            self.ended_children.states.push(record.state.as_str());
        }
        for change in &item.tasks {
            self.tasks.push(item, change);
        }
        for change in &item.approvals {
            self.approvals.push(item, change);
        }
        for emitted in &item.emitted {
            self.emitted.push(item, emitted);
        }
        for raised in &item.alerts {
            self.alerts.push(item.namespace_id, Some(item.run), raised);
        }
        for gate in &item.leaves_gates {
            self.gate_exits.push(GateExit {
                run: item.run,
                gate: *gate,
                seq: item.seq + 1,
            });
        }
        for notice in &item.notices {
            let origin = named_effects::NoticeOrigin {
                run: item.run,
                seq: item.seq + 1,
                namespace_id: item.namespace_id,
            };
            self.notices.push(origin, notice);
        }
        for change in item
            .kept_generations
            .iter()
            .filter(|it| !did_not_happen(made, it))
        {
            self.kept_generations.push(change);
        }
        for act in &item.acts {
            self.acts.push(act);
        }
        if let Some(next) = &item.next_run {
            self.next_runs.push(next);
        }
        if let Some(pause) = item.paused_by {
            self.paused.runs.push(*item.run.as_uuid());
            self.paused.pauses.push(pause);
        }
    }

    fn add_wait(&mut self, item: &Transition, change: &'a WaitChange) {
        match change {
            WaitChange::Open {
                wait,
                step,
                until,
                topic,
            } => {
                if let Some(topic) = topic {
                    self.event_waits.push(item, *wait, topic);
                }
                self.opened.ids.push(*wait.as_uuid());
                self.opened.runs.push(*item.run.as_uuid());
                self.opened.steps.push(step);
                self.opened.untils.push(*until);
                self.opened.namespaces.push(item.namespace_id);
            }
            WaitChange::Defer { wait, until } => {
                self.deferred.ids.push(*wait.as_uuid());
                self.deferred.untils.push(*until);
            }
            WaitChange::Elapse { wait } => {
                self.elapsed.push(*wait.as_uuid());
                self.elapsed_count += 1;
            }
            WaitChange::Cancel { wait } => self.cancelled.push(*wait.as_uuid()),
        }
    }
}

/// Whether a write was expected to perform or undo an effect, and made an event that says it did not.
fn did_not_happen(made: Option<&Event>, change: &GenerationChange) -> bool {
    let Some(Event::Failed { step, .. }) = made else {
        return false;
    };
    let of = step.strip_suffix(".undo");
    change.step == *step || (change.undone && of == Some(change.step.as_str()))
}

fn journal_text<'a>(item: &'a Transition, made: Option<&Event>) -> Cow<'a, str> {
    match made {
        None => Cow::Borrowed(item.events.text()),
        Some(_) => Cow::Owned(to_text(item.events.iter().chain(made))),
    }
}
