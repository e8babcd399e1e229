//! The `effects` table: the ledger.

mod doubts;
mod list;

pub use doubts::{
    DoubtFilter, Snoozing, list_doubts, list_doubts_by, list_doubts_of_step, list_releases_in_doubt,
};
pub use list::{list, list_of_external_id, list_of_kind};

use jiff::Timestamp;
use jiff::civil::Date;
use semel_model::effect::EffectState;
use semel_model::event::Event;
use semel_model::{EffectId, RunId};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::cell::{EveryCell, ReadError, SlotCell};
use crate::column_text::ColumnText;
use crate::journal::{EffectChange, Transition};
use crate::writer::rows::Column;

macro_rules! entered {
    () => {
        ",
    entered AS (
        INSERT INTO effects (partition_date, id, run_id, namespace_id, step, kind, guard, state, attempt,
                             intended_at, settled_at, external_id, note)
        SELECT t.partition_date, t.id, t.run_id, t.namespace_id, t.step, t.kind, t.guard::effect_guard,
               t.state::effect_state, t.attempt, p.now,
               CASE WHEN t.state <> 'pending' THEN p.now END, t.external_id, t.note
          FROM present p,
               unnest($?::date[], $?::uuid[], $?::uuid[], $?::int4[], $?::text[], $?::text[],
                      $?::text[], $?::text[], $?::int4[], $?::text[], $?::text[])
            AS t (partition_date, id, run_id, namespace_id, step, kind, guard, state, attempt, external_id,
                  note)"
    };
}

/// The part of a batch's statement that makes new entries.
pub(crate) const ENTERED: &str = concat!(entered!(), ")");

/// As [`ENTERED`], of runs that follow others: an entry that an earlier run of the key made on the
/// same day is theirs now. What a run performed stays done; an entry without an attempt says only that others had,
/// and a run that performs it after all has it.
pub(crate) const ENTERED_AGAIN: &str = concat!(
    entered!(),
    "
            ON CONFLICT (partition_date, id) DO UPDATE
           SET run_id = EXCLUDED.run_id, step = EXCLUDED.step, kind = EXCLUDED.kind,
               guard = EXCLUDED.guard, state = EXCLUDED.state, attempt = EXCLUDED.attempt,
               intended_at = EXCLUDED.intended_at, settled_at = EXCLUDED.settled_at,
               external_id = EXCLUDED.external_id, note = EXCLUDED.note
         WHERE effects.state <> 'done' OR effects.attempt = 0)"
);

/// The part of a batch's statement that changes entries. A settled entry stays settled: the guard stands in
/// the `WHERE` clause. Only a run that was resumed makes a further attempt at what failed, or is in
/// doubt again about an effect that an operator had settled as failed, which a late response may
/// show to be done.
pub(crate) const CHANGED: &str = ",
    changed AS (
        UPDATE effects e
           SET state = t.state::effect_state, attempt = t.attempt,
               external_id = coalesce(t.external_id, e.external_id), note = t.note,
               intended_at = CASE WHEN t.state = 'pending' THEN (SELECT now FROM present)
                                  ELSE e.intended_at END,
               settled_at = CASE WHEN t.state <> 'pending' THEN (SELECT now FROM present) END
          FROM unnest($?::date[], $?::uuid[], $?::text[], $?::int4[], $?::text[], $?::text[])
            AS t (partition_date, id, state, attempt, external_id, note)
         WHERE e.partition_date = t.partition_date AND e.id = t.id AND (e.state <> 'done' OR e.attempt = 0)
           AND (e.state <> 'failed' OR t.attempt > e.attempt
                OR t.state IN ('in_doubt', 'done')))";

const LIST_OF_RUN: &str = "
    SELECT e.id, e.run_id, e.step, e.kind, e.guard::text, e.state::text, e.attempt, e.intended_at,
           e.settled_at, e.external_id, e.note, e.partition_date
      FROM effects e
     WHERE e.namespace_id = $1 AND e.partition_date = $2 AND e.id BETWEEN $3 AND $4 AND e.run_id = $5
     ORDER BY e.intended_at";

