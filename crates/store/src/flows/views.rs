//! Flows and their releases as the API shows them.

use std::collections::HashMap;

use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::cell::{HomeCell, ReadError};

const LIST: &str = "
    SELECT f.name, f.live_release, max(l.number), f.draft, f.draft_at, max(l.published_at), f.live_at
      FROM flows f
      LEFT JOIN releases l ON l.flow_id = f.id
     WHERE f.namespace_id = $1
     GROUP BY f.id
     ORDER BY f.name";

const FIND: &str = "
    SELECT f.name, f.live_release, max(l.number), f.draft, f.draft_at, max(l.published_at), f.live_at
      FROM flows f
      LEFT JOIN releases l ON l.flow_id = f.id
     WHERE f.namespace_id = $1 AND f.name = $2
     GROUP BY f.id";

const RELEASES: &str = "
    SELECT l.number, l.digest, l.published_at, l.source
      FROM releases l
      JOIN flows f ON f.id = l.flow_id
     WHERE f.namespace_id = $1 AND f.name = $2
     ORDER BY l.number DESC
     LIMIT 100";

/// Behind the last release of a page.
const RELEASES_BEFORE: &str = "
    SELECT l.number, l.digest, l.published_at, l.source
      FROM releases l
     WHERE l.flow_id = (SELECT f.id FROM flows f WHERE f.namespace_id = $1 AND f.name = $2)
       AND l.number < $3
     ORDER BY l.number DESC
     LIMIT $4";

/// A flow with its latest releases. Only the first row has the draft: it may be long.
const DETAIL: &str = "
    SELECT f.name, f.live_release, l.latest, CASE WHEN l.place IS NULL OR l.place = 1 THEN f.draft END,
           f.draft_at, l.latest_at, f.live_at, l.number, l.digest, l.published_at, l.source
      FROM flows f
      LEFT JOIN LATERAL (SELECT l.number, l.digest, l.published_at, l.source,
                                row_number() OVER (ORDER BY l.number DESC) AS place,
                                max(l.number) OVER () AS latest,
                                max(l.published_at) OVER () AS latest_at
                           FROM (SELECT * FROM releases WHERE flow_id = f.id
                                  ORDER BY number DESC LIMIT 100) l) l ON true
     WHERE f.namespace_id = $1 AND f.name = $2
     ORDER BY l.number DESC";

const SOURCES: &str = "
    SELECT l.number, l.source
      FROM releases l
      JOIN flows f ON f.id = l.flow_id
     WHERE f.namespace_id = $1 AND f.name = $2 AND l.number = ANY ($3)";

const NAMES: &str = "SELECT name FROM flows WHERE namespace_id = $1";

pub(crate) const STATEMENTS: &[&str] = &[
    LIST,
    FIND,
    RELEASES,
    RELEASES_BEFORE,
    DETAIL,
    SOURCES,
    NAMES,
];

/// A flow as the API shows it.
#[derive(Clone, Debug)]
pub struct FlowView {
    /// Its name.
    pub name: String,
    /// The number of the live release.
    pub live: Option<i32>,
    /// When that release replaced another.
    pub live_at: Option<Timestamp>,
    /// The number of the latest release.
    pub latest: Option<i32>,
    /// The working copy.
    pub draft: Option<String>,
    /// When the working copy was pushed.
    pub draft_at: Option<Timestamp>,
    /// When the latest release was frozen.
    pub published_at: Option<Timestamp>,
}

/// Lists the flows of a namespace.
pub async fn list(cell: HomeCell<'_>, namespace_id: i32) -> Result<Vec<FlowView>, ReadError> {
    let rows = cell.reader().await?.query(LIST, &[&namespace_id]).await?;
    Ok(rows.iter().map(read_view).collect())
}

/// Finds the flow of a name.
pub async fn find(
    cell: HomeCell<'_>,
    namespace_id: i32,
    name: &str,
) -> Result<Option<FlowView>, ReadError> {
    let client = cell.reader().await?;
    let row = client.query_opt(FIND, &[&namespace_id, &name]).await?;
    Ok(row.as_ref().map(read_view))
}

fn read_view(row: &Row) -> FlowView {
    FlowView {
        name: row.get(0),
        live: row.get(1),
        latest: row.get(2),
        draft: row.get(3),
        draft_at: row.get(4),
        published_at: row.get(5),
        live_at: row.get(6),
    }
}

/// A release as the API shows it.
#[derive(Clone, Debug)]
pub struct ReleaseView {
    /// Its number.
    pub number: i32,
    /// The digest of its canonical form.
    pub digest: String,
    /// When it was frozen.
    pub published_at: Timestamp,
    /// Its text.
    pub source: String,
}

/// Lists the releases of a flow, newest first.
pub async fn list_releases(
    cell: HomeCell<'_>,
    namespace_id: i32,
    flow: &str,
) -> Result<Vec<ReleaseView>, ReadError> {
    let rows = cell
        .reader()
        .await?
        .query(RELEASES, &[&namespace_id, &flow])
        .await?;
    Ok(rows.iter().map(read_release).collect())
}

/// Lists releases of a flow with smaller numbers than this, newest first.
pub async fn list_releases_before(
    cell: HomeCell<'_>,
    namespace_id: i32,
    flow: &str,
    before: i32,
    limit: u16,
) -> Result<Vec<ReleaseView>, ReadError> {
    let limit = i64::from(limit);
    let values: [&(dyn ToSql + Sync); 4] = [&namespace_id, &flow, &before, &limit];
    let rows = cell.reader().await?.query(RELEASES_BEFORE, &values).await?;
    Ok(rows.iter().map(read_release).collect())
}

fn read_release(row: &Row) -> ReleaseView {
    ReleaseView {
        number: row.get(0),
        digest: row.get(1),
        published_at: row.get(2),
        source: row.get(3),
    }
}

/// Finds a flow with its latest releases, newest first.
pub async fn find_detail(
    cell: HomeCell<'_>,
    namespace_id: i32,
    name: &str,
) -> Result<Option<(FlowView, Vec<ReleaseView>)>, ReadError> {
    let client = cell.reader().await?;
    let rows = client.query(DETAIL, &[&namespace_id, &name]).await?;
    let Some(first) = rows.first() else {
        return Ok(None);
    };
    let release = |row: &Row| {
        Some(ReleaseView {
            number: row.get::<_, Option<i32>>(7)?,
            digest: row.get(8),
            published_at: row.get(9),
            source: row.get(10),
        })
    };
    Ok(Some((
        read_view(first),
        rows.iter().filter_map(release).collect(),
    )))
}

/// The texts of some releases of a flow, by their numbers.
pub async fn find_sources(
    cell: HomeCell<'_>,
    namespace_id: i32,
    flow: &str,
    numbers: &[i32],
) -> Result<HashMap<i32, String>, ReadError> {
    let client = cell.reader().await?;
    let rows = client
        .query(SOURCES, &[&namespace_id, &flow, &numbers])
        .await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// The names of a namespace's flows, for a search by key in all of them.
pub async fn list_names(cell: HomeCell<'_>, namespace_id: i32) -> Result<Vec<String>, ReadError> {
    let rows = cell.reader().await?.query(NAMES, &[&namespace_id]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}
