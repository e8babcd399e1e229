//! Lists of the ledger, newest first.
//!
//! The ledger has no order by time that an index could follow: its rows come in order, and a BRIN
//! index says which blocks have rows of a time. So a page is read from windows of time that widen
//! until the page is full. What is in doubt is found through `attention`.

use jiff::{SignedDuration, Timestamp};
use semel_model::effect::EffectState;
use semel_model::storable::indexed;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{EffectView, read_view};
use crate::cell::{EveryCell, ReadError};
use crate::listed::{Listed, NEWEST, Position, SEARCH_MAX, searched};

/// How far back each window reaches, in seconds; behind the last, to the beginning.
const WINDOWS_SECS: [i64; 4] = [2, 120, 7_200, 432_000];

const NOW: &str = "SELECT moment()";

const WINDOW: &str = "
    SELECT e.id, e.run_id, e.step, e.kind, e.guard::text, e.state::text, e.attempt, e.intended_at,
           e.settled_at, e.external_id, e.note, e.partition_date
      FROM effects e
     WHERE e.namespace_id = $1 AND e.intended_at >= $2 AND e.intended_at <= $3
       AND (e.intended_at, e.id) < ($3, $4)
     ORDER BY e.intended_at DESC, e.id DESC
     LIMIT $5";

const SEARCH_WINDOW: &str = searched!(
    "
        SELECT e.id, e.run_id, e.step, e.kind, e.guard, e.state, e.attempt, e.intended_at AS at,
               e.settled_at, e.external_id, e.note, e.partition_date
          FROM effects e
         WHERE e.namespace_id = $1 AND e.intended_at >= $2 AND e.intended_at <= $3
           AND (e.intended_at, e.id) < ($3, $4)
         ORDER BY e.intended_at DESC, e.id DESC
         LIMIT $7",
    "
             SELECT s.id, s.run_id, s.step, s.kind, s.guard::text, s.state::text AS state, s.attempt,
                    s.at, s.settled_at, s.external_id, s.note, s.partition_date
               FROM scanned s
              WHERE s.state = $6::text::effect_state",
    "$5"
);

const DOUBTS_NEWEST_FIRST: &str = "
    SELECT e.id, e.run_id, e.step, e.kind, e.guard::text, e.state::text, e.attempt, e.intended_at,
           e.settled_at, e.external_id, e.note, e.partition_date
      FROM attention a
      JOIN effects e ON e.partition_date = a.partition_date AND e.id = a.subject_id
     WHERE a.kind = 'doubt' AND a.namespace_id = $1 AND (a.since, a.subject_id) < ($2, $3)
     ORDER BY a.since DESC, a.subject_id DESC
     LIMIT $4";

const OF_EXTERNAL_ID: &str = "
    SELECT e.id, e.run_id, e.step, e.kind, e.guard::text, e.state::text, e.attempt, e.intended_at,
           e.settled_at, e.external_id, e.note, e.partition_date
      FROM effects e
     WHERE e.namespace_id = $1 AND e.external_id = $2 AND e.state::text = ANY ($3)
       AND (e.intended_at, e.id) < ($4, $5)
     ORDER BY e.intended_at DESC, e.id DESC
     LIMIT $6";

pub(crate) const STATEMENTS: &[&str] = &[
    NOW,
    WINDOW,
    SEARCH_WINDOW,
    DOUBTS_NEWEST_FIRST,
    OF_EXTERNAL_ID,
];

/// Lists effects, newest first.
pub async fn list(
    cell: EveryCell<'_>,
    namespace_id: i32,
    state: Option<EffectState>,
    before: Option<Position>,
    limit: u16,
) -> Result<Listed<EffectView>, ReadError> {
    match state {
        None => list_all(cell, namespace_id, before, limit).await,
        Some(EffectState::InDoubt) => list_doubts(cell, namespace_id, before, limit).await,
        Some(
            state @ (EffectState::Pending
            | EffectState::Retrying
            | EffectState::Done
            | EffectState::Failed),
        ) => search(cell, namespace_id, state, before, limit).await,
    }
}

