//! The `attention` table: what waits for a person, or may come to.
//!
//! There is one row for each effect in doubt, one for each run that needs review or is
//! quarantined, and one for each name of effects that is in doubt: its holder was a process, or a run that
//! may have ended since. The commit that makes it so writes the row, and the commit that ends it removes the
//! row; a run that gets into no trouble writes nothing here. Lists and counts of what is in trouble
//! read this table: an index on the states themselves would change with every effect and every run.
//!
//! A commit does not say what the table has to hold: it names the effects and runs that may have
//! changed sides, and the statements below compare those with the ledger and the record.

mod attended;
pub(crate) mod named;

pub use attended::{AttendedDoubt, DoubtRemark, list_attended, remark};

use jiff::civil::Date;
use semel_model::SeededBug;
use semel_model::effect::EffectState;
use semel_model::run::RunState;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::attention::named::no_run_stands;
use crate::cell::{EveryCell, ReadError};
use crate::journal::{EffectChange, RecordChange, Transition};

/// Effects of a batch that came into doubt or left it, behind the statement that says so.
pub(crate) const OF_EFFECTS: &str = "
    WITH changed AS MATERIALIZED (
        SELECT e.partition_date, e.id, e.run_id, e.namespace_id, e.step, e.intended_at,
               e.state = 'in_doubt' AS in_doubt
          FROM unnest($1::date[], $2::uuid[]) AS t (partition_date, id)
          JOIN effects e ON e.partition_date = t.partition_date AND e.id = t.id),
    over AS (
        DELETE FROM attention a
         USING changed c
         WHERE a.subject_id = c.id AND a.kind = 'doubt' AND a.partition_date = c.partition_date
           AND NOT c.in_doubt)
    INSERT INTO attention AS a (subject_id, kind, partition_date, namespace_id, run_id, flow_id, step,
                                since, accepted_at, is_child)
    SELECT c.id, 'doubt', c.partition_date, c.namespace_id, c.run_id, l.flow_id, c.step,
           c.intended_at, r.accepted_at, num_nulls(r.parent_id) = 0
      FROM changed c
      JOIN runs r ON r.id = c.run_id
      JOIN releases l ON l.id = r.release_id
     WHERE c.in_doubt
        ON CONFLICT (subject_id, kind, partition_date) DO UPDATE
       SET run_id = EXCLUDED.run_id, flow_id = EXCLUDED.flow_id, step = EXCLUDED.step,
           since = EXCLUDED.since, accepted_at = EXCLUDED.accepted_at, is_child = EXCLUDED.is_child";

/// Runs of a batch that came to need review, were quarantined, or left such a state.
pub(crate) const OF_RUNS: &str = "
    WITH changed AS MATERIALIZED (
        SELECT r.id, r.partition_date, r.namespace_id, r.release_id, r.accepted_at, r.state::text,
               r.state IN ('needs_review', 'quarantined') AS is_stopped,
               num_nulls(r.parent_id) = 0 AS is_child
          FROM unnest($1::uuid[]) AS t (id)
          JOIN runs r ON r.id = t.id),
    over AS (
        DELETE FROM attention a
         USING changed c
         WHERE a.subject_id = c.id AND a.kind <> 'doubt' AND a.kind::text <> c.state)
    INSERT INTO attention (subject_id, kind, partition_date, namespace_id, run_id, flow_id, step,
                           since, accepted_at, is_child)
    SELECT c.id, c.state::attention_kind, c.partition_date, c.namespace_id, c.id, l.flow_id, '',
           (SELECT moment()), c.accepted_at, c.is_child
      FROM changed c
      JOIN releases l ON l.id = c.release_id
     WHERE c.is_stopped
        ON CONFLICT (subject_id, kind, partition_date) DO NOTHING";

/// The part of a statement that quarantines the runs of its part `stopped`.
macro_rules! quarantined {
    () => {
        ",
    overtaken AS (
        DELETE FROM attention a USING stopped p WHERE a.subject_id = p.run_id AND a.kind = 'needs_review'),
    noticed AS (
        INSERT INTO attention (subject_id, kind, partition_date, namespace_id, run_id, flow_id, step,
                               since, accepted_at, is_child)
        SELECT p.run_id, 'quarantined', r.partition_date, r.namespace_id, p.run_id, e.flow_id, '',
               t.now, r.accepted_at, r.parent_id IS NOT NULL
          FROM present t, stopped p
          JOIN runs r ON r.id = p.run_id
          JOIN releases e ON e.id = r.release_id
            ON CONFLICT (subject_id, kind, partition_date) DO NOTHING)"
    };
}
pub(crate) use quarantined;

