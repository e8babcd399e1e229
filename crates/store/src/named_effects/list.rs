//! Lists of named effects, without their results, the latest begun first.

use semel_model::{EffectScope, Key, NamedEffectState};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::views::{NamedEffectView, read_view};
use crate::attention::named::no_run_stands;
use crate::cell::{EveryCell, ReadError};
use crate::listed::{Listed, NEWEST, OLDEST, Position, searched};

/// Without results, of which a page could hold more than there is memory.
macro_rules! without_results {
    ($rows:literal) => {
        concat!(
            "
    SELECT n.id, n.scope, n.key, n.generation,
           CASE WHEN n.lease_until <= moment() THEN 'in_doubt' ELSE n.state::text END,
           n.kind, n.destination, n.method, n.fingerprint, n.token,
           n.holder_name, CASE WHEN n.state = 'undoing' THEN n.undo_run ELSE n.holder_run END, n.holder_step, n.holder_item, n.holder_generation,
           n.on_doubt, n.lease_ms, n.lease_until, n.heartbeat_at, n.begun_at,
           n.settled_at, n.settled_by, n.expires_at, NULL::json, n.external_id, n.fault, n.note,
           n.keep_ms, n.status, n.holder, n.holder_token,
           CASE WHEN n.undo_seq IS NOT NULL THEN n.undo_run END, n.reuse_count
      FROM ",
            $rows
        )
    };
}

macro_rules! listed {
    ($condition:literal) => {
        concat!(
            without_results!("named_effects n"),
            "
     WHERE n.namespace_id = $1 AND (n.begun_at, n.id) < ($2, $3)
       AND (n.expires_at IS NULL OR n.expires_at > moment())
       AND ",
            $condition,
            "
     ORDER BY n.begun_at DESC, n.id DESC
     LIMIT $4"
        )
    };
}

const ALL: &str = listed!("n.state <> 'absent'");
const OF_SCOPE: &str = listed!("n.state <> 'absent' AND n.scope = $5");

/// Those of the rows that were looked at that are in this state. Whatever the statistics say, only those of
/// the page are read.
macro_rules! in_state {
    () => {
        concat!(
            without_results!(
                "(SELECT id, at FROM scanned
                   WHERE state = $5::text::named_effect_state
                     AND (expires_at IS NULL OR expires_at > (SELECT moment()))
                   ORDER BY at DESC, id DESC
                   LIMIT $4) AS s"
            ),
            "
              CROSS JOIN LATERAL (SELECT * FROM named_effects WHERE id = s.id LIMIT 1) AS n"
        )
    };
}

/// Those that are not settled, by an index of them alone: few, however many are done.
const OPEN: &str = searched!(
    "
        SELECT n.id, n.begun_at AS at, n.expires_at,
               CASE WHEN n.lease_until <= (SELECT moment()) THEN 'in_doubt' ELSE n.state END AS state
          FROM named_effects n
         WHERE n.namespace_id = $1 AND n.state IN ('pending', 'in_doubt')
           AND (n.begun_at, n.id) < ($2, $3)
         ORDER BY n.begun_at DESC, n.id DESC
         LIMIT $6",
    in_state!(),
    "$4"
);
const OPEN_OF_SCOPE: &str = searched!(
    "
        SELECT n.id, n.begun_at AS at, n.expires_at,
               CASE WHEN n.lease_until <= (SELECT moment()) THEN 'in_doubt' ELSE n.state END AS state
          FROM named_effects n
         WHERE n.namespace_id = $1 AND n.state IN ('pending', 'in_doubt') AND n.scope = $7
           AND (n.begun_at, n.id) < ($2, $3)
         ORDER BY n.begun_at DESC, n.id DESC
         LIMIT $6",
    in_state!(),
    "$4"
);

const SETTLED: &str = searched!(
    "
        SELECT n.id, n.begun_at AS at, n.state, n.expires_at
          FROM named_effects n
         WHERE n.namespace_id = $1 AND (n.begun_at, n.id) < ($2, $3)
         ORDER BY n.begun_at DESC, n.id DESC
         LIMIT $6",
    in_state!(),
    "$4"
);
const SETTLED_OF_SCOPE: &str = searched!(
    "
        SELECT n.id, n.begun_at AS at, n.state, n.expires_at
          FROM named_effects n
         WHERE n.namespace_id = $1 AND n.scope = $7 AND (n.begun_at, n.id) < ($2, $3)
         ORDER BY n.begun_at DESC, n.id DESC
         LIMIT $6",
    in_state!(),
    "$4"
);

