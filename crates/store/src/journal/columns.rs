//! A batch of transitions, turned on its side: one array per column of each statement.

use std::collections::HashMap;

use jiff::Timestamp;
use jiff::civil::Date;
use semel_model::RunId;
use semel_model::event::Event;
use uuid::Uuid;

use super::{Lease, Transition, WaitChange};
use crate::runs::Stage;
use crate::{effects, kv};

/// The part of each transition that its fence looks at.
#[derive(Default)]
pub(super) struct Fence {
    pub(super) runs: Vec<Uuid>,
    pub(super) epochs: Vec<i64>,
    pub(super) seqs: Vec<i32>,
    pub(super) holders: Vec<Uuid>,
    pub(super) count: i64,
}

impl Fence {
    pub(super) fn of<'a>(batch: impl Iterator<Item = &'a Transition>) -> Self {
        let mut fence = Self::default();
        for item in batch {
            fence.runs.push(*item.run.as_uuid());
            fence.epochs.push(item.epoch);
            fence.seqs.push(item.seq);
            fence.holders.push(*item.holder.as_uuid());
            fence.count += 1;
        }
        fence
    }
}

/// The fences of a batch: of transitions that go on, and of those that end their run.
pub(super) struct Fences {
    pub(super) going_on: Fence,
    pub(super) holds: Vec<bool>,
    pub(super) dues: Vec<Option<Timestamp>>,
    pub(super) stages: Vec<&'static str>,
    pub(super) saw_cancels: Vec<bool>,
    pub(super) parked: Vec<Uuid>,
    pub(super) ending: Fence,
    pub(super) ending_lows: Vec<Uuid>,
    pub(super) ending_highs: Vec<Uuid>,
}

impl Fences {
    pub(super) fn of(batch: &[&Transition]) -> Self {
        let goes_on = |item: &&&Transition| item.lease != Lease::End;
        let ends = |item: &&&Transition| item.lease == Lease::End;
        let mut fences = Self {
            going_on: Fence::of(batch.iter().filter(goes_on).copied()),
            holds: Vec::new(),
            dues: Vec::new(),
            stages: Vec::new(),
            saw_cancels: Vec::new(),
            parked: Vec::new(),
            ending: Fence::of(batch.iter().filter(ends).copied()),
            ending_lows: Vec::new(),
            ending_highs: Vec::new(),
        };
        for item in batch {
            fences.add(item);
        }
        fences
    }

    fn add(&mut self, item: &Transition) {
        if item.lease != Lease::End {
            self.saw_cancels.push(item.saw_cancel);
        }
        match &item.lease {
            Lease::Keep => {
                self.holds.push(true);
                self.dues.push(None);
                self.stages.push(Stage::Ready.as_str());
            }
            Lease::Return { due_at, stage } => {
                self.holds.push(false);
                self.dues.push(*due_at);
                self.stages.push(stage.as_str());
                let parks = *stage == Stage::Parked;
                self.parked.extend(parks.then_some(*item.run.as_uuid()));
            }
            Lease::End => {
                let (low, high) = item.run.owned_range();
                self.ending_lows.push(low);
                self.ending_highs.push(high);
            }
        }
    }
}

/// What stands behind the fences, turned on its side: one array per column.
pub(super) struct Columns<'a> {
    pub(super) all: Fence,
    pub(super) born: Vec<Date>,
    pub(super) events: Vec<String>,
    pub(super) new_effects: effects::Rows<'a>,
    pub(super) old_effects: effects::Rows<'a>,
    pub(super) opened: OpenedWaits<'a>,
    pub(super) elapsed: Vec<Uuid>,
    pub(super) elapsed_count: i64,
    pub(super) records: Records<'a>,
    pub(super) sets: kv::Rows<'a>,
    pub(super) deletes: kv::Rows<'a>,
}

#[derive(Default)]
pub(super) struct OpenedWaits<'a> {
    pub(super) ids: Vec<Uuid>,
    pub(super) runs: Vec<Uuid>,
    pub(super) steps: Vec<&'a str>,
    pub(super) untils: Vec<Option<Timestamp>>,
}

#[derive(Default)]
pub(super) struct Records<'a> {
    pub(super) runs: Vec<Uuid>,
    pub(super) states: Vec<&'static str>,
    pub(super) results: Vec<Option<&'a str>>,
    pub(super) faults: Vec<Option<&'a str>>,
    pub(super) ended: Vec<bool>,
}

impl<'a> Columns<'a> {
    /// `made` holds the events that the writes of this transaction made themselves.
    pub(super) fn of(batch: &[&'a Transition], made: &'a HashMap<RunId, Event>) -> Self {
        let mut columns = Self {
            all: Fence::of(batch.iter().copied()),
            born: batch.iter().map(|item| item.born).collect(),
            events: batch
                .iter()
                .map(|item| journal_text(item, made.get(&item.run)))
                .collect(),
            new_effects: effects::Rows::default(),
            old_effects: effects::Rows::default(),
            opened: OpenedWaits::default(),
            elapsed: Vec::new(),
            elapsed_count: 0,
            records: Records::default(),
            sets: kv::Rows::default(),
            deletes: kv::Rows::default(),
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
        for change in &item.waits {
            self.add_wait(item.run, change);
        }
        if let Some(record) = &item.record {
            self.records.runs.push(*item.run.as_uuid());
            self.records.states.push(record.state.as_str());
            self.records.results.push(record.result.as_deref());
            self.records.faults.push(record.fault.as_deref());
            self.records.ended.push(record.state.is_ended());
        }
        if let Some(write) = &item.kv {
            kv::sort(item.namespace_id, write, &mut self.sets, &mut self.deletes);
        }
    }

    fn add_wait(&mut self, run: RunId, change: &'a WaitChange) {
        match change {
            WaitChange::Open { wait, step, until } => {
                self.opened.ids.push(*wait.as_uuid());
                self.opened.runs.push(*run.as_uuid());
                self.opened.steps.push(step);
                self.opened.untils.push(*until);
            }
            WaitChange::Elapse { wait } => {
                self.elapsed.push(*wait.as_uuid());
                self.elapsed_count += 1;
            }
        }
    }
}

fn journal_text(item: &Transition, made: Option<&Event>) -> String {
    let events: Vec<&Event> = item.events.iter().chain(made).collect();
    match serde_json::to_string(&events) {
        Ok(text) => text,
        Err(error) => unreachable!("events are plain data: {error}"),
    }
}
