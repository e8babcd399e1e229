//! Lists of the ledger, newest first.
//!
//! The ledger has no order by time that an index could follow: its rows come in order, and a BRIN
//! index says which blocks have rows of a time. So a page is read from windows of time that widen
//! until the page is full, or until so much was read as a page may cost: a namespace that does little
//! beside others that do much gets a page that says how far it looked. A namespace with few runs is
//! read by its runs instead. What is in doubt is found through `attention`.

mod windows;

use semel_model::effect::EffectState;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::{EffectView, read_view};
use crate::cell::{EveryCell, ReadError};
use crate::column_text::ColumnText;
use crate::listed::{Listed, NEWEST, Position, SEARCH_MAX, searched};
use windows::{DENSITY, Way};

/// How many runs a namespace has at most that is read by its runs.
const FEW_RUNS: i64 = 100;

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
const OF_FEW_RUNS_AND_KIND: &str = of_few_runs!(" AND e.kind = $6");

const WINDOW: &str = "
    SELECT e.id, e.run_id, e.step, e.kind, e.guard::text, e.state::text, e.attempt, e.intended_at,
           e.settled_at, e.external_id, e.note, e.partition_date
      FROM effects e
     WHERE e.namespace_id = $1 AND e.intended_at >= $2 AND e.intended_at <= $3
       AND (e.intended_at, e.id) < ($3, $4)
     ORDER BY e.intended_at DESC, e.id DESC
     LIMIT $5";

macro_rules! searched_window {
    ($condition:literal) => {
        searched!(
            "
        SELECT e.id, e.run_id, e.step, e.kind, e.guard, e.state, e.attempt, e.intended_at AS at,
               e.settled_at, e.external_id, e.note, e.partition_date
          FROM effects e
         WHERE e.namespace_id = $1 AND e.intended_at >= $2 AND e.intended_at <= $3
           AND (e.intended_at, e.id) < ($3, $4)
         ORDER BY e.intended_at DESC, e.id DESC
         LIMIT $7",
            concat!(
                "
             SELECT s.id, s.run_id, s.step, s.kind, s.guard::text, s.state::text AS state, s.attempt,
                    s.at, s.settled_at, s.external_id, s.note, s.partition_date
               FROM scanned s
              WHERE ",
                $condition
            ),
            "$5"
        )
    };
}

const SEARCH_WINDOW: &str = searched_window!("s.state = $6::text::effect_state");
const KIND_WINDOW: &str = searched_window!("s.kind = $6");

const DOUBTS_NEWEST_FIRST: &str = "
    WITH page AS MATERIALIZED (
        SELECT a.partition_date, a.subject_id, a.since
          FROM attention a
         WHERE a.kind = 'doubt' AND a.namespace_id = $1 AND (a.since, a.subject_id) < ($2, $3)
         ORDER BY a.since DESC, a.subject_id DESC
         LIMIT $4)
    SELECT e.id, e.run_id, e.step, e.kind, e.guard::text, e.state::text, e.attempt, e.intended_at,
           e.settled_at, e.external_id, e.note, e.partition_date
      FROM page a
      JOIN effects e ON e.partition_date = a.partition_date AND e.id = a.subject_id
     ORDER BY a.since DESC, a.subject_id DESC";

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
    OF_FEW_RUNS_AND_KIND,
    WINDOW,
    SEARCH_WINDOW,
    KIND_WINDOW,
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
        ) => search(cell, namespace_id, Wanted::state(state), before, limit).await,
    }
}

/// Lists the effects of one kind of step, newest first.
pub async fn list_of_kind(
    cell: EveryCell<'_>,
    namespace_id: i32,
    kind: &str,
    before: Option<Position>,
    limit: u16,
) -> Result<Listed<EffectView>, ReadError> {
    let wanted = Wanted::kind(kind);
    search(cell, namespace_id, wanted, before, limit).await
}

/// What a page has, where that is not everything.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    word: &'a str,
    in_window: &'static str,
    of_few_runs: &'static str,
}

impl<'a> Wanted<'a> {
    fn state(state: EffectState) -> Self {
        Self {
            word: state.as_str(),
            in_window: SEARCH_WINDOW,
            of_few_runs: OF_FEW_RUNS_IN_STATE,
        }
    }

    fn kind(kind: &'a str) -> Self {
        Self {
            word: kind,
            in_window: KIND_WINDOW,
            of_few_runs: OF_FEW_RUNS_AND_KIND,
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
    wanted: Option<Wanted<'_>>,
    before: Option<Position>,
    limit: u16,
) -> Result<Listed<EffectView>, ReadError> {
    let (at, id) = before.unwrap_or(NEWEST);
    let most = i64::from(limit);
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&namespace_id, &at, &id, &most, &FEW_RUNS];
    let text = match &wanted {
        Some(wanted) => {
            values.push(&wanted.word);
            wanted.of_few_runs
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
    wanted: Wanted<'_>,
    before: Option<Position>,
    limit: u16,
) -> Result<Listed<EffectView>, ReadError> {
    let client = cell.reader().await?;
    let windows = match Way::choose(&client, namespace_id, before).await? {
        Way::Runs => return list_of_few(&client, namespace_id, Some(wanted), before, limit).await,
        Way::Windows(windows) => windows,
    };
    let mut items = Vec::new();
    for (start, (at, id)) in windows.all {
        let left = limit.saturating_sub(items.len() as u16);
        let most = i64::from(left);
        let values: [&(dyn ToSql + Sync); 7] = [
            &namespace_id,
            &start,
            &at,
            &id,
            &most,
            &wanted.word,
            &SEARCH_MAX,
        ];
        let rows = client.query(wanted.in_window, &values).await?;
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
    let external_id = ColumnText::indexed(external_id);
    let values: [&(dyn ToSql + Sync); 6] = [&namespace_id, &external_id, &states, &at, &id, &most];
    let client = cell.reader().await?;
    let rows = client.query(OF_EXTERNAL_ID, &values).await?;
    Ok(Listed::read(&rows, limit, read_view, position))
}

pub(super) fn position(effect: &EffectView) -> Position {
    (effect.intended_at, *effect.id.as_uuid())
}
