//! Child runs as their parent and the API see them: counts by state, and one by one.

use semel_model::RunId;
use semel_model::run::RunState;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::ChildrenOf;
use crate::cell::{EveryCell, ReadError, SlotCell};
use crate::listed::PAGE_BYTES_MAX;
use crate::runs::{read_json, read_state};

pub(super) const COUNT: &str = "
    SELECT count(*) FILTER (WHERE state = 'pending'), count(*) FILTER (WHERE state = 'open'),
           count(*) FILTER (WHERE state = 'succeeded'), count(*) FILTER (WHERE state = 'failed'),
           count(*) FILTER (WHERE state = 'cancelled')
      FROM child_runs
     WHERE parent_id = $1 AND step = $2";

pub(super) const STEPS: &str = "
    SELECT step, count(*) FILTER (WHERE state = 'pending'), count(*) FILTER (WHERE state = 'open'),
           count(*) FILTER (WHERE state = 'succeeded'), count(*) FILTER (WHERE state = 'failed'),
           count(*) FILTER (WHERE state = 'cancelled')
      FROM child_runs
     WHERE parent_id = $1
     GROUP BY step ORDER BY min(ended_at), step";

/// The page first: of a hundred thousand items only those that are shown have their run read.
macro_rules! listed {
    ($condition:literal) => {
        concat!(
            "
    WITH page AS MATERIALIZED (
        SELECT p.step, p.index, p.key, p.run_id, p.state
          FROM child_runs p
         WHERE p.parent_id = $1 AND (p.step, p.index) > ($2, $3)",
            $condition,
            "
         ORDER BY p.step, p.index
         LIMIT $4)
    SELECT p.step, p.index, p.key, p.run_id, p.state::text, r.state::text, r.result, r.fault
      FROM page p
      LEFT JOIN runs r ON r.id = p.run_id
     ORDER BY p.step, p.index"
        )
    };
}

pub(super) const ALL: &str = listed!("");
pub(super) const OF_STEP: &str = listed!(" AND p.step = $5");
pub(super) const SUCCEEDED: &str = listed!(" AND p.state = 'succeeded'");
pub(super) const SUCCEEDED_OF_STEP: &str = listed!(" AND p.step = $5 AND p.state = 'succeeded'");

/// By the index of those that did not succeed: few, once a list is through.
pub(super) const LEFT: &str =
    listed!(" AND p.state <> 'succeeded' AND p.state = $5::text::child_state");
pub(super) const LEFT_OF_STEP: &str =
    listed!(" AND p.step = $5 AND p.state <> 'succeeded' AND p.state = $6::text::child_state");

pub(super) const FIRST_SUCCEEDED: &str = "
    SELECT p.step, p.index, p.key, p.run_id, p.state::text, r.state::text, r.result, r.fault
      FROM child_runs p
      LEFT JOIN runs r ON r.id = p.run_id
     WHERE p.parent_id = $1 AND p.step = $2 AND p.state = 'succeeded'
     ORDER BY p.ended_at, p.index
     LIMIT 1";

/// By the hash of the key, which the index has: a key may be longer than an index takes. Whatever the
/// statistics say, only the runs of the items that were found are read.
pub(super) const FIND_BY_KEY: &str = "
    SELECT p.step, p.index, p.key, p.run_id, p.state::text, r.state::text, r.result, r.fault,
           p.parent_id
      FROM child_runs p
     CROSS JOIN LATERAL (
        SELECT accepted_at FROM runs WHERE id = p.parent_id LIMIT 1) AS parent
      LEFT JOIN LATERAL (
        SELECT state, result, fault FROM runs WHERE id = p.run_id LIMIT 1) AS r ON true
     WHERE p.namespace_id = $1 AND hashtextextended(p.key, 0) = hashtextextended($2, 0)
       AND p.key = $2
     ORDER BY parent.accepted_at DESC, p.parent_id, p.step
     LIMIT $3";

/// How many child runs are in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChildCounts {
    /// Not started.
    pub pending: i64,
    /// Started and not ended, including those that are stopped for an operator.
    pub open: i64,
    /// Ended, with a result.
    pub succeeded: i64,
    /// Ended, with a fault.
    pub failed: i64,
    /// Ended before their time.
    pub cancelled: i64,
}

impl ChildCounts {
    /// All of them.
    pub fn all(&self) -> i64 {
        self.pending + self.open + self.succeeded + self.failed + self.cancelled
    }
}

/// A child run as the API shows it.
#[derive(Clone, Debug)]
pub struct ChildRunView {
    /// The step.
    pub step: String,
    /// Its place in the list.
    pub index: i32,
    /// What distinguishes it from the others.
    pub key: String,
    /// Its run.
    pub run: RunId,
    /// Its state.
    pub state: String,
    /// The state of its run, once it started.
    pub run_state: Option<RunState>,
    /// The result of its run, as JSON text.
    pub result: Option<String>,
    /// What was wrong with it, as JSON text.
    pub fault: Option<String>,
}

