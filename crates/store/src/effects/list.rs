//! Lists of the ledger, newest first.
//!
//! The ledger has no order by time that an index could follow: its rows come in order, and a BRIN
//! index says which blocks have rows of a time. So a page is read from windows of time that widen
//! until the page is full, or until so much was read as a page may cost: a namespace that does little
//! beside others that do much gets a page that says how far it looked. A namespace with few runs is
//! read by its runs instead. What is in doubt is found through `attention`.

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

/// How many effects of all namespaces the windows of one page may have, about: so many are in a
/// thousand blocks or less.
const LOOK_MAX: f64 = 20_000.0;

/// A ledger whose windows would reach further back than this is read to its beginning.
const LEDGER_SECS_MAX: f64 = 90.0 * 86_400.0;

/// How many runs a namespace has at most that is read by its runs.
const FEW_RUNS: i64 = 100;

/// The time, how many effects a second has in the month of a position, as far as statistics say, how
/// many runs the namespace has, one more than a few at most, and when its first was accepted: no effect
/// is older.
const DENSITY: &str = "
    SELECT p.now,
           coalesce(greatest(c.reltuples, 0)::float8
                    / greatest(extract(epoch FROM least(p.now, m.month + interval '1 month') - m.month), 1)::float8,
                    0),
           (SELECT count(*) FROM (SELECT 1 FROM runs r WHERE r.namespace_id = $2 AND r.parent_id IS NULL
                                   ORDER BY r.accepted_at DESC, r.id DESC LIMIT $3::int8 + 1) AS few),
           (SELECT r.accepted_at FROM runs r WHERE r.namespace_id = $2 AND r.parent_id IS NULL
             ORDER BY r.accepted_at, r.id LIMIT 1)
      FROM (SELECT moment() AS now) AS p
     CROSS JOIN LATERAL (SELECT date_trunc('month', least(p.now, $1), 'UTC') AS month) AS m
      LEFT JOIN pg_class c
        ON c.oid = to_regclass('effects' || to_char(m.month AT TIME ZONE 'UTC', '_YYYY_MM'))";

/// The effects of a namespace with few runs, by the identities that begin as its runs' do. Of each key
/// all runs are read, child runs among them.
macro_rules! of_few_runs {
    ($condition:literal) => {
        concat!(
            "
    WITH keys AS MATERIALIZED (
        SELECT DISTINCT left(replace(id::text, '-', ''), 16) AS head
          FROM (SELECT r.id FROM runs r
                 WHERE r.namespace_id = $1 AND r.parent_id IS NULL
                 ORDER BY r.accepted_at DESC, r.id DESC
                 LIMIT $5) AS roots),
    bounds AS MATERIALIZED (
        SELECT (head || repeat('0', 16))::uuid AS low, (head || repeat('f', 16))::uuid AS high FROM keys),
    days AS MATERIALIZED (
        SELECT DISTINCT b.low, b.high, r.partition_date
          FROM bounds b
         CROSS JOIN LATERAL (
               SELECT partition_date FROM runs WHERE id BETWEEN b.low AND b.high LIMIT 1000) AS r)
    SELECT e.id, e.run_id, e.step, e.kind, e.guard::text, e.state::text, e.attempt, e.intended_at,
           e.settled_at, e.external_id, e.note, e.partition_date
      FROM days d
     CROSS JOIN LATERAL (
           SELECT * FROM effects
            WHERE partition_date = d.partition_date AND id BETWEEN d.low AND d.high
           OFFSET 0) AS e
     WHERE e.namespace_id = $1 AND (e.intended_at, e.id) < ($2, $3)",
            $condition,
            "
     ORDER BY e.intended_at DESC, e.id DESC
     LIMIT $4"
        )
    };
}

const OF_FEW_RUNS: &str = of_few_runs!("");
const OF_FEW_RUNS_IN_STATE: &str = of_few_runs!(" AND e.state = $6::text::effect_state");

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
    DENSITY,
    OF_FEW_RUNS,
    OF_FEW_RUNS_IN_STATE,
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

/// How a page of a namespace is read.
enum Way {
    /// By its runs, which are few.
    Runs,
    /// By windows of time.
    Windows(Windows),
}

/// Windows of time before a position, each from its beginning to its end.
struct Windows {
    all: Vec<(Timestamp, Position)>,
    /// Where they end, if that is not the beginning of the ledger.
    end: Option<Position>,
}

