//! One flight: the statement that writes a batch, and what only some batches need behind it.
//!
//! The statement alone is a transaction and a commit. Where more follows, `BEGIN` and `COMMIT`
//! stand around it, and all are sent together. The server works through them in order: when one
//! fails, the transaction is aborted, all that follow are refused, and `COMMIT` rolls back.

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;

use futures_util::future::join_all;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use super::columns::{Columns, Moves, OpenedWaits, Records};
use super::statement::ChangeKinds;
use super::{LOCK, LOCK_ROWS, Transition};
use crate::writer::connection::PreparedClient;
use crate::writer::rows::{Column, sent};
use crate::{
    alerts, approvals, attention, audit, child_runs, claims, event_waits, gate_exits,
    kept_generations, kv, late_responses, locks, named_effects, outbox, pauses, tasks, waits,
};

// Crosses slots (V1): entries of `kv` and locks change in the commit of a run of another slot. With a
// second cell, an entry of another cell is changed by an effect that leaves a mark beside the entry.

/// What only some batches need besides the statement of their shape.
pub(super) const EXTRA_STATEMENTS: &[&str] = &[
    LOCK_ROWS,
    LOCK,
    waits::OPEN,
    waits::WAKE_EARLY,
    waits::DEFER,
    waits::ELAPSE,
    waits::CANCEL,
    late_responses::HEAR,
    kv::SET_ONE,
    kv::DELETE,
    kv::ADD,
    kv::ADD_TOGETHER,
    kv::SET_IF_ABSENT,
    kv::HOLD,
    kv::SET_HELD,
    kv::READ,
    locks::TAKE,
    locks::RELEASE,
    outbox::EMIT,
    attention::OF_EFFECTS,
    attention::OF_RUNS,
    alerts::RAISE,
    gate_exits::NOTE,
    named_effects::NOTE,
    kept_generations::KEEP,
    child_runs::END,
    event_waits::OPEN,
    event_waits::CLOSE,
    tasks::OPEN,
    tasks::REOPEN,
    tasks::DEFER,
    tasks::HEAR,
    tasks::WITHDRAW,
    approvals::OPEN,
    approvals::DEFER,
    approvals::ELAPSE,
    approvals::WITHDRAW,
    approvals::HEAR,
    audit::APPEND,
    claims::MAKE_OR_NOTHING,
    pauses::HOLD,
];

type Answer<'a> = Pin<Box<dyn Future<Output = Result<Vec<Row>, Error>> + Send + 'a>>;
type Values<'a> = Vec<&'a (dyn ToSql + Sync)>;

/// What stands around the statement of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// Nothing: it commits alone.
    None,
    /// `BEGIN` and `COMMIT`, because others follow it.
    Around,
    /// `COMMIT`, because the transaction is open already.
    Open,
}

/// Statements that travel together.
pub(super) struct Pipeline<'a> {
    ready: PreparedClient<'a>,
    sent: Vec<Answer<'a>>,
}

impl<'a> Pipeline<'a> {
    fn simple(&mut self, text: &'static str) {
        let client = self.ready.client;
        self.sent.push(Box::pin(async move {
            client.batch_execute(text).await.map(|()| Vec::new())
        }));
    }

    fn send(&mut self, text: &'static str, values: Values<'a>) {
        let PreparedClient { client, .. } = self.ready;
        let statement = self.ready.statement(text);
        self.sent.push(Box::pin(
            async move { client.query(statement, &values).await },
        ));
    }

    fn send_extra_statements(&mut self, columns: &'a Columns<'a>) {
        let OpenedWaits {
            ids,
            runs,
            steps,
            untils,
            namespaces,
        } = &columns.opened;
        if !ids.is_empty() {
            self.send(waits::OPEN, vec![ids, runs, steps, untils, namespaces]);
            self.send(waits::WAKE_EARLY, vec![ids]);
        }
        if columns.elapsed_count > 0 {
            self.send(
                waits::ELAPSE,
                vec![&columns.elapsed, &columns.elapsed_count],
            );
            self.send(event_waits::CLOSE, vec![&columns.elapsed]);
        }
        let deferred = &columns.deferred;
        if !deferred.ids.is_empty() {
            self.send(waits::DEFER, vec![&deferred.ids, &deferred.untils]);
            // A callback may have come since the run looked.
            self.send(waits::WAKE_EARLY, vec![&deferred.ids]);
        }
        if !columns.cancelled.is_empty() {
            self.send(waits::CANCEL, vec![&columns.cancelled]);
            self.send(event_waits::CLOSE, vec![&columns.cancelled]);
        }
        if let Some(values) = columns.event_waits.values() {
            self.send(event_waits::OPEN, values);
        }
        let people = columns.approvals.statements();
        for (text, values) in columns.tasks.statements().into_iter().chain(people) {
            self.send(text, values);
        }
        if let Some(values) = columns.emitted.values() {
            self.send(outbox::EMIT, values);
        }
        if let Some(values) = columns.attention.of_effects() {
            self.send(attention::OF_EFFECTS, values);
        }
        if let Some(values) = columns.attention.of_runs() {
            self.send(attention::OF_RUNS, values);
        }
        if let Some(values) = columns.stopped.values() {
            self.send(late_responses::HEAR, values);
        }
        if let Some(values) = columns.alerts.values() {
            self.send(alerts::RAISE, values);
        }
        if let Some(values) = columns.gate_exits.values() {
            self.send(gate_exits::NOTE, values);
        }
        if let Some(values) = columns.notices.values() {
            self.send(named_effects::NOTE, values);
        }
        if let Some(values) = columns.kept_generations.values() {
            self.send(kept_generations::KEEP, values);
        }
        if !columns.acts.is_empty() {
            self.send(audit::APPEND, columns.acts.values().to_vec());
        }
        if let Some(values) = columns.next_runs.values() {
            self.send(claims::MAKE_OR_NOTHING, values);
        }
        let paused = &columns.paused;
        if !paused.runs.is_empty() {
            self.send(pauses::HOLD, vec![&paused.runs, &paused.pauses]);
        }
        let ended = &columns.ended_children;
        if !ended.runs.is_empty() {
            self.send(child_runs::END, vec![&ended.runs, &ended.states]);
        }
    }
}

