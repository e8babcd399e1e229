//! Effects in doubt, found through `attention`.

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::list::position;
use super::{EffectView, read_view};
use crate::cell::{EveryCell, ReadError};
use crate::listed::{Listed, OLDEST, Position};

/// The page first: only its effects are looked up, whatever is estimated.
macro_rules! doubts {
    ($condition:literal) => {
        concat!(
            "
    WITH page AS MATERIALIZED (
        SELECT a.partition_date, a.subject_id, a.since
          FROM attention a
         WHERE a.kind = 'doubt' AND a.namespace_id = $1 AND (a.since, a.subject_id) > ($2, $3)",
            $condition,
            "
         ORDER BY a.since, a.subject_id
         LIMIT $4)
    SELECT e.id, e.run_id, e.step, e.kind, e.guard::text, e.state::text, e.attempt, e.intended_at,
           e.settled_at, e.external_id, e.note, e.partition_date
      FROM page a
      JOIN effects e ON e.partition_date = a.partition_date AND e.id = a.subject_id
     ORDER BY a.since, a.subject_id"
        )
    };
}

pub(super) const DOUBTS: &str = doubts!("");

/// Those that nobody put off. The others are few: an operator puts each off by hand.
pub(super) const AWAKE: &str =
    doubts!(" AND coalesce(a.snoozed_until, '-infinity') <= (SELECT moment())");

/// Those that are put off until later.
pub(super) const SNOOZED: &str = doubts!(" AND a.snoozed_until > (SELECT moment())");

macro_rules! of_step {
    ($condition:literal) => {
        concat!(
            "
    SELECT e.id, e.run_id, e.step, e.kind, e.guard::text, e.state::text, e.attempt, e.intended_at,
           e.settled_at, e.external_id, e.note, e.partition_date, r.release_id
      FROM attention a
      JOIN effects e ON e.partition_date = a.partition_date AND e.id = a.subject_id
      JOIN runs r ON r.id = a.run_id
     WHERE a.kind = 'doubt' AND a.step = $3
       AND a.flow_id = (SELECT f.id FROM flows f WHERE f.namespace_id = $1 AND f.name = $2)",
            $condition,
            "
     ORDER BY a.since, a.subject_id
     LIMIT $4"
        )
    };
}

pub(super) const OF_STEP: &str = of_step!("");

/// Only of runs on some releases, only of what saw the same, or both.
pub(super) const OF_STEP_ON: &str = of_step!(" AND r.release_id = ANY ($5)");
pub(super) const OF_STEP_SEEN: &str = of_step!(" AND e.note = $5");
pub(super) const OF_STEP_ON_SEEN: &str = of_step!(" AND r.release_id = ANY ($5) AND e.note = $6");

pub(super) const RELEASES: &str = "
    SELECT DISTINCT r.release_id
      FROM attention a
      JOIN runs r ON r.id = a.run_id
     WHERE a.kind = 'doubt' AND a.step = $3
       AND a.flow_id = (SELECT f.id FROM flows f WHERE f.namespace_id = $1 AND f.name = $2)";

/// Which doubts are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Snoozing {
    /// All.
    #[default]
    Either,
    /// Those that are not put off.
    Awake,
    /// Those that are put off until later.
    Snoozed,
}

/// Lists what is in doubt, oldest first: from the beginning, or behind the last one of a page.
pub async fn list_doubts(
    cell: EveryCell<'_>,
    namespace_id: i32,
    after: Option<Position>,
    limit: u16,
) -> Result<Listed<EffectView>, ReadError> {
    list_doubts_by(cell, namespace_id, Snoozing::Either, after, limit).await
}

/// As [`list_doubts`], of those that are put off or are not.
pub async fn list_doubts_by(
    cell: EveryCell<'_>,
    namespace_id: i32,
    snoozing: Snoozing,
    after: Option<Position>,
    limit: u16,
) -> Result<Listed<EffectView>, ReadError> {
    let text = match snoozing {
        Snoozing::Either => DOUBTS,
        Snoozing::Awake => AWAKE,
        Snoozing::Snoozed => SNOOZED,
    };
    let (at, id) = after.unwrap_or(OLDEST);
    let most = i64::from(limit);
    let client = cell.reader().await?;
    let rows = client
        .query(text, &[&namespace_id, &at, &id, &most])
        .await?;
    Ok(Listed::read(&rows, limit, read_view, position))
}

/// Which of the doubts of a step are meant, where that is not all of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct DoubtFilter<'a> {
    /// Of runs that are on one of these releases.
    pub releases: Option<&'a [i32]>,
    /// Whose last attempt saw this.
    pub seen: Option<&'a str>,
}

/// Lists what is in doubt at one step of a flow, oldest first, each with the release of its run. What is
/// not meant takes no place.
pub async fn list_doubts_of_step(
    cell: EveryCell<'_>,
    namespace_id: i32,
    (flow, step): (&str, &str),
    filter: DoubtFilter<'_>,
    limit: i64,
) -> Result<Vec<(EffectView, i32)>, ReadError> {
    let DoubtFilter { releases, seen } = filter;
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&namespace_id, &flow, &step, &limit];
    let text = match (&releases, &seen) {
        (None, None) => OF_STEP,
        (Some(releases), None) => {
            values.push(releases);
            OF_STEP_ON
        }
        (None, Some(seen)) => {
            values.push(seen);
            OF_STEP_SEEN
        }
        (Some(releases), Some(seen)) => {
            values.push(releases);
            values.push(seen);
            OF_STEP_ON_SEEN
        }
    };
    let rows = cell.reader().await?.query(text, &values).await?;
    Ok(rows.iter().map(read_of_step).collect())
}

/// The releases of the runs that are in doubt at one step of a flow.
pub async fn list_releases_in_doubt(
    cell: EveryCell<'_>,
    namespace_id: i32,
    (flow, step): (&str, &str),
) -> Result<Vec<i32>, ReadError> {
    let values: [&(dyn ToSql + Sync); 3] = [&namespace_id, &flow, &step];
    let rows = cell.reader().await?.query(RELEASES, &values).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

fn read_of_step(row: &Row) -> (EffectView, i32) {
    (read_view(row), row.get(12))
}