/// Those in doubt at which no run stands: an effect of such a run is a doubt of its own.
const DOUBTS: &str = concat!(
    without_results!(
        "attention a
          CROSS JOIN LATERAL (SELECT * FROM named_effects WHERE id = a.subject_id OFFSET 0) n"
    ),
    "
     WHERE a.kind = 'named_effect' AND a.namespace_id = $1 AND (a.since, a.subject_id) > ($2, $3)
       AND n.state = 'in_doubt'
       AND ",
    no_run_stands!(),
    "
     ORDER BY a.since, a.subject_id
     LIMIT $4"
);

/// Of every scope.
const LIST_OF_KEY: &str = concat!(
    without_results!("named_effects n"),
    "
     WHERE n.namespace_id = $1 AND n.key = $2 AND n.state <> 'absent'
       AND (n.expires_at IS NULL OR n.expires_at > moment())
     ORDER BY n.begun_at DESC, n.id DESC
     LIMIT $3"
);

pub(crate) const STATEMENTS: &[&str] = &[
    ALL,
    OF_SCOPE,
    OPEN,
    OPEN_OF_SCOPE,
    SETTLED,
    SETTLED_OF_SCOPE,
    DOUBTS,
    LIST_OF_KEY,
];

/// How many rows one statement looks at for those that are done, or failed.
const SEARCH_MAX: i64 = 1_000;

/// Which named effects to list.
#[derive(Clone, Debug, Default)]
pub struct NamedEffectFilter {
    /// Only of this scope.
    pub scope: Option<EffectScope>,
    /// Only in this state.
    pub state: Option<NamedEffectState>,
}

/// Lists named effects without their results, the latest begun first, from where the page before
/// ended.
pub async fn list(
    cell: EveryCell<'_>,
    namespace_id: i32,
    filter: &NamedEffectFilter,
    after: Option<Position>,
    limit: u16,
) -> Result<Listed<NamedEffectView>, ReadError> {
    let scope = filter.scope.as_ref().map(ToString::to_string);
    let state = filter.state.map(NamedEffectState::as_str);
    let (at, id) = after.unwrap_or(NEWEST);
    let most = i64::from(limit);
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&namespace_id, &at, &id, &most];
    if let Some(state) = &state {
        values.push(state);
    }
    let (plain, of_scope, is_searched) = match filter.state {
        None => (ALL, OF_SCOPE, false),
        Some(NamedEffectState::Pending | NamedEffectState::InDoubt) => (OPEN, OPEN_OF_SCOPE, true),
        Some(NamedEffectState::Done | NamedEffectState::Failed | NamedEffectState::Undoing) => {
            (SETTLED, SETTLED_OF_SCOPE, true)
        }
    };
    if is_searched {
        values.push(&SEARCH_MAX);
    }
    let text = match &scope {
        Some(scope) => {
            values.push(scope);
            of_scope
        }
        None => plain,
    };
    let rows = cell.reader().await?.query(text, &values).await?;
    Ok(match is_searched {
        true => Listed::read_searched(&rows, limit, SEARCH_MAX, read_present, position),
        false => Listed::read(&rows, limit, read_present, position),
    })
}

/// Lists names in doubt at which no run stands, without their results, the oldest first: they are
/// settled by the key that was sent.
pub async fn list_doubts(
    cell: EveryCell<'_>,
    namespace_id: i32,
    after: Option<Position>,
    limit: u16,
) -> Result<Listed<NamedEffectView>, ReadError> {
    let (at, id) = after.unwrap_or(OLDEST);
    let most = i64::from(limit);
    let values: [&(dyn ToSql + Sync); 4] = [&namespace_id, &at, &id, &most];
    let rows = cell.reader().await?.query(DOUBTS, &values).await?;
    Ok(Listed::read(&rows, limit, read_present, position))
}

fn position(effect: &NamedEffectView) -> Position {
    (effect.begun_at, *effect.id.as_uuid())
}

/// A row of a list, of which none is absent.
fn read_present(row: &Row) -> NamedEffectView {
    match read_view(row) {
        Some(view) => view,
        None => unreachable!("a list has no absent effect"),
    }
}

/// Lists the named effects of all scopes whose key this is, without their results, the latest begun
/// first.
pub async fn list_of_key(
    cell: EveryCell<'_>,
    namespace_id: i32,
    key: &Key,
    limit: u16,
) -> Result<Vec<NamedEffectView>, ReadError> {
    let values: [&(dyn ToSql + Sync); 3] = [&namespace_id, &key.as_bytes(), &i64::from(limit)];
    let rows = cell.reader().await?.query(LIST_OF_KEY, &values).await?;
    Ok(rows.iter().filter_map(read_view).collect())
}