/// Every row of the queue that a batch touches: where child runs end, their parents are touched
/// after their own. Empty if the batch touches the rows of its moves alone, which its statement
/// locks in order by itself.
pub(super) fn rows(batch: &[&Transition]) -> Vec<Uuid> {
    let ended = batch.iter().filter(|item| item.ends_child());
    let parents: Vec<Uuid> = ended
        .filter_map(|item| item.parent)
        .map(|parent| *parent.as_uuid())
        .collect();
    if parents.is_empty() {
        return parents;
    }
    let moved = batch.iter().map(|item| *item.run.as_uuid());
    parents.into_iter().chain(moved).collect()
}

/// Holds the runs of a batch whose lease still holds, and the other rows that it touches, in a
/// transaction that stays open.
pub(super) async fn lock(
    ready: PreparedClient<'_>,
    moves: &Moves,
    rows: &[Uuid],
) -> Result<(), Error> {
    let Moves {
        runs,
        epochs,
        seqs,
        holders,
        count,
        ..
    } = moves;
    let mut flight = Pipeline {
        ready,
        sent: Vec::with_capacity(3),
    };
    flight.simple("BEGIN");
    if !rows.is_empty() {
        flight.send(LOCK_ROWS, vec![&rows]);
    }
    flight.send(LOCK, vec![runs, epochs, seqs, holders, count]);
    for answer in join_all(flight.sent).await {
        answer?;
    }
    Ok(())
}

/// Writes a batch and commits; says which runs an operator wants to end.
pub(super) async fn land(
    ready: PreparedClient<'_>,
    shape: ChangeKinds,
    columns: &Columns<'_>,
    rows: &[Uuid],
    frame: Frame,
) -> Result<HashSet<Uuid>, Error> {
    let mut flight = Pipeline {
        ready,
        sent: Vec::with_capacity(8),
    };
    if frame == Frame::Around {
        flight.simple("BEGIN");
        if !rows.is_empty() {
            flight.send(LOCK_ROWS, vec![&rows]);
        }
    }
    let text = shape.text();
    let main = flight.sent.len();
    flight.send(text, main_values(columns, shape.one_row));
    flight.send_extra_statements(columns);
    if frame != Frame::None {
        flight.simple("COMMIT");
    }
    let mut cancelled = HashSet::new();
    for (index, answer) in join_all(flight.sent).await.into_iter().enumerate() {
        let rows = answer?;
        if index == main
            && let Some(row) = rows.first()
        {
            let asked: Vec<Uuid> = row.get(1);
            cancelled.extend(asked);
        }
    }
    Ok(cancelled)
}

/// The parameters of a shape's statement, in the order of its parts.
fn main_values<'a>(columns: &'a Columns<'a>, one_row: bool) -> Values<'a> {
    let Moves {
        runs,
        epochs,
        seqs,
        holders,
        count,
        partition_date,
        ends,
        holds,
        dues,
        stages,
        saw_cancels,
        progress,
        pause_versions,
    } = &columns.moves;
    let mut parts: Vec<&'a dyn Column> = vec![
        runs,
        epochs,
        seqs,
        holders,
        partition_date,
        &columns.events,
        ends,
        holds,
        dues,
        stages,
        saw_cancels,
        progress,
        pause_versions,
    ];
    parts.extend(columns.new_effects.insert_columns().into_iter().flatten());
    parts.extend(columns.old_effects.update_columns().into_iter().flatten());
    parts.extend(columns.sets.set_columns().into_iter().flatten());
    let Records {
        runs,
        states,
        results,
        faults,
        fault_codes,
        inherited,
        ended,
    } = &columns.records;
    if !runs.is_empty() {
        parts.extend([runs as &dyn Column, states, results, faults]);
        parts.extend([fault_codes as &dyn Column, inherited, ended]);
    }
    let mut values = sent(&parts, one_row);
    values.push(count);
    values
}