const LIST_OF_RUNS: &str = "
    SELECT e.id, e.run_id, e.step, e.kind, e.guard::text, e.state::text, e.attempt, e.intended_at,
           e.settled_at, e.external_id, e.note, e.partition_date
      FROM unnest($2::date[], $3::uuid[], $4::uuid[], $5::uuid[]) AS r (partition_date, low, high, id)
     CROSS JOIN LATERAL (SELECT * FROM effects e
                          WHERE e.namespace_id = $1 AND e.partition_date = r.partition_date
                            AND e.id BETWEEN r.low AND r.high AND e.run_id = r.id
                          ORDER BY e.intended_at
                          LIMIT $6) e";

const FIND: &str = "
    SELECT e.id, e.run_id, e.step, e.kind, e.guard::text, e.state::text, e.attempt, e.intended_at,
           e.settled_at, e.external_id, e.note, e.partition_date
      FROM effects e
     WHERE e.namespace_id = $1 AND e.id = $2
       AND e.partition_date = ANY (ARRAY(SELECT DISTINCT r.partition_date
                                           FROM runs r WHERE r.id BETWEEN $3 AND $4))
     ORDER BY e.intended_at DESC
     LIMIT 1";

/// The note of an effect that a probe found before anything was sent.
pub const FOUND_BEFORE: &str = "found before anything was sent";

/// What begins the note of a failed effect that was in doubt when an operator failed it: whether it happened is
/// unknown. An erasure of payloads keeps these words of the note.
pub const GIVEN_UP: &str = "given up while in doubt";

pub(crate) const LISTS: &[&str] = list::STATEMENTS;
pub(crate) const STATEMENTS: &[&str] = &[
    LIST_OF_RUN,
    LIST_OF_RUNS,
    FIND,
    doubts::DOUBTS,
    doubts::AWAKE,
    doubts::SNOOZED,
    doubts::OF_STEP,
    doubts::OF_STEP_ON,
    doubts::OF_STEP_SEEN,
    doubts::OF_STEP_ON_SEEN,
    doubts::RELEASES,
];

/// Effects of a batch, one array per column.
#[derive(Default)]
pub(crate) struct Rows<'a> {
    partition_date: Vec<Date>,
    ids: Vec<Uuid>,
    runs: Vec<Uuid>,
    namespaces: Vec<i32>,
    steps: Vec<&'a str>,
    kinds: Vec<&'static str>,
    guards: Vec<&'static str>,
    states: Vec<&'static str>,
    attempts: Vec<i32>,
    external_ids: Vec<Option<ColumnText<'a>>>,
    notes: Vec<Option<ColumnText<'a>>>,
}

impl<'a> Rows<'a> {
    /// `made` is the event that the write itself made: if it is a failure, the entry did
    /// not come to what the transition hoped for.
    pub(crate) fn push(
        &mut self,
        item: &'a Transition,
        change: &'a EffectChange,
        made: Option<&'a Event>,
    ) {
        let (state, note) = match made {
            Some(Event::Failed { fault, .. }) => {
                let state = if fault.retryable {
                    EffectState::Retrying
                } else {
                    EffectState::Failed
                };
                (state, Some(fault.message.as_str()))
            }
            _ => (change.state, change.note.as_deref()),
        };
        self.partition_date.push(item.partition_date);
        self.ids.push(*change.effect.as_uuid());
        self.runs.push(*item.run.as_uuid());
        self.namespaces.push(item.namespace_id);
        self.steps.push(&change.step);
        self.kinds.push(change.kind);
        self.guards.push(change.guard.as_str());
        self.states.push(state.as_str());
        self.attempts
            .push(i32::try_from(change.attempt).unwrap_or(i32::MAX));
        let external_id = change.external_id.as_deref();
        self.external_ids.push(external_id.map(ColumnText::indexed));
        self.notes.push(note.map(ColumnText::words));
    }

