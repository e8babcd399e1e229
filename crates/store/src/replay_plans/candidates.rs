//! Which runs a plan may be made of.

use jiff::Timestamp;
use semel_model::RunId;
use tokio_postgres::types::ToSql;

use super::RUNS_MAX;
use crate::cell::{EveryCell, ReadError};
use crate::column_text::ColumnText;

/// The last runs of their keys, the oldest first.
macro_rules! candidates {
    ($condition:literal) => {
        concat!(
            "
    SELECT r.id
      FROM runs r
      JOIN releases l ON l.id = r.release_id
      JOIN flows f ON f.id = l.flow_id
      JOIN claims c ON c.id = r.claim_id AND c.run_id = r.id
     WHERE r.namespace_id = $1 AND f.name = $2 AND r.parent_id IS NULL AND c.dropped_at IS NULL
       AND r.state::text = ANY ($3::text[])
       AND r.accepted_at >= coalesce($4::timestamptz, '-infinity')
       AND r.accepted_at < coalesce($5::timestamptz, 'infinity')",
            $condition,
            "
     ORDER BY r.accepted_at, r.id
     LIMIT $6"
        )
    };
}

const CANDIDATES: &str = candidates!("");
const CANDIDATES_WITH_CODE: &str = candidates!(" AND r.fault_code = $7");

pub(crate) const STATEMENTS: &[&str] = &[CANDIDATES, CANDIDATES_WITH_CODE];

/// Which runs a plan is about.
#[derive(Clone, Debug)]
pub struct ReplayRange<'a> {
    /// The flow.
    pub flow: &'a str,
    /// The states of runs.
    pub states: Vec<&'a str>,
    /// Accepted at this time or later.
    pub since: Option<Timestamp>,
    /// Accepted before this time.
    pub until: Option<Timestamp>,
    /// Failed with this code.
    pub code: Option<&'a str>,
}

/// Lists the last runs of their keys in a range, the oldest first: one more than a plan may have,
/// where there are that many.
pub async fn list_candidates(
    cell: EveryCell<'_>,
    namespace_id: i32,
    range: &ReplayRange<'_>,
) -> Result<Vec<RunId>, ReadError> {
    let limit = RUNS_MAX + 1;
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![
        &namespace_id,
        &range.flow,
        &range.states,
        &range.since,
        &range.until,
        &limit,
    ];
    let code = range.code.map(ColumnText::name);
    let text = match &code {
        Some(code) => {
            values.push(code);
            CANDIDATES_WITH_CODE
        }
        None => CANDIDATES,
    };
    let rows = cell.reader().await?.query(text, &values).await?;
    Ok(rows
        .iter()
        .map(|row| RunId::from_uuid(row.get(0)))
        .collect())
}
