//! The `refused_deliveries` table: deliveries that were refused, as far as they are recorded.

use jiff::Timestamp;
use semel_model::Span;
use tokio_postgres::types::ToSql;

use crate::cell::{Cell, EveryCell, ReadError};
use crate::column_text::ColumnText;

const APPEND: &str = "
    INSERT INTO refused_deliveries (namespace_id, flow, code, message) VALUES ($1, $2, $3, left($4, 500))";

macro_rules! listed {
    ($condition:literal) => {
        concat!(
            "
    SELECT id, flow, at, code, message
      FROM refused_deliveries
     WHERE namespace_id = $1 AND id < $2 AND at >= $3 AND at < $4",
            $condition,
            "
     ORDER BY id DESC
     LIMIT $5"
        )
    };
}

const LIST: &str = listed!("");
const LIST_OF_FLOW: &str = listed!(" AND flow = $6");
const LIST_OF_CODE: &str = listed!(" AND code = $6");
const LIST_OF_BOTH: &str = listed!(" AND flow = $6 AND code = $7");

const FORGET: &str = "
    DELETE FROM refused_deliveries
     WHERE id IN (SELECT id FROM refused_deliveries
                   WHERE at < (SELECT moment()) - make_interval(secs => $1)
                   ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED)";

pub(crate) const STATEMENTS: &[&str] = &[
    APPEND,
    LIST,
    LIST_OF_FLOW,
    LIST_OF_CODE,
    LIST_OF_BOTH,
    FORGET,
];

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
    let message = ColumnText::words(message);
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
    let before = filter.before.unwrap_or(i64::MAX);
    let since = filter.since.unwrap_or(Timestamp::UNIX_EPOCH);
    let until = filter.until.unwrap_or(Timestamp::MAX);
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&namespace_id, &before, &since, &until, &limit];
    let text = match (&filter.flow, &filter.code) {
        (None, None) => LIST,
        (Some(flow), None) => {
            values.push(flow);
            LIST_OF_FLOW
        }
        (None, Some(code)) => {
            values.push(code);
            LIST_OF_CODE
        }
        (Some(flow), Some(code)) => {
            values.extend([flow as &(dyn ToSql + Sync), code]);
            LIST_OF_BOTH
        }
    };
    let rows = cell.reader().await?.query(text, &values).await?;
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
    let secs = history.as_secs_f64();
    let client = cell.reader().await?;
    Ok(client.execute(FORGET, &[&secs, &FORGET_MAX]).await?)
}
