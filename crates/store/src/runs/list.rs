//! Lists of runs, newest first.
//!
//! Child runs are not listed beside the runs that they belong to, except those that an operator must
//! look at: `attention` has them. There is one statement for each way to ask, so that each has the
//! plan of its own index.

use semel_model::run::RunState;
use tokio_postgres::types::ToSql;

use super::{RunView, read_view};
use crate::cell::{EveryCell, ReadError};
use crate::listed::{Listed, NEWEST, PAGE_BYTES_MAX, Position, SEARCH_MAX, searched};

/// The runs of `page`, as they are listed.
macro_rules! listed {
    ($page:literal) => {
        concat!(
            "
    WITH page AS MATERIALIZED (",
            $page,
            "
         ORDER BY accepted_at DESC, id DESC
         LIMIT $4)
    SELECT r.id, r.claim_id, r.key, f.name, l.number, r.state::text, q.stage::text,
           q.holder IS NOT NULL, r.accepted_at, r.ended_at, r.result, r.fault,
           nullif(q.due_at, 'infinity'), r.partition_date, coalesce(q.cancel, false), r.parent_id, r.erased_at,
           r.closed_at
      FROM page p
      JOIN runs r ON r.id = p.id
      JOIN releases l ON l.id = r.release_id
      JOIN flows f ON f.id = l.flow_id
      LEFT JOIN queue q ON q.run_id = r.id
     ORDER BY p.accepted_at DESC, p.id DESC"
        )
    };
}

/// The runs that pass of those that were scanned: chosen first, so that only those of the page are read.
macro_rules! passing {
    () => {
        "
             SELECT r.id, r.claim_id, r.key, f.name, l.number, r.state::text AS state, q.stage::text,
                    q.holder IS NOT NULL AS held, r.accepted_at, r.ended_at, r.result, r.fault,
                    nullif(q.due_at, 'infinity') AS due_at, r.partition_date,
                    coalesce(q.cancel, false) AS cancel, r.parent_id, r.erased_at, r.closed_at
               FROM (SELECT id, at FROM scanned
                      WHERE state = $5::text::run_state
                      ORDER BY at DESC, id DESC
                      LIMIT $4) AS s
               JOIN runs r ON r.id = s.id
               JOIN releases l ON l.id = r.release_id
               JOIN flows f ON f.id = l.flow_id
               LEFT JOIN queue q ON q.run_id = r.id"
    };
}

const ALL: &str = listed!(
    "
        SELECT * FROM (
            (SELECT r.id, r.accepted_at
               FROM runs r
              WHERE r.namespace_id = $1 AND r.parent_id IS NULL
                AND (r.accepted_at, r.id) < ($2, $3)
              ORDER BY r.accepted_at DESC, r.id DESC
              LIMIT $4)
            UNION ALL
            (SELECT DISTINCT a.run_id, a.accepted_at
               FROM attention a
              WHERE a.namespace_id = $1 AND a.is_child AND (a.accepted_at, a.run_id) < ($2, $3)
              ORDER BY a.accepted_at DESC, a.run_id DESC
              LIMIT $4)) AS both_kinds (id, accepted_at)"
);

const OF_FLOW: &str = listed!(
    "
        SELECT * FROM (
            (SELECT n.id, n.accepted_at
               FROM flows f
               JOIN releases l ON l.flow_id = f.id
              CROSS JOIN LATERAL (
                    SELECT r.id, r.accepted_at
                      FROM runs r
                     WHERE r.release_id = l.id AND r.parent_id IS NULL
                       AND (r.accepted_at, r.id) < ($2, $3)
                     ORDER BY r.accepted_at DESC, r.id DESC
                     LIMIT $4) AS n
              WHERE f.namespace_id = $1 AND f.name = $5)
            UNION ALL
            (SELECT DISTINCT a.run_id, a.accepted_at
               FROM attention a
              WHERE a.namespace_id = $1 AND a.is_child AND (a.accepted_at, a.run_id) < ($2, $3)
                AND a.flow_id = (SELECT f.id FROM flows f WHERE f.namespace_id = $1 AND f.name = $5)
              ORDER BY a.accepted_at DESC, a.run_id DESC
              LIMIT $4)) AS both_kinds (id, accepted_at)"
);

/// A run in doubt has one effect in doubt, at which it stands; an effect may be in doubt while its run
/// is not stopped.
const STOPPED: &str = searched!(
    "
        SELECT a.run_id AS id, a.accepted_at AS at, r.state
          FROM (SELECT a.run_id, a.accepted_at
                  FROM attention a
                 WHERE a.namespace_id = $1 AND a.kind = $7::text::attention_kind
                   AND (a.accepted_at, a.run_id) < ($2, $3)
                 ORDER BY a.accepted_at DESC, a.run_id DESC
                 LIMIT $6) AS a
          JOIN runs r ON r.id = a.run_id",
    passing!(),
    "$4"
);

const STOPPED_OF_FLOW: &str = searched!(
    "
        SELECT a.run_id AS id, a.accepted_at AS at, r.state
          FROM (SELECT a.run_id, a.accepted_at
                  FROM attention a
                 WHERE a.flow_id = (SELECT f.id FROM flows f WHERE f.namespace_id = $1 AND f.name = $8)
                   AND a.kind = $7::text::attention_kind AND (a.accepted_at, a.run_id) < ($2, $3)
                 ORDER BY a.accepted_at DESC, a.run_id DESC
                 LIMIT $6) AS a
          JOIN runs r ON r.id = a.run_id",
    passing!(),
    "$4"
);

