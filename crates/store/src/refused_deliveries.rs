//! The `refused_deliveries` table: deliveries that were refused, as far as they are recorded.

use jiff::Timestamp;
use semel_model::Span;
use semel_model::storable::without_zero;
use tokio_postgres::types::ToSql;

use crate::cell::{Cell, EveryCell, ReadError};

const APPEND: &str = "
    INSERT INTO refused_deliveries (namespace_id, flow, code, message) VALUES ($1, $2, $3, left($4, 500))";

const LIST: &str = "
    SELECT id, flow, at, code, message
      FROM refused_deliveries
     WHERE namespace_id = $1
       AND ($2::text IS NULL OR flow = $2)
       AND ($3::text IS NULL OR code = $3)
       AND ($4::timestamptz IS NULL OR at >= $4)
       AND ($5::timestamptz IS NULL OR at < $5)
       AND ($6::int8 IS NULL OR id < $6)
     ORDER BY id DESC
     LIMIT $7";

const FORGET: &str = "
    DELETE FROM refused_deliveries
     WHERE id IN (SELECT id FROM refused_deliveries
                   WHERE at < moment() - make_interval(secs => $1)
                   ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED)";

pub(crate) const STATEMENTS: &[&str] = &[APPEND, LIST, FORGET];

/// The most rows that one statement removes.
const FORGET_MAX: i64 = 5_000;

/// Records a refusal.
pub async fn append(
    cell: &Cell,
    namespace_id: i32,
    flow: &str,
    code: &str,
    message: &str,
) -> Result<(), ReadError> {
    // It may quote what was sent.
    let message = without_zero(message);
    let client = cell.reader().await?;
    client
        .execute(APPEND, &[&namespace_id, &flow, &code, &message])
        .await?;
    Ok(())
}

/// Which refusals to list.
#[derive(Clone, Debug, Default)]
pub struct RefusedFilter<'a> {
    /// Only those of this flow.
    pub flow: Option<&'a str>,
    /// Only those with this code.
    pub code: Option<&'a str>,
    /// Only those of this time or later.
    pub since: Option<Timestamp>,
    /// Only those before this time.
    pub until: Option<Timestamp>,
    /// Only those written before this one.
    pub before: Option<i64>,
}

/// A delivery that was refused.
#[derive(Clone, Debug)]
pub struct RefusedView {
    /// Its number, in order of writing.
    pub id: i64,
    /// The flow.
    pub flow: String,
    /// When.
    pub at: Timestamp,
    /// The error code of the response.
    pub code: String,
    /// What was wrong.
    pub message: String,
}

/// Lists refusals, latest first.
pub async fn list(
    cell: EveryCell<'_>,
    namespace_id: i32,
    filter: &RefusedFilter<'_>,
    limit: u16,
) -> Result<Vec<RefusedView>, ReadError> {
    let limit = i64::from(limit);
    let values: [&(dyn ToSql + Sync); 7] = [
        &namespace_id,
        &filter.flow,
        &filter.code,
        &filter.since,
        &filter.until,
        &filter.before,
        &limit,
    ];
    let rows = cell.reader().await?.query(LIST, &values).await?;
    let views = rows.iter().map(|row| RefusedView {
        id: row.get(0),
        flow: row.get(1),
        at: row.get(2),
        code: row.get(3),
        message: row.get(4),
    });
    Ok(views.collect())
}

/// Removes some refusals that are older than `history`, and says how many.
pub async fn forget(cell: EveryCell<'_>, history: Span) -> Result<u64, ReadError> {
    let secs = history.as_millis() as f64 / 1e3;
    let client = cell.reader().await?;
    Ok(client.execute(FORGET, &[&secs, &FORGET_MAX]).await?)
}