/// Counts the child runs of a step.
pub async fn count(cell: SlotCell<'_>, of: ChildrenOf<'_>) -> Result<ChildCounts, ReadError> {
    let client = cell.reader().await?;
    let row = client
        .query_one(COUNT, &[of.parent.as_uuid(), &of.step])
        .await?;
    Ok(read_counts(&row, 0))
}

/// Counts the child runs of a run, by step.
pub async fn steps(
    cell: SlotCell<'_>,
    parent: RunId,
) -> Result<Vec<(String, ChildCounts)>, ReadError> {
    let client = cell.reader().await?;
    let rows = client.query(STEPS, &[parent.as_uuid()]).await?;
    let read = |row: &Row| (row.get(0), read_counts(row, 1));
    Ok(rows.iter().map(read).collect())
}

/// Which child runs a list has.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChildRunFilter<'a> {
    /// Those of this step.
    pub step: Option<&'a str>,
    /// Those in this state.
    pub state: Option<&'a str>,
    /// Those behind this step and place.
    pub after: Option<(&'a str, i32)>,
}

/// Lists child runs of a run, in order.
pub async fn list(
    cell: SlotCell<'_>,
    parent: RunId,
    filter: ChildRunFilter<'_>,
    limit: i64,
) -> Result<Vec<ChildRunView>, ReadError> {
    Ok(read(cell, parent, filter, limit, usize::MAX).await?.0)
}

/// A page of child runs of a run, in order; says whether others follow. It ends after [`PAGE_BYTES_MAX`].
pub async fn list_page(
    cell: SlotCell<'_>,
    parent: RunId,
    filter: ChildRunFilter<'_>,
    limit: u16,
) -> Result<(Vec<ChildRunView>, bool), ReadError> {
    let most = i64::from(limit);
    let (found, is_cut) = read(cell, parent, filter, most, PAGE_BYTES_MAX).await?;
    let is_full = found.len() == usize::from(limit);
    Ok((found, is_cut || is_full))
}

async fn read(
    cell: SlotCell<'_>,
    parent: RunId,
    filter: ChildRunFilter<'_>,
    limit: i64,
    bytes_max: usize,
) -> Result<(Vec<ChildRunView>, bool), ReadError> {
    let ChildRunFilter { step, state, after } = filter;
    let (after_step, after_index) = after.unwrap_or(("", -1));
    let mut values: Vec<&(dyn ToSql + Sync)> =
        vec![parent.as_uuid(), &after_step, &after_index, &limit];
    if let Some(step) = &step {
        values.push(step);
    }
    let text = match (&step, &state) {
        (None, None) => ALL,
        (Some(_), None) => OF_STEP,
        (None, Some("succeeded")) => SUCCEEDED,
        (Some(_), Some("succeeded")) => SUCCEEDED_OF_STEP,
        (step, Some(state)) => {
            values.push(state);
            step.map_or(LEFT, |_| LEFT_OF_STEP)
        }
    };
    let client = cell.reader().await?;
    let (rows, is_cut) = client.query_within(text, &values, bytes_max).await?;
    Ok((rows.iter().map(read_view).collect(), is_cut))
}

/// The child run of a step that succeeded first.
pub async fn first_succeeded(
    cell: SlotCell<'_>,
    of: ChildrenOf<'_>,
) -> Result<Option<ChildRunView>, ReadError> {
    let client = cell.reader().await?;
    let row = client
        .query_opt(FIRST_SUCCEEDED, &[of.parent.as_uuid(), &of.step])
        .await?;
    Ok(row.as_ref().map(read_view))
}

/// The child runs of all runs whose items have this key, those of the newest runs first, each with its
/// parent; and whether others were left because of [`PAGE_BYTES_MAX`].
pub async fn find_by_key(
    cell: EveryCell<'_>,
    namespace_id: i32,
    key: &str,
    limit: u16,
) -> Result<(Vec<(RunId, ChildRunView)>, bool), ReadError> {
    let values: [&(dyn ToSql + Sync); 3] = [&namespace_id, &key, &i64::from(limit)];
    let client = cell.reader().await?;
    let read = client.query_within(FIND_BY_KEY, &values, PAGE_BYTES_MAX);
    let (rows, is_cut) = read.await?;
    let read = |row: &Row| (RunId::from_uuid(row.get(8)), read_view(row));
    Ok((rows.iter().map(read).collect(), is_cut))
}

fn read_counts(row: &Row, from: usize) -> ChildCounts {
    ChildCounts {
        pending: row.get(from),
        open: row.get(from + 1),
        succeeded: row.get(from + 2),
        failed: row.get(from + 3),
        cancelled: row.get(from + 4),
    }
}

fn read_view(row: &Row) -> ChildRunView {
    let state: Option<&str> = row.get(5);
    ChildRunView {
        step: row.get(0),
        index: row.get(1),
        key: row.get(2),
        run: RunId::from_uuid(row.get(3)),
        state: row.get(4),
        run_state: state.map(read_state),
        result: read_json(row, 6),
        fault: read_json(row, 7),
    }
}
