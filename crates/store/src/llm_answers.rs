//! The `llm_answers` table: what language models answered, so that the same question is asked once.

use semel_model::Span;
use serde_json::Value;

use crate::cell::{Cell, ReadError};
use crate::retain::FORGET_MAX;

const FIND: &str = "
    SELECT answer FROM llm_answers
     WHERE namespace_id = $1 AND digest = $2 AND expires_at > moment()";

/// Of two that asked at once the first wins, unless its time is over.
const KEEP: &str = "
    INSERT INTO llm_answers (namespace_id, digest, answer, expires_at)
    VALUES ($1, $2, $3, moment() + make_interval(secs => $4))
        ON CONFLICT (namespace_id, digest) DO UPDATE
       SET answer = CASE WHEN llm_answers.expires_at > moment() THEN llm_answers.answer
                         ELSE EXCLUDED.answer END,
           created_at = CASE WHEN llm_answers.expires_at > moment() THEN llm_answers.created_at
                             ELSE EXCLUDED.created_at END,
           expires_at = greatest(llm_answers.expires_at, EXCLUDED.expires_at)
 RETURNING answer";

const FORGET: &str = "
    DELETE FROM llm_answers
     WHERE (namespace_id, digest) IN
           (SELECT namespace_id, digest FROM llm_answers WHERE expires_at <= moment()
             ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED)";

pub(crate) const STATEMENTS: &[&str] = &[FIND, KEEP, FORGET];

/// The answer to a question, where it was asked before.
pub async fn find(
    cell: &Cell,
    namespace_id: i32,
    digest: &[u8; 32],
) -> Result<Option<Value>, ReadError> {
    let client = cell.reader().await?;
    let digest = digest.as_slice();
    let row = client.query_opt(FIND, &[&namespace_id, &digest]).await?;
    Ok(row.map(|row| row.get(0)))
}

/// Keeps an answer, and gives the one that holds: the first.
pub async fn keep(
    cell: &Cell,
    namespace_id: i32,
    digest: &[u8; 32],
    answer: &Value,
    keep: Span,
) -> Result<Value, ReadError> {
    let client = cell.reader().await?;
    let (digest, secs) = (digest.as_slice(), keep.as_millis() as f64 / 1e3);
    let row = client
        .query_one(KEEP, &[&namespace_id, &digest, answer, &secs])
        .await?;
    Ok(row.get(0))
}

/// Forgets answers whose time is over, so many at most.
pub async fn forget(cell: &Cell) -> Result<u64, ReadError> {
    let client = cell.reader().await?;
    Ok(client.execute(FORGET, &[&FORGET_MAX]).await?)
}
