//! The `namespaces` table: who owns flows, runs and tokens.

use deadpool_postgres::Transaction;
use jiff::Timestamp;
use semel_model::{NamespaceName, Span, TokenId};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::audit::{self, AuditEntry};
use crate::cell::{HomeCell, ReadError};
use crate::flows::BUMP;

const ENSURE: &str = "INSERT INTO namespaces (name) VALUES ($1) ON CONFLICT (name) DO NOTHING";

const FIND: &str =
    "SELECT id, name, created_at, weight, backlog_max, history_ms FROM namespaces WHERE name = $1";

const NAME: &str = "SELECT name FROM namespaces WHERE id = $1";

const LIST: &str = "
    SELECT id, name, created_at, weight, backlog_max, history_ms
      FROM namespaces
     WHERE name > $1
     ORDER BY name
     LIMIT $2";

/// Only while its maker works and may make namespaces, and while no token has the identity of its first.
const INSERT: &str = "
    INSERT INTO namespaces (name)
    SELECT $1::text
      FROM (SELECT FROM tokens
             WHERE id = $2 AND revoked_at IS NULL AND expires_at > moment() AND 'instance' = ANY(rights)
               FOR SHARE) m
     WHERE NOT EXISTS (SELECT FROM tokens WHERE id = $3)
        ON CONFLICT (name) DO NOTHING
 RETURNING id";

/// What is not given stays as it is; a backlog of zero is none that is limited, and a history of zero the server's.
const SET: &str = "
    UPDATE namespaces
       SET weight = coalesce($2, weight), backlog_max = nullif(coalesce($3, backlog_max), 0),
           history_ms = nullif(coalesce($4, history_ms), 0)
     WHERE name = $1
 RETURNING id, name, created_at, weight, backlog_max, history_ms";

/// Those that are not like the others.
const SETTINGS: &str = "
    SELECT id, weight, backlog_max, history_ms
      FROM namespaces
     WHERE weight <> 1 OR backlog_max IS NOT NULL OR history_ms IS NOT NULL";

pub(crate) const STATEMENTS: &[&str] = &[ENSURE, FIND, NAME, LIST, INSERT, SET, SETTINGS];

/// A namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceView {
    /// Its short form.
    pub id: i32,
    /// Its name.
    pub name: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// Its share where servers are short of room.
    pub weight: i32,
    /// How many of its runs may wait for a server before new deliveries are refused.
    pub backlog_max: Option<i32>,
    /// How long its ended runs are kept whose flow does not say.
    pub history: Option<Span>,
}

/// What a server has to know of a namespace that is not like the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespaceSettings {
    /// The namespace.
    pub id: i32,
    /// Its share where servers are short of room.
    pub weight: i32,
    /// How many of its runs may wait for a server before new deliveries are refused.
    pub backlog_max: Option<i32>,
    /// How long its ended runs are kept whose flow does not say.
    pub history: Option<Span>,
}

/// What an operator changes about a namespace; what is absent stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamespaceChange {
    /// Its share where servers are short of room.
    pub weight: Option<i32>,
    /// How many of its runs may wait for a server before new deliveries are refused; zero removes
    /// the limit.
    pub backlog_max: Option<i32>,
    /// How long its ended runs are kept whose flow does not say; zero leaves that to the server.
    pub history: Option<Span>,
}

/// Makes a namespace unless it is there, and gives its short form.
pub async fn ensure(cell: HomeCell<'_>, name: &NamespaceName) -> Result<i32, ReadError> {
    let client = cell.reader().await?;
    client.execute(ENSURE, &[&name.as_str()]).await?;
    client.execute(BUMP, &[]).await?;
    Ok(client.query_one(FIND, &[&name.as_str()]).await?.get(0))
}

/// Makes a namespace on behalf of a token of another one, and gives its short form. None where there is
/// one of this name or a token of the identity that its first is to have, or where the maker no longer
/// may.
pub(crate) async fn insert(
    tx: &Transaction<'_>,
    name: &NamespaceName,
    maker: TokenId,
    first: TokenId,
) -> Result<Option<i32>, ReadError> {
    let values: [&(dyn ToSql + Sync); 3] = [&name.as_str(), maker.as_uuid(), first.as_uuid()];
    let made = tx.query_opt(INSERT, &values).await?;
    tx.execute(BUMP, &[]).await?;
    Ok(made.map(|row| row.get(0)))
}

/// The namespace of a name.
pub async fn find(
    cell: HomeCell<'_>,
    name: &NamespaceName,
) -> Result<Option<NamespaceView>, ReadError> {
    let client = cell.reader().await?;
    let found = client.query_opt(FIND, &[&name.as_str()]).await?;
    Ok(found.as_ref().map(read))
}

/// The name of a namespace.
pub async fn find_name(
    cell: HomeCell<'_>,
    namespace_id: i32,
) -> Result<Option<NamespaceName>, ReadError> {
    let client = cell.reader().await?;
    let found = client.query_opt(NAME, &[&namespace_id]).await?;
    Ok(found.and_then(|row| row.get::<_, &str>(0).parse().ok()))
}

/// Changes a namespace, with the record of who did. None where there is none of this name.
pub async fn set(
    cell: HomeCell<'_>,
    name: &NamespaceName,
    change: NamespaceChange,
    act: &AuditEntry,
) -> Result<Option<NamespaceView>, ReadError> {
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    let history = change.history.map(|span| span.as_millis().cast_signed());
    let values: [&(dyn ToSql + Sync); 4] = [
        &name.as_str(),
        &change.weight,
        &change.backlog_max,
        &history,
    ];
    let set = tx.query_opt(SET, &values).await?;
    if set.is_some() {
        audit::append(&tx, act).await?;
        tx.execute(BUMP, &[]).await?;
    }
    tx.commit().await?;
    Ok(set.as_ref().map(read))
}

/// The namespaces that are not like the others.
pub async fn list_settings(cell: HomeCell<'_>) -> Result<Vec<NamespaceSettings>, ReadError> {
    let rows = cell.reader().await?.query(SETTINGS, &[]).await?;
    let settings = |row: &Row| NamespaceSettings {
        id: row.get(0),
        weight: row.get(1),
        backlog_max: row.get(2),
        history: read_span(row, 3),
    };
    Ok(rows.iter().map(settings).collect())
}

/// Namespaces behind a name, by name.
pub async fn list(
    cell: HomeCell<'_>,
    after: &str,
    limit: u16,
) -> Result<Vec<NamespaceView>, ReadError> {
    let client = cell.reader().await?;
    let rows = client.query(LIST, &[&after, &i64::from(limit)]).await?;
    Ok(rows.iter().map(read).collect())
}

fn read(row: &Row) -> NamespaceView {
    NamespaceView {
        id: row.get(0),
        name: row.get(1),
        created_at: row.get(2),
        weight: row.get(3),
        backlog_max: row.get(4),
        history: read_span(row, 5),
    }
}

fn read_span(row: &Row, column: usize) -> Option<Span> {
    let millis: Option<i64> = row.get(column);
    millis.map(|millis| Span::from_millis(millis.unsigned_abs()))
}
