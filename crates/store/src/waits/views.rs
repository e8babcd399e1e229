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
use crate::listed::{Listed, NEWEST, PAGE_BYTES_MAX, Position, SEARCH_MAX, searched};

macro_rules! listed {
    ($condition:literal) => {
        concat!(
            "
    SELECT w.id, w.run_id, w.step, w.state::text, w.opened_at, w.until, w.ended_at, w.payload
      FROM waits w
     WHERE w.namespace_id = $1 AND w.opened_at IS NOT NULL AND (w.opened_at, w.id) < ($2, $3)",
            $condition,
            "
     ORDER BY w.opened_at DESC, w.id DESC
     LIMIT $4"
        )
    };
}

const ALL: &str = listed!("");
const ALL_OF_RUN: &str = listed!(" AND w.run_id = $5");
const OPEN_OF_RUN: &str = listed!(" AND w.run_id = $5 AND w.state = 'open'");

const SEARCH_OPEN: &str = searched!(
    "
        SELECT w.id, w.opened_at AS at, w.state
          FROM waits w
         WHERE w.namespace_id = $1 AND w.opened_at IS NOT NULL AND (w.opened_at, w.id) < ($2, $3)
         ORDER BY w.opened_at DESC, w.id DESC
         LIMIT $5",
    "
             SELECT w.id, w.run_id, w.step, w.state::text AS state, w.opened_at, w.until, w.ended_at,
                    w.payload
               FROM (SELECT id, at FROM scanned
                      WHERE state = 'open'
                      ORDER BY at DESC, id DESC
                      LIMIT $4) AS s
               JOIN waits w ON w.id = s.id",
    "$4"
);

pub(super) const STATEMENTS: &[&str] = &[ALL, ALL_OF_RUN, OPEN_OF_RUN, SEARCH_OPEN];

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

/// Lists waits, newest first; only open ones unless `ended` asks for all. A page ends after [`PAGE_BYTES_MAX`].
pub async fn list(
    cell: EveryCell<'_>,
    namespace_id: i32,
    ended: bool,
    before: Option<Position>,
    limit: u16,
) -> Result<Listed<WaitView>, ReadError> {
    let (at, id) = before.unwrap_or(NEWEST);
    let most = i64::from(limit);
    let client = cell.reader().await?;
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&namespace_id, &at, &id, &most];
    if ended {
        let (rows, is_cut) = client.query_within(ALL, &values, PAGE_BYTES_MAX).await?;
        return Ok(Listed::read(&rows, limit, read_view, position).cut_if(is_cut, position));
    }
    values.push(&SEARCH_MAX);
    let read = client.query_within(SEARCH_OPEN, &values, PAGE_BYTES_MAX);
    let (rows, is_cut) = read.await?;
    let read = Listed::read_searched(&rows, limit, SEARCH_MAX, read_view, position);
    Ok(read.cut_if(is_cut, position))
}

/// Lists the waits of a run, newest first; only open ones unless `ended` asks for all.
pub async fn list_of_run(
    cell: SlotCell<'_>,
    namespace_id: i32,
    run: RunId,
    ended: bool,
    before: Option<Position>,
    limit: u16,
) -> Result<Listed<WaitView>, ReadError> {
    let text = if ended { ALL_OF_RUN } else { OPEN_OF_RUN };
    let (at, id) = before.unwrap_or(NEWEST);
    let most = i64::from(limit);
    let values: [&(dyn ToSql + Sync); 5] = [&namespace_id, &at, &id, &most, run.as_uuid()];
    let client = cell.reader().await?;
    let (rows, is_cut) = client.query_within(text, &values, PAGE_BYTES_MAX).await?;
    Ok(Listed::read(&rows, limit, read_view, position).cut_if(is_cut, position))
}

/// Only waits that opened are listed.
fn position(wait: &WaitView) -> Position {
    let opened_at = wait.opened_at.unwrap_or(Timestamp::UNIX_EPOCH);
    (opened_at, *wait.id.as_uuid())
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
    let client = cell.reader().await?;
    let read = client.query_within(LIST_OF_VALUE, &values, PAGE_BYTES_MAX);
    let (rows, _) = read.await?;
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
