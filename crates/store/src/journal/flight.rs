//! One flight of statements: sent together, answered together, ended by `COMMIT`.
//!
//! The server works through them in order. When one fails, the transaction is aborted, all that
//! follow are refused, and the `COMMIT` at the end rolls back.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::pin::Pin;

use futures_util::future::join_all;
use jiff::Timestamp;
use jiff::civil::Date;
use semel_model::RunId;
use semel_model::event::Event;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use super::{APPEND, EXAMINE, FENCE, FENCE_END, Lease, Transition, WaitChange};
use crate::link::Ready;
use crate::runs::Stage;
use crate::{effects, evidence, kv, runs, waits};

/// What the journal writer prepares.
pub(super) const STATEMENTS: &[&str] = &[
    FENCE,
    FENCE_END,
    APPEND,
    EXAMINE,
    effects::INSERT,
    effects::UPDATE,
    waits::OPEN,
    waits::WAKE_EARLY,
    waits::ELAPSE,
    waits::CANCEL,
    evidence::HEAR,
    runs::UPDATE,
    kv::SET,
    kv::DELETE,
    kv::ADD,
    kv::SET_IF_ABSENT,
    kv::READ,
    #[cfg(feature = "faults")]
    super::mistaken::NO_FENCE,
    #[cfg(feature = "faults")]
    super::mistaken::NO_FENCE_END,
    #[cfg(feature = "faults")]
    super::mistaken::APPEND_ANYWHERE,
];

#[cfg(feature = "faults")]
use super::mistaken::mistaken;

#[cfg(not(feature = "faults"))]
fn mistaken(text: &'static str) -> &'static str {
    text
}

/// The part of each transition that its fence looks at.
#[derive(Default)]
pub(super) struct Fence {
    pub(super) runs: Vec<Uuid>,
    pub(super) epochs: Vec<i64>,
    pub(super) seqs: Vec<i32>,
    pub(super) holders: Vec<Uuid>,
    count: i64,
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
    going_on: Fence,
    holds: Vec<bool>,
    dues: Vec<Option<Timestamp>>,
    stages: Vec<&'static str>,
    saw_cancels: Vec<bool>,
    parked: Vec<Uuid>,
    ending: Fence,
    ending_lows: Vec<Uuid>,
    ending_highs: Vec<Uuid>,
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
    all: Fence,
    born: Vec<Date>,
    events: Vec<String>,
    new_effects: effects::Rows<'a>,
    old_effects: effects::Rows<'a>,
    opened: OpenedWaits<'a>,
    elapsed: Vec<Uuid>,
    elapsed_count: i64,
    records: Records<'a>,
    sets: kv::Rows<'a>,
    deletes: kv::Rows<'a>,
}

#[derive(Default)]
struct OpenedWaits<'a> {
    ids: Vec<Uuid>,
    runs: Vec<Uuid>,
    steps: Vec<&'a str>,
    untils: Vec<Option<Timestamp>>,
}

#[derive(Default)]
struct Records<'a> {
    runs: Vec<Uuid>,
    states: Vec<&'static str>,
    results: Vec<Option<&'a str>>,
    faults: Vec<Option<&'a str>>,
    ended: Vec<bool>,
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

type Answer<'a> = Pin<Box<dyn Future<Output = Result<Vec<Row>, Error>> + Send + 'a>>;

/// Statements that travel together.
pub(super) struct Flight<'a> {
    ready: Ready<'a>,
    sent: Vec<Answer<'a>>,
    /// Where the answer stands that tells which runs a person wants to end.
    fence: Option<usize>,
}

impl<'a> Flight<'a> {
    /// Opens the transaction.
    pub(super) fn begin(ready: Ready<'a>) -> Self {
        let mut flight = Self::go_on(ready);
        flight.simple("BEGIN");
        flight
    }

    /// Goes on in a transaction that is open.
    pub(super) fn go_on(ready: Ready<'a>) -> Self {
        Self {
            ready,
            sent: Vec::with_capacity(12),
            fence: None,
        }
    }