    pub(crate) fn insert_columns(&'a self) -> Option<Vec<&'a dyn Column>> {
        (!self.ids.is_empty()).then(|| {
            vec![
                &self.partition_date as &dyn Column,
                &self.ids,
                &self.runs,
                &self.namespaces,
                &self.steps,
                &self.kinds,
                &self.guards,
                &self.states,
                &self.attempts,
                &self.external_ids,
                &self.notes,
            ]
        })
    }

    pub(crate) fn update_columns(&'a self) -> Option<Vec<&'a dyn Column>> {
        (!self.ids.is_empty()).then(|| {
            vec![
                &self.partition_date as &dyn Column,
                &self.ids,
                &self.states,
                &self.attempts,
                &self.external_ids,
                &self.notes,
            ]
        })
    }
}

/// An effect as the API shows it.
#[derive(Clone, Debug)]
pub struct EffectView {
    /// The effect, which is the key that the destination was sent.
    pub id: EffectId,
    /// Its run.
    pub run: RunId,
    /// The step's path.
    pub step: String,
    /// The kind of step.
    pub kind: String,
    /// How it is made safe.
    pub guard: String,
    /// Its state.
    pub state: EffectState,
    /// The number of its latest attempt.
    pub attempt: i32,
    /// When the latest attempt's intent was written.
    pub intended_at: Timestamp,
    /// When its outcome was written.
    pub settled_at: Option<Timestamp>,
    /// The destination's identity for what was made.
    pub external_id: Option<String>,
    /// What was seen, if it did not simply succeed.
    pub note: Option<String>,
    /// The partition of its run.
    pub partition_date: Date,
}

/// Lists the effects of one run, in the order of their intents.
pub async fn list_of_run(
    cell: SlotCell<'_>,
    namespace_id: i32,
    partition_date: Date,
    run: RunId,
) -> Result<Vec<EffectView>, ReadError> {
    let (low, high) = run.key_range();
    let client = cell.reader().await?;
    let values: [&(dyn ToSql + Sync); 5] =
        [&namespace_id, &partition_date, &low, &high, run.as_uuid()];
    let rows = client.query(LIST_OF_RUN, &values).await?;
    Ok(rows.iter().map(read_view).collect())
}

/// Lists the effects of several runs, so many of each.
pub async fn list_of_runs(
    cell: EveryCell<'_>,
    namespace_id: i32,
    runs: &[(Date, RunId)],
    most: u16,
) -> Result<Vec<EffectView>, ReadError> {
    let dates: Vec<Date> = runs.iter().map(|(date, _)| *date).collect();
    let ids: Vec<Uuid> = runs.iter().map(|(_, run)| *run.as_uuid()).collect();
    let ranges = runs.iter().map(|(_, run)| run.key_range());
    let (low, high): (Vec<Uuid>, Vec<Uuid>) = ranges.unzip();
    let values: [&(dyn ToSql + Sync); 6] =
        [&namespace_id, &dates, &low, &high, &ids, &i64::from(most)];
    let rows = cell.reader().await?.query(LIST_OF_RUNS, &values).await?;
    Ok(rows.iter().map(read_view).collect())
}

/// Looks one effect up; where several runs of its key performed it, as the latest of them left it.
pub async fn find(
    cell: SlotCell<'_>,
    namespace_id: i32,
    effect: EffectId,
) -> Result<Option<EffectView>, ReadError> {
    let (low, high) = RunId::from_uuid(*effect.as_uuid()).key_range();
    let client = cell.reader().await?;
    let values: [&(dyn ToSql + Sync); 4] = [&namespace_id, effect.as_uuid(), &low, &high];
    let row = client.query_opt(FIND, &values).await?;
    Ok(row.as_ref().map(read_view))
}

fn read_view(row: &Row) -> EffectView {
    let state: &str = row.get(5);
    let Ok(state) = state.parse() else {
        unreachable!("the ledger has no state {state}")
    };
    EffectView {
        id: EffectId::from_uuid(row.get(0)),
        run: RunId::from_uuid(row.get(1)),
        step: row.get(2),
        kind: row.get(3),
        guard: row.get(4),
        state,
        attempt: row.get(6),
        intended_at: row.get(7),
        settled_at: row.get(8),
        external_id: row.get(9),
        note: row.get(10),
        partition_date: row.get(11),
    }
}
