//! The `commands` table: the first answer to each API command that came with a key.
//!
//! ```text
//! (nothing) ──▶ in progress ──▶ answered
//!                   └──▶ free again, if the process died on the way
//! ```
//!
//! Commands are made so that carrying one out twice does no harm; the record is what makes the
//! second caller get the first one's answer.

use semel_model::{Fingerprint, Span};
use serde_json::Value;
use tokio_postgres::types::Json;
use uuid::Uuid;

use crate::cell::{ReadError, SlotCell};

const BEGIN: &str = "
    INSERT INTO commands AS c (id, namespace_id, fingerprint, begun_at, holder_until)
    VALUES ($1, $2, $3, moment(), moment() + make_interval(secs => $4))
        ON CONFLICT (id) DO UPDATE
       SET holder_until = EXCLUDED.holder_until
     WHERE c.status IS NULL AND c.holder_until <= moment() AND c.fingerprint = EXCLUDED.fingerprint
 RETURNING 1";

const FIND: &str = "SELECT fingerprint, status, answer FROM commands WHERE id = $1";

const FINISH: &str =
    "UPDATE commands SET status = $2, answer = $3 WHERE id = $1 AND status IS NULL";

const ABANDON: &str = "DELETE FROM commands WHERE id = $1 AND status IS NULL";

pub(crate) const STATEMENTS: &[&str] = &[BEGIN, FIND, FINISH, ABANDON];

/// What a command finds.
#[derive(Clone, Debug)]
pub enum Begin {
    /// It is the first: carry it out, then [`finish`].
    First,
    /// The first is in progress.
    UnderWay,
    /// The first came with another payload.
    Mismatch,
    /// The first was answered with this.
    Answered {
        /// The HTTP status.
        status: u16,
        /// The body.
        answer: Value,
    },
}

/// Begins a command, or says what became of the first.
pub async fn begin(
    cell: SlotCell<'_>,
    id: Uuid,
    namespace_id: i32,
    fingerprint: Fingerprint,
    patience: Span,
) -> Result<Begin, ReadError> {
    let client = cell.reader().await?;
    let secs = patience.as_secs_f64();
    let first = client
        .query_opt(BEGIN, &[&id, &namespace_id, fingerprint.as_uuid(), &secs])
        .await?;
    if first.is_some() {
        return Ok(Begin::First);
    }
    let Some(row) = client.query_opt(FIND, &[&id]).await? else {
        // Abandoned between the two statements; the caller may retry at once.
        return Ok(Begin::UnderWay);
    };
    if Fingerprint::from_uuid(row.get(0)) != fingerprint {
        return Ok(Begin::Mismatch);
    }
    let (status, answer): (Option<i16>, Option<Json<Value>>) = (row.get(1), row.get(2));
    Ok(match (status, answer) {
        (Some(status), Some(Json(answer))) => Begin::Answered {
            status: u16::try_from(status).unwrap_or(500),
            answer,
        },
        _ => Begin::UnderWay,
    })
}

/// Keeps the answer for callers that repeat the command.
pub async fn finish(
    cell: SlotCell<'_>,
    id: Uuid,
    status: u16,
    answer: &Value,
) -> Result<(), ReadError> {
    let status = i16::try_from(status).unwrap_or(500);
    cell.reader()
        .await?
        .execute(FINISH, &[&id, &status, &Json(answer)])
        .await?;
    Ok(())
}

/// Forgets a command that could not be carried out, so that it can be tried again at once.
pub async fn abandon(cell: SlotCell<'_>, id: Uuid) -> Result<(), ReadError> {
    cell.reader().await?.execute(ABANDON, &[&id]).await?;
    Ok(())
}
