//! Configuration: the `namespaces`, `flows`, `releases` and `config_version` tables.
//!
//! Small, written rarely, cached by every server. One number tells whether a cache is stale.

mod promotion;
mod views;

pub(crate) use promotion::STATEMENTS as PROMOTION;
pub use promotion::{AskedProof, Promotion, promote, promote_proven};
pub(crate) use views::STATEMENTS as VIEWS;
pub use views::{
    FlowView, ReleaseView, find, find_detail, find_sources, list, list_names, list_releases,
    list_releases_before,
};

use jiff::Timestamp;
use semel_model::FlowName;
use tokio_postgres::Row;

use crate::audit::{self, AuditEntry};
use crate::cell::{HomeCell, ReadError};

/// After every change of the configuration.
pub(crate) const BUMP: &str = "UPDATE config_version SET version = version + 1";
const VERSION: &str = "SELECT version FROM config_version";

const LIVE: &str = "
    SELECT n.id, n.name, f.id, f.name, l.id, l.number, l.source
      FROM flows f
      JOIN namespaces n ON n.id = f.namespace_id
      JOIN releases l ON l.flow_id = f.id AND l.number = f.live_release";

const LIVE_OF: &str = "
    SELECT f.name, l.number, l.digest, l.source
      FROM flows f
      JOIN releases l ON l.flow_id = f.id AND l.number = f.live_release
     WHERE f.namespace_id = $1";

const HAS_LIVE: &str = "
    SELECT EXISTS (SELECT FROM flows WHERE namespace_id = $1 AND live_release IS NOT NULL)";

const LIVE_IDS: &str = "
    SELECT n.name, f.name, l.id, f.live_at
      FROM flows f
      JOIN namespaces n ON n.id = f.namespace_id
      JOIN releases l ON l.flow_id = f.id AND l.number = f.live_release";

const RELEASE: &str = "
    SELECT n.id, n.name, f.id, f.name, l.id, l.number, l.source
      FROM releases l
      JOIN flows f ON f.id = l.flow_id
      JOIN namespaces n ON n.id = f.namespace_id
     WHERE l.id = $1";

const NUMBERED: &str = "
    SELECT l.id FROM releases l JOIN flows f ON f.id = l.flow_id
     WHERE f.namespace_id = $1 AND f.name = $2 AND l.number = $3";

const FIRST_NUMBER: &str = "
    SELECT min(l.number) FROM releases l JOIN flows f ON f.id = l.flow_id
     WHERE f.namespace_id = $1 AND f.name = $2";

const PUSH: &str = "
    INSERT INTO flows (namespace_id, name, draft, draft_at) VALUES ($1, $2, $3, moment())
        ON CONFLICT (namespace_id, name) DO UPDATE
       SET draft = EXCLUDED.draft, draft_at = EXCLUDED.draft_at
 RETURNING id";

const LOCK_FLOW: &str = "
    SELECT id FROM flows WHERE namespace_id = $1 AND name = $2 FOR UPDATE";

/// A text that does the same is the same release: it gets its examples and comments.
const PUBLISH: &str = "
    INSERT INTO releases (flow_id, number, digest, source)
    SELECT $1, coalesce(max(number), 0) + 1, $2, $3 FROM releases WHERE flow_id = $1
        ON CONFLICT (flow_id, digest) DO UPDATE SET source = EXCLUDED.source
     WHERE releases.source <> EXCLUDED.source";

const FIND_DIGEST: &str = "SELECT number FROM releases WHERE flow_id = $1 AND digest = $2";

pub(crate) const STATEMENTS: &[&str] = &[
    BUMP,
    VERSION,
    LIVE,
    LIVE_OF,
    HAS_LIVE,
    LIVE_IDS,
    RELEASE,
    NUMBERED,
    FIRST_NUMBER,
    PUSH,
    LOCK_FLOW,
    PUBLISH,
    FIND_DIGEST,
];

/// A release as servers load it.
#[derive(Clone, Debug)]
pub struct ReleaseRow {
    /// Its namespace, short.
    pub namespace_id: i32,
    /// Its namespace.
    pub namespace: String,
    /// Its flow, short.
    pub flow_id: i32,
    /// Its flow.
    pub flow: String,
    /// The release, short.
    pub id: i32,
    /// Its number within the flow.
    pub number: i32,
    /// Its text.
    pub source: String,
}

fn read_release(row: &Row) -> ReleaseRow {
    ReleaseRow {
        namespace_id: row.get(0),
        namespace: row.get(1),
        flow_id: row.get(2),
        flow: row.get(3),
        id: row.get(4),
        number: row.get(5),
        source: row.get(6),
    }
}

/// The number that grows with every change of the configuration.
pub async fn version(cell: HomeCell<'_>) -> Result<i64, ReadError> {
    Ok(cell.reader().await?.query_one(VERSION, &[]).await?.get(0))
}

