//! Plans and their runs, as the API shows them.

use jiff::Timestamp;
use semel_model::{ReplayPlanId, RunId};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::cell::{HomeCell, ReadError};
use crate::listed::{Listed, NEWEST, Position};

macro_rules! counted {
    ($condition:literal) => {
        concat!(
            "
    SELECT p.id, p.flow, p.release, p.state, p.per_second, p.actor, p.reason, p.created_at,
           i.runs, i.previewed, i.replayed, i.refused, p.stopped_because
      FROM replay_plans p
     CROSS JOIN LATERAL (
           SELECT count(*) AS runs, count(*) FILTER (WHERE state = 'previewed') AS previewed,
                  count(*) FILTER (WHERE state = 'replayed') AS replayed,
                  count(*) FILTER (WHERE state = 'refused') AS refused
             FROM replay_items WHERE plan_id = p.id) AS i
     WHERE p.namespace_id = $1",
            $condition
        )
    };
}

const LIST: &str = counted!(
    " AND (p.created_at, p.id) < ($2, $3)
     ORDER BY p.created_at DESC, p.id DESC
     LIMIT $4"
);
const FIND: &str = counted!(" AND p.id = $2");

const SUMMARIES: &str = "
    SELECT summary, code, count(*)
      FROM replay_items
     WHERE plan_id = $1 AND coalesce(summary, code) IS NOT NULL
     GROUP BY summary, code
     ORDER BY count(*) DESC, summary, code
     LIMIT 100";

macro_rules! items {
    ($condition:literal) => {
        concat!(
            "
    SELECT run_id, state, summary, next_run, code, note
      FROM replay_items
     WHERE plan_id = $1 AND run_id > $2",
            $condition,
            "
     ORDER BY run_id
     LIMIT $3"
        )
    };
}

const ITEMS: &str = items!("");
const ITEMS_IN_STATE: &str = items!(" AND state = $4");

pub(crate) const STATEMENTS: &[&str] = &[LIST, FIND, SUMMARIES, ITEMS, ITEMS_IN_STATE];

/// A plan as the API shows it.
#[derive(Clone, Debug)]
pub struct PlanView {
    /// The plan.
    pub id: ReplayPlanId,
    /// The flow of its runs.
    pub flow: String,
    /// The number of the release that they are replayed on.
    pub release: i32,
    /// The state's name.
    pub state: String,
    /// The most runs that are replayed in a second.
    pub per_second: i32,
    /// Who made it.
    pub actor: String,
    /// Why.
    pub reason: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// How many runs it has.
    pub run_count: i64,
    /// How many of them can be replayed and were not.
    pub previewed_count: i64,
    /// How many of them were replayed.
    pub replayed_count: i64,
    /// How many of them are not replayed.
    pub refused_count: i64,
    /// Why Semel stopped it, where it did.
    pub stopped_because: Option<String>,
}

/// How many runs of a plan have the same preview.
#[derive(Clone, Debug)]
pub struct SummaryCount {
    /// What the preview shows, in short.
    pub summary: Option<String>,
    /// Why the runs are refused, where they are.
    pub code: Option<String>,
    /// How many.
    pub run_count: i64,
}

/// A run of a plan as the API shows it.
#[derive(Clone, Debug)]
pub struct PlanItemView {
    /// The run.
    pub run: RunId,
    /// The state's name.
    pub state: String,
    /// What its preview shows, in short.
    pub summary: Option<String>,
    /// The run that replays it.
    pub next: Option<RunId>,
    /// Why it is refused, as a stable word.
    pub code: Option<String>,
    /// Why it is refused, in words.
    pub note: Option<String>,
}

/// Which runs of a plan to list.
#[derive(Clone, Copy, Debug, Default)]
pub struct ItemFilter<'a> {
    /// In this state.
    pub state: Option<&'a str>,
    /// After this one, for the next page.
    pub after: Option<RunId>,
}

/// Lists the plans of a namespace, newest first.
pub async fn list(
    cell: HomeCell<'_>,
    namespace_id: i32,
    before: Option<Position>,
    limit: u16,
) -> Result<Listed<PlanView>, ReadError> {
    let (at, id) = before.unwrap_or(NEWEST);
    let most = i64::from(limit);
    let client = cell.reader().await?;
    let rows = client
        .query(LIST, &[&namespace_id, &at, &id, &most])
        .await?;
    let position = |plan: &PlanView| (plan.created_at, *plan.id.as_uuid());
    Ok(Listed::read(&rows, limit, read_plan, position))
}

/// Looks one plan up.
pub async fn find(
    cell: HomeCell<'_>,
    namespace_id: i32,
    plan: ReplayPlanId,
) -> Result<Option<PlanView>, ReadError> {
    let client = cell.reader().await?;
    let values: [&(dyn ToSql + Sync); 2] = [&namespace_id, plan.as_uuid()];
    let row = client.query_opt(FIND, &values).await?;
    Ok(row.as_ref().map(read_plan))
}

fn read_plan(row: &Row) -> PlanView {
    PlanView {
        id: ReplayPlanId::from_uuid(row.get(0)),
        flow: row.get(1),
        release: row.get(2),
        state: row.get(3),
        per_second: row.get(4),
        actor: row.get(5),
        reason: row.get(6),
        created_at: row.get(7),
        run_count: row.get(8),
        previewed_count: row.get(9),
        replayed_count: row.get(10),
        refused_count: row.get(11),
        stopped_because: row.get(12),
    }
}

/// Counts the runs of a plan by what their previews show, the most frequent first.
pub async fn list_summaries(
    cell: HomeCell<'_>,
    plan: ReplayPlanId,
) -> Result<Vec<SummaryCount>, ReadError> {
    let client = cell.reader().await?;
    let rows = client.query(SUMMARIES, &[plan.as_uuid()]).await?;
    let read = |row: &Row| SummaryCount {
        summary: row.get(0),
        code: row.get(1),
        run_count: row.get(2),
    };
    Ok(rows.iter().map(read).collect())
}

/// Lists runs of a plan.
pub async fn list_items(
    cell: HomeCell<'_>,
    plan: ReplayPlanId,
    filter: ItemFilter<'_>,
    limit: u16,
) -> Result<Vec<PlanItemView>, ReadError> {
    // Before every run, where a list begins.
    let after = filter.after.map_or(Uuid::nil(), |run| *run.as_uuid());
    let limit = i64::from(limit);
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![plan.as_uuid(), &after, &limit];
    let text = match &filter.state {
        Some(state) => {
            values.push(state);
            ITEMS_IN_STATE
        }
        None => ITEMS,
    };
    let rows = cell.reader().await?.query(text, &values).await?;
    let read = |row: &Row| PlanItemView {
        run: RunId::from_uuid(row.get(0)),
        state: row.get(1),
        summary: row.get(2),
        next: row.get::<_, Option<Uuid>>(3).map(RunId::from_uuid),
        code: row.get(4),
        note: row.get(5),
    };
    Ok(rows.iter().map(read).collect())
}