    fn simple(&mut self, text: &'static str) {
        let client = self.ready.client;
        self.sent.push(Box::pin(async move {
            client.batch_execute(text).await.map(|()| Vec::new())
        }));
    }

    fn send(&mut self, text: &'static str, values: Vec<&'a (dyn ToSql + Sync)>) {
        let Ready { client, .. } = self.ready;
        let statement = self.ready.statement(mistaken(text));
        self.sent.push(Box::pin(
            async move { client.query(statement, &values).await },
        ));
    }

    /// Lets through only transitions whose lease still holds.
    pub(super) fn fence(&mut self, fences: &'a Fences) {
        let Fence {
            runs,
            epochs,
            seqs,
            holders,
            count,
        } = &fences.going_on;
        if *count > 0 {
            self.fence = Some(self.sent.len());
            self.send(
                FENCE,
                vec![
                    runs,
                    epochs,
                    seqs,
                    holders,
                    &fences.holds,
                    &fences.dues,
                    &fences.stages,
                    count,
                    &fences.saw_cancels,
                ],
            );
        }
        let Fence {
            runs,
            epochs,
            seqs,
            holders,
            count,
        } = &fences.ending;
        if *count > 0 {
            self.send(FENCE_END, vec![runs, epochs, seqs, holders, count]);
        }
    }

    fn write(&mut self, fences: &'a Fences, columns: &'a Columns<'a>) {
        let Fence {
            runs, epochs, seqs, ..
        } = &columns.all;
        self.send(
            APPEND,
            vec![&columns.born, runs, seqs, epochs, &columns.events],
        );
        if let Some(values) = columns.new_effects.insert_values() {
            self.send(effects::INSERT, values);
        }
        if let Some(values) = columns.old_effects.update_values() {
            self.send(effects::UPDATE, values);
        }
        self.write_waits(fences, columns);
        if !fences.parked.is_empty() {
            self.send(evidence::HEAR, vec![&fences.parked]);
        }
        if let Some(values) = columns.sets.set_values() {
            self.send(kv::SET, values);
        }
        if let Some(values) = columns.deletes.delete_values() {
            self.send(kv::DELETE, values);
        }
        let Records {
            runs,
            states,
            results,
            faults,
            ended,
        } = &columns.records;
        if !runs.is_empty() {
            self.send(runs::UPDATE, vec![runs, states, results, faults, ended]);
        }
        self.simple("COMMIT");
    }

    fn write_waits(&mut self, fences: &'a Fences, columns: &'a Columns<'a>) {
        let OpenedWaits {
            ids,
            runs,
            steps,
            untils,
        } = &columns.opened;
        if !ids.is_empty() {
            self.send(waits::OPEN, vec![ids, runs, steps, untils]);
            self.send(waits::WAKE_EARLY, vec![ids]);
        }
        if columns.elapsed_count > 0 {
            self.send(
                waits::ELAPSE,
                vec![&columns.elapsed, &columns.elapsed_count],
            );
        }
        if fences.ending.count > 0 {
            let Fences {
                ending,
                ending_lows,
                ending_highs,
                ..
            } = fences;
            self.send(waits::CANCEL, vec![&ending.runs, ending_lows, ending_highs]);
        }
    }

    /// Writes everything that stands behind the fence, commits, and waits for every answer.
    pub(super) async fn land_with<'b>(
        self,
        fences: &'b Fences,
        columns: &'b Columns<'b>,
    ) -> Result<HashSet<Uuid>, Error>
    where
        'a: 'b,
    {
        let mut flight: Flight<'b> = self;
        flight.write(fences, columns);
        flight.land().await
    }

    /// Waits for every answer; says which runs a person wants to end.
    pub(super) async fn land(self) -> Result<HashSet<Uuid>, Error> {
        let mut cancelled = HashSet::new();
        for (index, answer) in join_all(self.sent).await.into_iter().enumerate() {
            let rows = answer?;
            if self.fence == Some(index)
                && let Some(row) = rows.first()
            {
                let asked: Option<Vec<Uuid>> = row.get(1);
                cancelled.extend(asked.unwrap_or_default());
            }
        }
        Ok(cancelled)
    }
}