/// The part of a statement that lets the runs of its part `freed` continue.
macro_rules! freed {
    () => {
        ",
    over AS (
        DELETE FROM attention a USING freed f WHERE a.subject_id = f.run_id)"
    };
}
pub(crate) use freed;

/// Up to a limit: this is asked for every few seconds.
const COUNT_DOUBTS: &str = concat!(
    "
    SELECT count(*) FROM (
        SELECT 1 FROM attention WHERE kind = 'doubt'
         UNION ALL
        SELECT 1
          FROM attention a
         CROSS JOIN LATERAL (SELECT holder_run, holder_step, undo_run, undo_seq FROM named_effects
                              WHERE id = a.subject_id OFFSET 0) n
         WHERE a.kind = 'named_effect' AND ",
    no_run_stands!(),
    "
         LIMIT $1) AS doubts"
);

/// What the table has and should not have, and what it should have and has not.
const DIFFERENCES: &str = "
    WITH expected AS (
        SELECT id, 'doubt' AS kind, partition_date, run_id FROM effects WHERE state = 'in_doubt'
         UNION ALL
        SELECT id, state::text, partition_date, id FROM runs WHERE state IN ('needs_review', 'quarantined')
         UNION ALL
        SELECT id, 'named_effect', '-infinity', NULL FROM named_effects WHERE state = 'in_doubt'),
    found AS (SELECT subject_id, kind::text, partition_date, run_id FROM attention)
    SELECT format('%s of %s is missing', kind, id) FROM (TABLE expected EXCEPT TABLE found) AS m
     UNION ALL
    SELECT format('%s of %s is over', kind, subject_id) FROM (TABLE found EXCEPT TABLE expected) AS o";

pub(crate) const STATEMENTS: &[&str] = &[OF_EFFECTS, OF_RUNS, COUNT_DOUBTS, DIFFERENCES];
pub(crate) const ATTENDED: &[&str] = &attended::STATEMENTS;

/// Effects and runs of a batch that may have changed sides.
#[derive(Default)]
pub(crate) struct Rows {
    partition_dates: Vec<Date>,
    effects: Vec<Uuid>,
    runs: Vec<Uuid>,
}

impl Rows {
    pub(crate) fn push(&mut self, item: &Transition) {
        for change in item.effects.iter().filter(|it| concerns_effect(it)) {
            self.partition_dates.push(item.partition_date);
            self.effects.push(*change.effect.as_uuid());
        }
        if item.record.as_ref().is_some_and(concerns_run) {
            self.runs.push(*item.run.as_uuid());
        }
    }

    pub(crate) fn of_effects(&self) -> Option<Vec<&(dyn ToSql + Sync)>> {
        (!self.effects.is_empty())
            .then(|| vec![&self.partition_dates as &(dyn ToSql + Sync), &self.effects])
    }

    pub(crate) fn of_runs(&self) -> Option<Vec<&(dyn ToSql + Sync)>> {
        (!self.runs.is_empty()).then(|| vec![&self.runs as &(dyn ToSql + Sync)])
    }
}

/// Whether a transition touches this table: none does whose run is in no trouble.
pub(crate) fn concerns(item: &Transition) -> bool {
    item.effects.iter().any(concerns_effect) || item.record.as_ref().is_some_and(concerns_run)
}

fn concerns_effect(change: &EffectChange) -> bool {
    let leaves = change.was_in_doubt && !SeededBug::AttentionNotRemoved.is_seeded();
    change.state == EffectState::InDoubt || leaves
}

fn concerns_run(record: &RecordChange) -> bool {
    match record.state {
        RunState::NeedsReview | RunState::Quarantined => true,
        RunState::Active
        | RunState::InDoubt
        | RunState::Succeeded
        | RunState::Failed
        | RunState::Cancelled
        | RunState::Superseded => record.was_stopped && !SeededBug::AttentionNotRemoved.is_seeded(),
    }
}

/// The most effects in doubt that are counted.
pub const DOUBTS_MAX: i64 = 10_000;

/// How many effects are in doubt, in all namespaces, [`DOUBTS_MAX`] at most. A name counts where no run
/// stands at its doubt: the effect of such a run is counted.
pub async fn count_doubts(cell: EveryCell<'_>) -> Result<i64, ReadError> {
    let client = cell.reader().await?;
    let row = client.query_one(COUNT_DOUBTS, &[&DOUBTS_MAX]).await?;
    Ok(row.get(0))
}

/// Where the table differs from the ledger and the records, in words; empty where it is true. Reads
/// everything: for tests, and for a database whose rows an operator changed by hand.
pub async fn list_differences(cell: EveryCell<'_>) -> Result<Vec<String>, ReadError> {
    let rows = cell.reader().await?.query(DIFFERENCES, &[]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}
