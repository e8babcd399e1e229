//! Approvals as the API shows them.

use jiff::Timestamp;
use semel_model::approval::{ApprovalDecision, ApprovalState, Digest};
use semel_model::{RunId, WaitId};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::read_decision;
use crate::cell::{EveryCell, ReadError, SlotCell};
use crate::pool::PooledClient;

/// The columns that [`read_view`] reads.
macro_rules! select {
    ($filter:literal) => {
        concat!(
            "
    SELECT a.id, a.run_id, a.flow, a.step,
           CASE WHEN a.state = 'open' AND a.until <= moment()
                     AND NOT EXISTS (SELECT 1 FROM paused_runs p WHERE p.run_id = a.run_id)
                THEN 'elapsed' ELSE a.state::text END,
           a.people, a.escalate, a.escalate_at, a.escalate_at <= moment(), a.shown::text, a.digest,
           a.login, a.not_by, a.opened_at, a.until, a.approved, a.decided_by, a.comment,
           a.ended_at, a.namespace_id, a.round
      FROM approvals a",
            $filter
        )
    };
}

const LIST: &str = select!(
    "
     WHERE a.namespace_id = $1
       AND ($2::uuid IS NULL OR a.run_id = $2)
       AND ($3 OR a.state = 'open')
     ORDER BY a.opened_at DESC
     LIMIT $4"
);

const FIND: &str = select!(
    "
     WHERE a.id = $1 AND ($2::int4 IS NULL OR a.namespace_id = $2)"
);

pub(crate) const STATEMENTS: &[&str] = &[LIST, FIND];

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
}

/// Lists approvals, newest first; only open ones unless `ended` asks for all.
pub async fn list(
    cell: EveryCell<'_>,
    namespace_id: i32,
    ended: bool,
    limit: u16,
) -> Result<Vec<ApprovalView>, ReadError> {
    read_views(&cell.reader().await?, namespace_id, None, ended, limit).await
}

/// Lists the approvals of a run, newest first; only open ones unless `ended` asks for all.
pub async fn list_of_run(
    cell: SlotCell<'_>,
    namespace_id: i32,
    run: RunId,
    ended: bool,
    limit: u16,
) -> Result<Vec<ApprovalView>, ReadError> {
    read_views(&cell.reader().await?, namespace_id, Some(run), ended, limit).await
}

async fn read_views(
    client: &PooledClient,
    namespace_id: i32,
    run: Option<RunId>,
    ended: bool,
    limit: u16,
) -> Result<Vec<ApprovalView>, ReadError> {
    let run = run.map(|run| *run.as_uuid());
    let limit = i64::from(limit);
    let values: [&(dyn ToSql + Sync); 4] = [&namespace_id, &run, &ended, &limit];
    let rows = client.query(LIST, &values).await?;
    Ok(rows.iter().map(read_view).collect())
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
    let statement = client.prepare_cached(FIND).await?;
    let row = client
        .query_opt(&statement, &[wait.as_uuid(), &namespace_id])
        .await?;
    Ok(row.as_ref().map(read_view))
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
    }
}
