//! Names of effects that are in doubt.
//!
//! A statement that settles a name, or puts it in doubt, locks its row. What the table has to hold is compared
//! with the row in a later statement of the same transaction: a part of the first would not see what was
//! committed while that waited for the lock.

use deadpool_postgres::Transaction;
use semel_model::NamedEffectId;

use crate::cell::ReadError;

/// The parts of a statement that list the name `$1`, or remove it. A doubt that a process reported raises an
/// alert when it is listed; a run raises its own.
macro_rules! named_compared {
    () => {
        concat!(
            "over AS (
        DELETE FROM attention a
         USING named_effects n
         WHERE n.id = $1 AND a.subject_id = n.id AND a.kind = 'named_effect' AND n.state <> 'in_doubt'),
    noticed AS (
        INSERT INTO attention (subject_id, kind, partition_date, namespace_id, step, since, is_child)
        SELECT n.id, 'named_effect', '-infinity', n.namespace_id, coalesce(n.holder_step, ''), n.begun_at,
               false
          FROM named_effects n
         WHERE n.id = $1 AND n.state = 'in_doubt'
            ON CONFLICT (subject_id, kind, partition_date) DO NOTHING
     RETURNING subject_id),
    raised AS (
        ",
            $crate::alerts::raise!(
                "SELECT n.namespace_id, 'doubt' AS kind, '' AS flow, '' AS connection, 'once' AS step,
               NULL::uuid AS run_id, 1 AS count
          FROM noticed s
          JOIN named_effects n ON n.id = s.subject_id
         WHERE n.holder_token IS NOT NULL"
            ),
            ")"
        )
    };
}
pub(crate) use named_compared;

/// The part of a statement that lists the names of its part `lapsed`: processes held them.
macro_rules! named_lapsed {
    () => {
        ",
    noticed AS (
        INSERT INTO attention (subject_id, kind, partition_date, namespace_id, step, since, is_child)
        SELECT l.id, 'named_effect', '-infinity', l.namespace_id, '', l.begun_at, false
          FROM lapsed l
            ON CONFLICT (subject_id, kind, partition_date) DO NOTHING)"
    };
}
pub(crate) use named_lapsed;

/// The condition under which the name `n` is a doubt of its own. Where a run stands at the doubt of this very step,
/// or of its undo, the effect of that run is in the lists; the run may also stand at the doubt of another step.
macro_rules! no_run_stands {
    () => {
        "NOT EXISTS (SELECT
                          FROM runs r
                          JOIN attention d ON d.namespace_id = r.namespace_id AND d.kind = 'doubt'
                                          AND d.accepted_at = r.accepted_at AND d.run_id = r.id
                         WHERE r.state = 'in_doubt'
                           AND r.id = CASE WHEN n.undo_seq IS NULL THEN n.holder_run ELSE n.undo_run END
                           AND d.step = CASE WHEN n.undo_seq IS NULL THEN n.holder_step
                                             ELSE n.holder_step || '.undo' END)"
    };
}
pub(crate) use no_run_stands;

const COMPARE: &str = concat!(
    "
    WITH ",
    named_compared!(),
    "
    SELECT 1"
);

pub(crate) const STATEMENTS: &[&str] = &[COMPARE];

/// Lists a name that is in doubt, or removes one that is not, after its row was locked.
pub(crate) async fn compare(tx: &Transaction<'_>, name: NamedEffectId) -> Result<(), ReadError> {
    tx.execute(COMPARE, &[name.as_uuid()]).await?;
    Ok(())
}
