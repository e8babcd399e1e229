//! The `llm_answers` table: what language models answered, so that the same question is asked once.

use semel_model::{RunId, Span};
use serde_json::Value;

use crate::cell::{EveryCell, ReadError, SlotCell};
use crate::retention::FORGET_MAX;

// Crosses slots (V8): the table has no slot, though its rows are named by a digest that has one, and
// whether an answer is forgotten depends on a run of another slot. Before a second cell, the slot of
// the digest stands first in the primary key, and the end of the run sets the answer's time.

/// What holds within a run holds for as long as it is there.
const FIND: &str = "
    SELECT answer FROM llm_answers
     WHERE namespace_id = $1 AND digest = $2
       AND (run_id IS NOT NULL OR expires_at > (SELECT moment()))";

/// Of two that asked at once the first wins, unless its time is over.
const KEEP: &str = "
    INSERT INTO llm_answers (namespace_id, digest, answer, run_id, expires_at)
    VALUES ($1, $2, $3, $5, moment() + make_interval(secs => $4))
        ON CONFLICT (namespace_id, digest) DO UPDATE
       SET answer = CASE WHEN llm_answers.run_id IS NOT NULL OR llm_answers.expires_at > moment()
                         THEN llm_answers.answer ELSE EXCLUDED.answer END,
           created_at = CASE WHEN llm_answers.run_id IS NOT NULL OR llm_answers.expires_at > moment()
                             THEN llm_answers.created_at ELSE EXCLUDED.created_at END,
           expires_at = greatest(llm_answers.expires_at, EXCLUDED.expires_at)
 RETURNING answer";

/// Answers of runs that have not ended are looked at again later, and a day before their time, so
/// that a run that ends has them for a day at least.
const EXTEND: &str = "
    UPDATE llm_answers
       SET expires_at = (SELECT moment()) + interval '7 days'
     WHERE (namespace_id, digest) IN
           (SELECT a.namespace_id, a.digest
              FROM llm_answers a
              JOIN queue q ON q.run_id = a.run_id
             WHERE a.expires_at <= (SELECT moment()) + interval '1 day'
             ORDER BY a.expires_at LIMIT $1 FOR UPDATE OF a SKIP LOCKED)";

const FORGET: &str = "
    DELETE FROM llm_answers
     WHERE (namespace_id, digest) IN
           (SELECT a.namespace_id, a.digest
              FROM llm_answers a
             WHERE a.expires_at <= (SELECT moment())
               AND NOT EXISTS (SELECT 1 FROM queue q WHERE q.run_id = a.run_id)
             ORDER BY a.expires_at LIMIT $1 FOR UPDATE SKIP LOCKED)";

pub(crate) const STATEMENTS: &[&str] = &[FIND, KEEP, EXTEND, FORGET];

/// For how long an answer is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepFor {
    /// For as long as the run has not ended, and a day at least beyond that.
    Run(RunId),
    /// For so long.
    Time(Span),
}

/// When the answers of a run that has not ended are looked at again.
const RUN_LOOK: Span = Span::from_const_secs(7 * 86_400);

/// The answer to a question, as JSON text, where it was asked before.
pub async fn find(
    cell: SlotCell<'_>,
    namespace_id: i32,
    digest: &[u8; 32],
) -> Result<Option<String>, ReadError> {
    let client = cell.reader().await?;
    let digest = digest.as_slice();
    let row = client.query_opt(FIND, &[&namespace_id, &digest]).await?;
    Ok(row.and_then(|row| crate::runs::read_json(&row, 0)))
}

/// Keeps an answer, and gives the one that holds: the first.
pub async fn keep(
    cell: SlotCell<'_>,
    namespace_id: i32,
    digest: &[u8; 32],
    answer: &Value,
    keep: KeepFor,
) -> Result<Value, ReadError> {
    let client = cell.reader().await?;
    let (run, span) = match keep {
        KeepFor::Run(run) => (Some(*run.as_uuid()), RUN_LOOK),
        KeepFor::Time(span) => (None, span),
    };
    let (digest, secs) = (digest.as_slice(), span.as_secs_f64());
    let row = client
        .query_one(KEEP, &[&namespace_id, &digest, answer, &secs, &run])
        .await?;
    Ok(row.get(0))
}

/// Forgets answers whose time is over, so many at most.
pub async fn forget(cell: EveryCell<'_>) -> Result<u64, ReadError> {
    let client = cell.reader().await?;
    client.execute(EXTEND, &[&FORGET_MAX]).await?;
    Ok(client.execute(FORGET, &[&FORGET_MAX]).await?)
}