const SEARCH: &str = searched!(
    "
        SELECT r.id, r.accepted_at AS at, r.state
          FROM runs r
         WHERE r.namespace_id = $1 AND r.parent_id IS NULL AND (r.accepted_at, r.id) < ($2, $3)
         ORDER BY r.accepted_at DESC, r.id DESC
         LIMIT $6",
    passing!(),
    "$4"
);

const SEARCH_OF_FLOW: &str = searched!(
    "
        SELECT n.id, n.at, n.state
          FROM flows f
          JOIN releases l ON l.flow_id = f.id
         CROSS JOIN LATERAL (
               SELECT r.id, r.accepted_at AS at, r.state
                 FROM runs r
                WHERE r.release_id = l.id AND r.parent_id IS NULL
                  AND (r.accepted_at, r.id) < ($2, $3)
                ORDER BY r.accepted_at DESC, r.id DESC
                LIMIT $6) AS n
         WHERE f.namespace_id = $1 AND f.name = $7
         ORDER BY n.at DESC, n.id DESC
         LIMIT $6",
    passing!(),
    "$4"
);

const OF_RELEASE: &str = listed!(
    "
        SELECT r.id, r.accepted_at
          FROM runs r
         WHERE r.release_id = (SELECT l.id
                                 FROM flows f
                                 JOIN releases l ON l.flow_id = f.id
                                WHERE f.namespace_id = $1 AND f.name = $5 AND l.number = $6)
           AND r.parent_id IS NULL AND (r.accepted_at, r.id) < ($2, $3)"
);

const SEARCH_OF_RELEASE: &str = searched!(
    "
        SELECT r.id, r.accepted_at AS at, r.state
          FROM runs r
         WHERE r.release_id = (SELECT l.id
                                 FROM flows f
                                 JOIN releases l ON l.flow_id = f.id
                                WHERE f.namespace_id = $1 AND f.name = $7 AND l.number = $8)
           AND r.parent_id IS NULL AND (r.accepted_at, r.id) < ($2, $3)
         ORDER BY r.accepted_at DESC, r.id DESC
         LIMIT $6",
    passing!(),
    "$4"
);

pub(crate) const STATEMENTS: &[&str] = &[
    ALL,
    OF_FLOW,
    OF_RELEASE,
    SEARCH_OF_RELEASE,
    STOPPED,
    STOPPED_OF_FLOW,
    SEARCH,
    SEARCH_OF_FLOW,
];

/// How many stopped effects and runs one statement looks at: each is a run to look up.
const SEARCH_OF_STOPPED_MAX: i64 = 250;

/// How many runs of each release one statement looks at.
const SEARCH_OF_RELEASE_MAX: i64 = 500;

/// Which runs to list.
#[derive(Clone, Debug, Default)]
pub struct RunFilter {
    /// Only of this flow.
    pub flow: Option<String>,
    /// Only on the release of this number, with `flow`.
    pub release: Option<i32>,
    /// Only in this state.
    pub state: Option<RunState>,
    /// Only behind this position, for the next page.
    pub before: Option<Position>,
}

/// Lists runs, newest first. A page ends after [`PAGE_BYTES_MAX`].
pub async fn list(
    cell: EveryCell<'_>,
    namespace_id: i32,
    filter: &RunFilter,
    limit: u16,
) -> Result<Listed<RunView>, ReadError> {
    let (at, id) = filter.before.unwrap_or(NEWEST);
    let most = i64::from(limit);
    let (kind, state) = match filter.state {
        None => (None, ""),
        // What waits for a person knows its flow, and not its release.
        Some(state) if filter.release.is_some() => (None, state.as_str()),
        Some(state) => (kind_of(state), state.as_str()),
    };
    let search = match (&kind, &filter.flow) {
        (Some(_), _) => SEARCH_OF_STOPPED_MAX,
        (None, Some(_)) => SEARCH_OF_RELEASE_MAX,
        (None, None) => SEARCH_MAX,
    };
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&namespace_id, &at, &id, &most];
    let of_release = filter.flow.as_ref().and(filter.release.as_ref());
    let text = match (&kind, filter.state, &filter.flow) {
        (_, None, None) => ALL,
        (_, None, Some(_)) => of_release.map_or(OF_FLOW, |_| OF_RELEASE),
        (Some(kind), Some(_), flow) => {
            values.extend([&state as &(dyn ToSql + Sync), &search, kind]);
            flow.as_ref().map_or(STOPPED, |_| STOPPED_OF_FLOW)
        }
        (None, Some(_), flow) => {
            values.extend([&state as &(dyn ToSql + Sync), &search]);
            let of_flow = of_release.map_or(SEARCH_OF_FLOW, |_| SEARCH_OF_RELEASE);
            flow.as_ref().map_or(SEARCH, |_| of_flow)
        }
    };
    if let Some(flow) = &filter.flow {
        values.push(flow);
    }
    if let Some(number) = of_release {
        values.push(number);
    }
    let client = cell.reader().await?;
    let (rows, is_cut) = client.query_within(text, &values, PAGE_BYTES_MAX).await?;
    let page = match filter.state.is_some() {
        true => Listed::read_searched(&rows, limit, search, read_view, position),
        false => Listed::read(&rows, limit, read_view, position),
    };
    Ok(page.cut_if(is_cut, position))
}

fn position(run: &RunView) -> Position {
    (run.accepted_at, *run.id.as_uuid())
}

/// The kind of what waits for a person, of runs in such a state.
fn kind_of(state: RunState) -> Option<&'static str> {
    match state {
        RunState::InDoubt => Some("doubt"),
        RunState::NeedsReview => Some("needs_review"),
        RunState::Quarantined => Some("quarantined"),
        RunState::Active
        | RunState::Succeeded
        | RunState::Failed
        | RunState::Cancelled
        | RunState::Superseded => None,
    }
}
