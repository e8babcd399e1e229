//! The `searches` table: searches that people saved, for themselves or for their namespace.

use jiff::Timestamp;
use semel_model::TokenId;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::cell::{HomeCell, ReadError};

/// Who owns what is shared.
const SHARED: Uuid = Uuid::nil();

/// One's own first, then what is shared.
const LIST: &str = "
    SELECT name, query, owner = $3, saved_by, saved_at
      FROM searches
     WHERE namespace_id = $1 AND owner IN ($2, $3)
     ORDER BY owner = $3, name";

/// An owner has so many at most.
const SAVE: &str = "
    INSERT INTO searches (namespace_id, owner, name, query, saved_by)
    SELECT $1, $2, $3, $4, $5
     WHERE (SELECT count(*) FROM searches
             WHERE namespace_id = $1 AND owner = $2 AND name <> $3) < $6
        ON CONFLICT (namespace_id, owner, name) DO UPDATE
       SET query = EXCLUDED.query, saved_by = EXCLUDED.saved_by, saved_at = moment()";

const FORGET: &str = "DELETE FROM searches WHERE namespace_id = $1 AND owner = $2 AND name = $3";

pub(crate) const STATEMENTS: &[&str] = &[LIST, SAVE, FORGET];

/// How many searches an owner has at most.
pub const SEARCHES_MAX: i64 = 100;

/// Whose a search is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchOwner {
    /// One token's, or one person's.
    One(TokenId),
    /// Everybody's in the namespace.
    Everybody,
}

impl SearchOwner {
    fn id(self) -> Uuid {
        match self {
            Self::One(token) => *token.as_uuid(),
            Self::Everybody => SHARED,
        }
    }
}

/// A search that was saved.
#[derive(Clone, Debug)]
pub struct SearchView {
    /// What it is called.
    pub name: String,
    /// What is searched for.
    pub query: String,
    /// Whether everybody in the namespace has it.
    pub is_shared: bool,
    /// Who saved it.
    pub saved_by: String,
    /// When.
    pub saved_at: Timestamp,
}

/// Lists the searches of one owner, and those that are shared.
pub async fn list(
    cell: HomeCell<'_>,
    namespace_id: i32,
    owner: TokenId,
) -> Result<Vec<SearchView>, ReadError> {
    let client = cell.reader().await?;
    let values: [&(dyn ToSql + Sync); 3] = [&namespace_id, owner.as_uuid(), &SHARED];
    let rows = client.query(LIST, &values).await?;
    let view = |row: &Row| SearchView {
        name: row.get(0),
        query: row.get(1),
        is_shared: row.get(2),
        saved_by: row.get(3),
        saved_at: row.get(4),
    };
    Ok(rows.iter().map(view).collect())
}

/// Saves a search, in the place of an earlier one of that name. False where the owner has too many.
pub async fn save(
    cell: HomeCell<'_>,
    namespace_id: i32,
    owner: SearchOwner,
    (name, query): (&str, &str),
    saved_by: &str,
) -> Result<bool, ReadError> {
    let client = cell.reader().await?;
    let id = owner.id();
    let values: [&(dyn ToSql + Sync); 6] =
        [&namespace_id, &id, &name, &query, &saved_by, &SEARCHES_MAX];
    Ok(client.execute(SAVE, &values).await? > 0)
}

/// Removes a search. False where there was none.
pub async fn forget(
    cell: HomeCell<'_>,
    namespace_id: i32,
    owner: SearchOwner,
    name: &str,
) -> Result<bool, ReadError> {
    let client = cell.reader().await?;
    let id = owner.id();
    let values: [&(dyn ToSql + Sync); 3] = [&namespace_id, &id, &name];
    Ok(client.execute(FORGET, &values).await? > 0)
}