impl Way {
    async fn choose(
        client: &tokio_postgres::Client,
        namespace_id: i32,
        before: Option<Position>,
    ) -> Result<Self, ReadError> {
        let (at, _) = before.unwrap_or(NEWEST);
        let values: [&(dyn ToSql + Sync); 3] = [&at, &namespace_id, &FEW_RUNS];
        let row = client.query_one(DENSITY, &values).await?;
        let (now, density, runs): (Timestamp, f64, i64) = (row.get(0), row.get(1), row.get(2));
        let reach_secs = LOOK_MAX / density.max(f64::MIN_POSITIVE);
        let is_cut = reach_secs < LEDGER_SECS_MAX;
        if is_cut && runs <= FEW_RUNS {
            return Ok(Self::Runs);
        }
        let from = before.map_or(now, |(at, _)| at);
        let end = before.unwrap_or(NEWEST);
        let first: Option<Timestamp> = row.get(3);
        Ok(Self::Windows(match first.filter(|_| is_cut) {
            Some(first) => Windows::within(from, end, reach_secs, first),
            None => Windows::to_the_beginning(from, end),
        }))
    }
}

impl Windows {
    fn to_the_beginning(from: Timestamp, end: Position) -> Self {
        let mut windows = Self::of(from, end, WINDOWS_SECS.to_vec());
        let end = windows.end.take().unwrap_or(end);
        windows.all.push((Timestamp::UNIX_EPOCH, end));
        windows
    }

    /// No further back than so many seconds, which is at least a second. Behind `first` there is nothing.
    fn within(from: Timestamp, end: Position, secs: f64, first: Timestamp) -> Self {
        let most = (secs as i64).max(1);
        let shorter = WINDOWS_SECS.into_iter().filter(|secs| *secs < most);
        let mut windows = Self::of(from, end, shorter.chain([most]).collect());
        windows.end = windows.end.filter(|(start, _)| *start > first);
        windows
    }

    fn of(from: Timestamp, mut end: Position, reaches: Vec<i64>) -> Self {
        let mut all = Vec::with_capacity(reaches.len() + 1);
        for secs in reaches {
            let Ok(start) = from.checked_sub(SignedDuration::from_secs(secs)) else {
                continue;
            };
            all.push((start, end));
            // What began at the instant itself is in the window that was read.
            end = (start, Uuid::nil());
        }
        Self {
            all,
            end: Some(end),
        }
    }
}

async fn list_all(
    cell: EveryCell<'_>,
    namespace_id: i32,
    before: Option<Position>,
    limit: u16,
) -> Result<Listed<EffectView>, ReadError> {
    let client = cell.reader().await?;
    let windows = match Way::choose(&client, namespace_id, before).await? {
        Way::Runs => return list_of_few(&client, namespace_id, None, before, limit).await,
        Way::Windows(windows) => windows,
    };
    let mut found: Vec<Row> = Vec::new();
    for (start, (at, id)) in windows.all {
        let left = i64::from(limit) - found.len() as i64;
        let values: [&(dyn ToSql + Sync); 5] = [&namespace_id, &start, &at, &id, &left];
        found.extend(client.query(WINDOW, &values).await?);
        if found.len() >= usize::from(limit) {
            return Ok(Listed::read(&found, limit, read_view, position));
        }
    }
    Ok(Listed {
        items: found.iter().map(read_view).collect(),
        next: windows.end,
    })
}

/// The effects of a namespace with few runs.
async fn list_of_few(
    client: &tokio_postgres::Client,
    namespace_id: i32,
    state: Option<&str>,
    before: Option<Position>,
    limit: u16,
) -> Result<Listed<EffectView>, ReadError> {
    let (at, id) = before.unwrap_or(NEWEST);
    let most = i64::from(limit);
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&namespace_id, &at, &id, &most, &FEW_RUNS];
    let text = match &state {
        Some(state) => {
            values.push(state);
            OF_FEW_RUNS_IN_STATE
        }
        None => OF_FEW_RUNS,
    };
    let rows = client.query(text, &values).await?;
    Ok(Listed::read(&rows, limit, read_view, position))
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
    let windows = match Way::choose(&client, namespace_id, before).await? {
        Way::Runs => return list_of_few(&client, namespace_id, Some(state), before, limit).await,
        Way::Windows(windows) => windows,
    };
    let mut items = Vec::new();
    for (start, (at, id)) in windows.all {
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
    let next = windows.end;
    Ok(Listed { items, next })
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
