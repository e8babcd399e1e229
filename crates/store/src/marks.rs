//! Marks: a short text for each thing that pages follow, which changes when what they show does.
//!
//! A server asks for one every second, whoever looks. So each is one statement that reads a bounded
//! number of rows by an index, and none counts.

use semel_model::RunId;
use tokio_postgres::types::ToSql;

use crate::cell::{EveryCell, ReadError, SlotCell};

/// What the newest runs are like: as many as a page of them has.
const RUNS: &str = "
    SELECT md5(string_agg(concat_ws(' ', p.id, p.state, q.stage, q.holder IS NOT NULL, q.cancel), ','
                          ORDER BY p.id))
      FROM (SELECT r.id, r.state
              FROM runs r
             WHERE r.namespace_id = $1 AND r.parent_id IS NULL
             ORDER BY r.accepted_at DESC, r.id DESC
             LIMIT $2) AS p
      LEFT JOIN queue q ON q.run_id = p.id";

/// What is in doubt, the oldest first.
const DOUBTS: &str = "
    SELECT md5(string_agg(concat_ws(' ', p.subject_id, p.since, p.assignee, p.note, p.snoozed_until), ','
                          ORDER BY p.subject_id))
      FROM (SELECT a.subject_id, a.since, a.assignee, a.note, a.snoozed_until
              FROM attention a
             WHERE a.kind = 'doubt' AND a.namespace_id = $1
             ORDER BY a.since, a.subject_id
             LIMIT $2) AS p";

/// What waits for a person, and what the newest runs are like.
const OVERVIEW: &str = "
    SELECT md5(concat_ws(';',
        (SELECT string_agg(concat_ws(' ', a.subject_id, a.since), ',' ORDER BY a.subject_id)
           FROM (SELECT a.subject_id, a.since
                   FROM attention a
                  WHERE a.namespace_id = $1 AND a.kind = 'doubt'
                  ORDER BY a.since, a.subject_id
                  LIMIT $2) AS a),
        (SELECT string_agg(concat_ws(' ', a.run_id, a.kind), ',' ORDER BY a.run_id)
           FROM (SELECT a.run_id, a.kind
                   FROM attention a
                  WHERE a.namespace_id = $1 AND a.kind IN ('needs_review', 'quarantined')
                  ORDER BY a.kind, a.accepted_at, a.run_id
                  LIMIT $2) AS a),
        (SELECT string_agg(p.id::text, ',' ORDER BY p.id)
           FROM (SELECT p.id
                   FROM approvals p
                  WHERE p.namespace_id = $1 AND p.state = 'open'
                  ORDER BY p.opened_at, p.id
                  LIMIT $2) AS p),
        (SELECT string_agg(concat_ws(' ', r.id, r.state), ',' ORDER BY r.id)
           FROM (SELECT r.id, r.state
                   FROM runs r
                  WHERE r.namespace_id = $1 AND r.parent_id IS NULL
                  ORDER BY r.accepted_at DESC, r.id DESC
                  LIMIT $2) AS r)))";

/// How far a run is: every turn of it writes to its journal.
const RUN: &str = "
    SELECT concat_ws('.', r.state, q.seq, q.stage, q.holder IS NOT NULL, q.cancel)
      FROM runs r
      LEFT JOIN queue q ON q.run_id = r.id
     WHERE r.id = $1 AND r.namespace_id = $2";

pub(crate) const STATEMENTS: &[&str] = &[RUNS, DOUBTS, OVERVIEW, RUN];

/// How many rows of each kind a mark is made from: a page shows no more of them.
const ROWS_MAX: i64 = 51;

/// The mark of what there is nothing of.
const NOTHING: &str = "none";

/// What the newest runs are like.
pub async fn of_runs(cell: EveryCell<'_>, namespace_id: i32) -> Result<String, ReadError> {
    of_namespace(cell, RUNS, namespace_id).await
}

/// What is in doubt.
pub async fn of_doubts(cell: EveryCell<'_>, namespace_id: i32) -> Result<String, ReadError> {
    of_namespace(cell, DOUBTS, namespace_id).await
}

/// What waits for a person, and what the newest runs are like.
pub async fn of_overview(cell: EveryCell<'_>, namespace_id: i32) -> Result<String, ReadError> {
    of_namespace(cell, OVERVIEW, namespace_id).await
}

async fn of_namespace(
    cell: EveryCell<'_>,
    statement: &str,
    namespace_id: i32,
) -> Result<String, ReadError> {
    let client = cell.reader().await?;
    let values: [&(dyn ToSql + Sync); 2] = [&namespace_id, &ROWS_MAX];
    let mark: Option<String> = client.query_one(statement, &values).await?.get(0);
    Ok(mark.unwrap_or_else(|| NOTHING.to_owned()))
}

/// How far a run is; the same for one of another namespace and for one that is not there.
pub async fn of_run(
    cell: SlotCell<'_>,
    namespace_id: i32,
    run: RunId,
) -> Result<String, ReadError> {
    let client = cell.reader().await?;
    let values: [&(dyn ToSql + Sync); 2] = [run.as_uuid(), &namespace_id];
    let row = client.query_opt(RUN, &values).await?;
    Ok(row.map_or_else(|| NOTHING.to_owned(), |row| row.get(0)))
}