/// The windows before a position, each from its beginning to its end.
async fn windows(
    client: &tokio_postgres::Client,
    before: Option<Position>,
) -> Result<Vec<(Timestamp, Position)>, ReadError> {
    let from = match before {
        Some((at, _)) => at,
        None => client.query_one(NOW, &[]).await?.get(0),
    };
    let reach = |secs: &i64| from.checked_sub(SignedDuration::from_secs(*secs)).ok();
    let starts = WINDOWS_SECS.iter().filter_map(reach);
    let mut end = before.unwrap_or(NEWEST);
    let mut windows = Vec::with_capacity(WINDOWS_SECS.len() + 1);
    for start in starts.chain([Timestamp::UNIX_EPOCH]) {
        windows.push((start, end));
        // What began at the instant itself is in the window that was read.
        end = (start, Uuid::nil());
    }
    Ok(windows)
}

async fn list_all(
    cell: EveryCell<'_>,
    namespace_id: i32,
    before: Option<Position>,
    limit: u16,
) -> Result<Listed<EffectView>, ReadError> {
    let client = cell.reader().await?;
    let mut found: Vec<Row> = Vec::new();
    for (start, (at, id)) in windows(&client, before).await? {
        let left = i64::from(limit) - found.len() as i64;
        let values: [&(dyn ToSql + Sync); 5] = [&namespace_id, &start, &at, &id, &left];
        found.extend(client.query(WINDOW, &values).await?);
        if found.len() >= usize::from(limit) {
            break;
        }
    }
    Ok(Listed::read(&found, limit, read_view, position))
}

/// Looks at a limited number of effects in each window.
async fn search(
    cell: EveryCell<'_>,
    namespace_id: i32,
    state: EffectState,
    before: Option<Position>,
    limit: u16,
) -> Result<Listed<EffectView>, ReadError> {
    let client = cell.reader().await?;
    let state = state.as_str();
    let mut items = Vec::new();
    for (start, (at, id)) in windows(&client, before).await? {
        let left = limit.saturating_sub(items.len() as u16);
        let most = i64::from(left);
        let values: [&(dyn ToSql + Sync); 7] =
            [&namespace_id, &start, &at, &id, &most, &state, &SEARCH_MAX];
        let rows = client.query(SEARCH_WINDOW, &values).await?;
        let page = Listed::read_searched(&rows, left, SEARCH_MAX, read_view, position);
        items.extend(page.items);
        if page.next.is_some() {
            let next = page.next;
            return Ok(Listed { items, next });
        }
    }
    Ok(Listed::whole(items))
}

async fn list_doubts(
    cell: EveryCell<'_>,
    namespace_id: i32,
    before: Option<Position>,
    limit: u16,
) -> Result<Listed<EffectView>, ReadError> {
    let (at, id) = before.unwrap_or(NEWEST);
    let most = i64::from(limit);
    let client = cell.reader().await?;
    let values: [&(dyn ToSql + Sync); 4] = [&namespace_id, &at, &id, &most];
    let rows = client.query(DOUBTS_NEWEST_FIRST, &values).await?;
    Ok(Listed::read(&rows, limit, read_view, position))
}

/// Lists the effects that their destination knows by an identity, newest first.
pub async fn list_of_external_id(
    cell: EveryCell<'_>,
    namespace_id: i32,
    external_id: &str,
    state: Option<EffectState>,
    before: Option<Position>,
    limit: u16,
) -> Result<Listed<EffectView>, ReadError> {
    let states: Vec<&str> = match state {
        Some(state) => vec![state.as_str()],
        None => EffectState::ALL
            .iter()
            .map(|state| state.as_str())
            .collect(),
    };
    let (at, id) = before.unwrap_or(NEWEST);
    let most = i64::from(limit);
    let external_id = indexed(external_id);
    let values: [&(dyn ToSql + Sync); 6] = [&namespace_id, &external_id, &states, &at, &id, &most];
    let client = cell.reader().await?;
    let rows = client.query(OF_EXTERNAL_ID, &values).await?;
    Ok(Listed::read(&rows, limit, read_view, position))
}

pub(super) fn position(effect: &EffectView) -> Position {
    (effect.intended_at, *effect.id.as_uuid())
}