/// Every flow's live release, in all namespaces.
pub async fn list_live(cell: HomeCell<'_>) -> Result<Vec<ReleaseRow>, ReadError> {
    Ok(cell
        .reader()
        .await?
        .query(LIVE, &[])
        .await?
        .iter()
        .map(read_release)
        .collect())
}

/// The live release of a flow.
#[derive(Clone, Debug)]
pub struct LiveText {
    /// Its flow.
    pub flow: String,
    /// Its number within the flow.
    pub number: i32,
    /// The digest of its canonical form.
    pub digest: String,
    /// Its text.
    pub source: String,
}

/// The live releases of a namespace.
pub async fn list_live_of(
    cell: HomeCell<'_>,
    namespace_id: i32,
) -> Result<Vec<LiveText>, ReadError> {
    let client = cell.reader().await?;
    let rows = client.query(LIVE_OF, &[&namespace_id]).await?;
    let read = |row: &Row| LiveText {
        flow: row.get(0),
        number: row.get(1),
        digest: row.get(2),
        source: row.get(3),
    };
    Ok(rows.iter().map(read).collect())
}

/// Whether a namespace has a live release.
pub async fn has_live(cell: HomeCell<'_>, namespace_id: i32) -> Result<bool, ReadError> {
    let client = cell.reader().await?;
    Ok(client.query_one(HAS_LIVE, &[&namespace_id]).await?.get(0))
}

/// Which release of a flow is live.
#[derive(Clone, Debug)]
pub struct LiveId {
    /// Its namespace.
    pub namespace: String,
    /// Its flow.
    pub flow: String,
    /// The release, short.
    pub id: i32,
    /// Since when it is live, where that is kept.
    pub live_at: Option<Timestamp>,
}

/// Which release of every flow is live, without their texts.
pub async fn list_live_ids(cell: HomeCell<'_>) -> Result<Vec<LiveId>, ReadError> {
    let rows = cell.reader().await?.query(LIVE_IDS, &[]).await?;
    let read = |row: &Row| LiveId {
        namespace: row.get(0),
        flow: row.get(1),
        id: row.get(2),
        live_at: row.get(3),
    };
    Ok(rows.iter().map(read).collect())
}

/// One release, live or not.
pub async fn find_release(cell: HomeCell<'_>, id: i32) -> Result<Option<ReleaseRow>, ReadError> {
    Ok(cell
        .reader()
        .await?
        .query_opt(RELEASE, &[&id])
        .await?
        .as_ref()
        .map(read_release))
}

/// The release of a flow that has a number, in short.
pub async fn find_numbered(
    cell: HomeCell<'_>,
    namespace_id: i32,
    flow: &str,
    number: i32,
) -> Result<Option<i32>, ReadError> {
    let client = cell.reader().await?;
    let row = client
        .query_opt(NUMBERED, &[&namespace_id, &flow, &number])
        .await?;
    Ok(row.map(|row| row.get(0)))
}

/// The number of a flow's first release.
pub async fn find_first_number(
    cell: HomeCell<'_>,
    namespace_id: i32,
    flow: &str,
) -> Result<Option<i32>, ReadError> {
    let client = cell.reader().await?;
    let row = client
        .query_one(FIRST_NUMBER, &[&namespace_id, &flow])
        .await?;
    Ok(row.get(0))
}

/// The digest of a release, which is kept in hexadecimal.
fn read_digest(text: &str) -> Option<[u8; 32]> {
    hex::decode(text).ok()?.try_into().ok()
}

/// Keeps a draft.
pub async fn push_draft(
    cell: HomeCell<'_>,
    namespace_id: i32,
    flow: &FlowName,
    source: &str,
) -> Result<(), ReadError> {
    let client = cell.reader().await?;
    client
        .query_one(PUSH, &[&namespace_id, &flow.as_str(), &source])
        .await?;
    Ok(())
}

/// Freezes a text as the flow's next release, and gives its number and whether it is new. The same
/// digest published again gives the number that it has. Nothing if there is no such flow. A new
/// release commits together with the record of the act.
pub async fn publish(
    cell: HomeCell<'_>,
    namespace_id: i32,
    flow: &FlowName,
    digest: &str,
    source: &str,
    act: &AuditEntry,
) -> Result<Option<(i32, bool)>, ReadError> {
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    // The row lock makes numbers gap-free: one publisher of a flow at a time.
    let Some(row) = tx
        .query_opt(LOCK_FLOW, &[&namespace_id, &flow.as_str()])
        .await?
    else {
        return Ok(None);
    };
    let flow_id: i32 = row.get(0);
    let added = tx.execute(PUBLISH, &[&flow_id, &digest, &source]).await? > 0;
    let number: i32 = tx
        .query_one(FIND_DIGEST, &[&flow_id, &digest])
        .await?
        .get(0);
    if added {
        let act = act.done_to(&format!("{flow} r{number}"));
        audit::append(&tx, &act.changing(None, read_digest(digest))).await?;
    }
    tx.execute(BUMP, &[]).await?;
    tx.commit().await?;
    Ok(Some((number, added)))
}
