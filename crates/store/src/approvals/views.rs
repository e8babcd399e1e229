//! Approvals as the API shows them.

use jiff::Timestamp;
use semel_model::approval::{ApprovalDecision, ApprovalState, Digest};
use semel_model::{Key, RunId, WaitId};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::read_decision;
use crate::cell::{EveryCell, ReadError, SlotCell};
use crate::listed::{Listed, NEWEST, PAGE_BYTES_MAX, Position};

/// The columns that [`read_view`] reads.
macro_rules! select {
    ($filter:literal) => {
        concat!(
            "
    SELECT a.id, a.run_id, a.flow, a.step,
           CASE WHEN a.state = 'open' AND a.until <= moment()
                     AND (SELECT 1 FROM paused_runs p WHERE p.run_id = ANY (ARRAY[a.run_id]) LIMIT 1) IS NULL
                THEN 'elapsed' ELSE a.state::text END,
           a.people, a.escalate, a.escalate_at, a.escalate_at <= moment(), a.shown::text, a.digest,
           a.login, a.not_by, a.opened_at, a.until, a.approved, a.decided_by, a.comment,
           a.ended_at, a.namespace_id, a.round, (SELECT r.key FROM runs r WHERE r.id = a.run_id)
      FROM approvals a",
            $filter
        )
    };
}

macro_rules! listed {
    ($condition:literal) => {
        concat!(
            select!(
                "
     WHERE a.namespace_id = $1 AND (a.opened_at, a.id) < ($2, $3)"
            ),
            $condition,
            "
     ORDER BY a.opened_at DESC, a.id DESC
     LIMIT $4"
        )
    };
}

const ALL: &str = listed!("");
const OPEN: &str = listed!(" AND a.state = 'open'");
const ALL_OF_RUN: &str = listed!(" AND a.id BETWEEN $5 AND $6 AND a.run_id = $7");
const OPEN_OF_RUN: &str =
    listed!(" AND a.id BETWEEN $5 AND $6 AND a.run_id = $7 AND a.state = 'open'");

const FIND: &str = select!(
    "
     WHERE a.id = $1"
);

pub(crate) const STATEMENTS: &[&str] = &[ALL, OPEN, ALL_OF_RUN, OPEN_OF_RUN, FIND];

/// An approval as the API shows it.
#[derive(Clone, Debug)]
pub struct ApprovalView {
    /// The approval.
    pub wait: WaitId,
    /// Its run.
    pub run: RunId,
    /// The namespace that owns it.
    pub namespace_id: i32,
    /// The flow.
    pub flow: String,
    /// The step's path.
    pub step: String,
    /// Its state.
    pub state: ApprovalState,
    /// Who may decide.
    pub people: Vec<String>,
    /// Who else may, once half of the time is over.
    pub escalate: Vec<String>,
    /// When that is.
    pub escalate_at: Option<Timestamp>,
    /// Whether it is.
    pub escalated: bool,
    /// What is decided about, as JSON text.
    pub shown: String,
    /// Its digest.
    pub digest: Digest,
    /// Whether the link alone is not enough.
    pub login: bool,
    /// Who may not decide, because they started the run.
    pub not_by: Option<String>,
    /// When people were asked.
    pub opened_at: Timestamp,
    /// When it ends by itself.
    pub until: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// What was decided.
    pub decision: Option<ApprovalDecision>,
    /// How many times the run had asked the same before.
    pub round: i32,
    /// The key of the run, while the run is known.
    pub key: Option<Key>,
}

/// Lists approvals, newest first; only open ones unless `ended` asks for all. A page ends after [`PAGE_BYTES_MAX`].
pub async fn list(
    cell: EveryCell<'_>,
    namespace_id: i32,
    ended: bool,
    before: Option<Position>,
    limit: u16,
) -> Result<Listed<ApprovalView>, ReadError> {
    let text = if ended { ALL } else { OPEN };
    let (at, id) = before.unwrap_or(NEWEST);
    let most = i64::from(limit);
    let values: [&(dyn ToSql + Sync); 4] = [&namespace_id, &at, &id, &most];
    let client = cell.reader().await?;
    let (rows, is_cut) = client.query_within(text, &values, PAGE_BYTES_MAX).await?;
    Ok(Listed::read(&rows, limit, read_view, position).cut_if(is_cut, position))
}

/// Lists the approvals of a run, newest first; only open ones unless `ended` asks for all.
pub async fn list_of_run(
    cell: SlotCell<'_>,
    namespace_id: i32,
    run: RunId,
    ended: bool,
    before: Option<Position>,
    limit: u16,
) -> Result<Listed<ApprovalView>, ReadError> {
    let text = if ended { ALL_OF_RUN } else { OPEN_OF_RUN };
    let (at, id) = before.unwrap_or(NEWEST);
    let most = i64::from(limit);
    let (low, high) = run.wait_range();
    let values: [&(dyn ToSql + Sync); 7] =
        [&namespace_id, &at, &id, &most, &low, &high, run.as_uuid()];
    let client = cell.reader().await?;
    let (rows, is_cut) = client.query_within(text, &values, PAGE_BYTES_MAX).await?;
    Ok(Listed::read(&rows, limit, read_view, position).cut_if(is_cut, position))
}

fn position(approval: &ApprovalView) -> Position {
    (approval.opened_at, *approval.wait.as_uuid())
}

/// Looks one approval up.
pub async fn find(
    cell: SlotCell<'_>,
    namespace_id: i32,
    wait: WaitId,
) -> Result<Option<ApprovalView>, ReadError> {
    find_in(cell, Some(namespace_id), wait).await
}

/// Finds one approval for the holder of its link.
pub async fn find_by_link(
    cell: SlotCell<'_>,
    wait: WaitId,
) -> Result<Option<ApprovalView>, ReadError> {
    find_in(cell, None, wait).await
}

async fn find_in(
    cell: SlotCell<'_>,
    namespace_id: Option<i32>,
    wait: WaitId,
) -> Result<Option<ApprovalView>, ReadError> {
    let client = cell.reader().await?;
    let row = client.query_opt(FIND, &[wait.as_uuid()]).await?;
    let found = row.as_ref().map(read_view);
    // What belongs to another namespace is not there.
    Ok(found.filter(|it| namespace_id.is_none_or(|of| it.namespace_id == of)))
}

fn read_view(row: &Row) -> ApprovalView {
    let state = match row.get::<_, &str>(4).parse() {
        Ok(state) => state,
        Err(_) => unreachable!("the record has no such approval state"),
    };
    let digest: &str = row.get(10);
    ApprovalView {
        wait: WaitId::from_uuid(row.get(0)),
        run: RunId::from_uuid(row.get(1)),
        flow: row.get(2),
        step: row.get(3),
        state,
        people: row.get(5),
        escalate: row.get(6),
        escalate_at: row.get(7),
        escalated: row.get::<_, Option<bool>>(8) == Some(true),
        shown: row.get(9),
        digest: Digest::from_text(digest),
        login: row.get(11),
        not_by: row.get(12),
        opened_at: row.get(13),
        until: row.get(14),
        decision: read_decision(row, 15),
        ended_at: row.get(18),
        namespace_id: row.get(19),
        round: row.get(20),
        key: row
            .get::<_, Option<Vec<u8>>>(21)
            .and_then(|key| Key::new(key).ok()),
    }
}
