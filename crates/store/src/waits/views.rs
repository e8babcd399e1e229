//! Waits as the API shows them.

use jiff::Timestamp;
use semel_model::storable::indexed;
use semel_model::wait::WaitState;
use semel_model::{RunId, WaitId};
use serde_json::Value;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::read_state;
use crate::cell::{EveryCell, ReadError, SlotCell};
use crate::pool::PooledClient;

pub(super) const LIST: &str = "
    SELECT w.id, w.run_id, w.step, w.state::text, w.opened_at, w.until, w.ended_at, w.payload
      FROM waits w
      JOIN runs r ON r.id = w.run_id
     WHERE r.namespace_id = $1
       AND ($2::uuid IS NULL OR w.run_id = $2)
       AND ($3 OR w.state = 'open')
       AND w.opened_at IS NOT NULL
     ORDER BY w.opened_at DESC
     LIMIT $4";

pub(super) const FIND: &str = "
    SELECT w.id, w.run_id, w.step, w.state::text, w.opened_at, w.until, w.ended_at, w.payload
      FROM waits w
      JOIN runs r ON r.id = w.run_id
     WHERE r.namespace_id = $1 AND w.id = $2";

/// Open waits for an event with this value, whatever the event.
pub(super) const LIST_OF_VALUE: &str = "
    SELECT w.id, w.run_id, w.step, w.state::text, w.opened_at, w.until, w.ended_at, w.payload
      FROM event_waits e
      JOIN waits w ON w.id = e.wait_id
     WHERE e.namespace_id = $1 AND e.value = ANY ($2)
     ORDER BY w.opened_at DESC
     LIMIT $3";

/// A wait as the API shows it.
#[derive(Clone, Debug)]
pub struct WaitView {
    /// The wait.
    pub id: WaitId,
    /// Its run.
    pub run: RunId,
    /// The step's path.
    pub step: Option<String>,
    /// Its state.
    pub state: WaitState,
    /// When the run came to it.
    pub opened_at: Option<Timestamp>,
    /// When it ends by itself.
    pub until: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// What the callback brought, as JSON text.
    pub payload: Option<String>,
}

/// Lists waits, newest first; only open ones unless `ended` asks for all.
pub async fn list(
    cell: EveryCell<'_>,
    namespace_id: i32,
    ended: bool,
    limit: u16,
) -> Result<Vec<WaitView>, ReadError> {
    read_views(&cell.reader().await?, namespace_id, None, ended, limit).await
}

/// Lists the waits of a run, newest first; only open ones unless `ended` asks for all.
pub async fn list_of_run(
    cell: SlotCell<'_>,
    namespace_id: i32,
    run: RunId,
    ended: bool,
    limit: u16,
) -> Result<Vec<WaitView>, ReadError> {
    read_views(&cell.reader().await?, namespace_id, Some(run), ended, limit).await
}

/// Lists the open waits for an event that one of these values tells from others, newest first.
pub async fn list_of_event_values(
    cell: EveryCell<'_>,
    namespace_id: i32,
    wanted: &[Value],
    limit: u16,
) -> Result<Vec<WaitView>, ReadError> {
    let texts = wanted.iter().map(Value::to_string);
    let texts: Vec<String> = texts.map(|text| indexed(&text).into_owned()).collect();
    let values: [&(dyn ToSql + Sync); 3] = [&namespace_id, &texts, &i64::from(limit)];
    let rows = cell.reader().await?.query(LIST_OF_VALUE, &values).await?;
    Ok(rows.iter().map(read_view).collect())
}

async fn read_views(
    client: &PooledClient,
    namespace_id: i32,
    run: Option<RunId>,
    ended: bool,
    limit: u16,
) -> Result<Vec<WaitView>, ReadError> {
    let run = run.map(|run| *run.as_uuid());
    let limit = i64::from(limit);
    let rows = client
        .query(LIST, &[&namespace_id, &run, &ended, &limit])
        .await?;
    Ok(rows.iter().map(read_view).collect())
}

/// Looks one wait up.
pub async fn find(
    cell: SlotCell<'_>,
    namespace_id: i32,
    wait: WaitId,
) -> Result<Option<WaitView>, ReadError> {
    let client = cell.reader().await?;
    let row = client
        .query_opt(FIND, &[&namespace_id, wait.as_uuid()])
        .await?;
    Ok(row.as_ref().map(read_view))
}

fn read_view(row: &Row) -> WaitView {
    let state = read_state(row.get(3));
    WaitView {
        id: WaitId::from_uuid(row.get(0)),
        run: RunId::from_uuid(row.get(1)),
        step: row.get(2),
        state,
        opened_at: row.get(4),
        until: row.get(5),
        ended_at: row.get(6),
        payload: crate::runs::read_json(row, 7).filter(|_| state == WaitState::Answered),
    }
}
