//! The `late_responses` table: responses that came to a worker whose lease was lost.
//!
//! Nothing fences them, because they change nothing by themselves: the next holder of the run may
//! read them to turn doubt into done.

use std::time::Duration;

use semel_model::{EffectId, RunId, json};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio_postgres::Row;
use tokio_postgres::types::{Json, ToSql};

use crate::cell::{ReadError, SlotCell};
use crate::wakes::wakes;

pub(crate) const LOAD: &str = "
    SELECT e.run_id, e.effect_id, e.attempt, e.response
      FROM unnest($1::uuid[]) AS t (run_id)
      JOIN late_responses e ON e.run_id = t.run_id";

/// Touches the run's row whatever its state, so that it waits for a worker that lets the run sleep
/// at this moment, or is waited for: one of the two sees the other. A run that is not stopped finds
/// the response at its next look.
const HAND_IN: &str = concat!(
    "/* commits alone: late response */
    WITH kept AS (
        INSERT INTO late_responses (run_id, effect_id, attempt, epoch, response)
        VALUES ($1, $2, $3, $4, $5)
            ON CONFLICT DO NOTHING)
    UPDATE queue q
       SET ",
    wakes!("CASE WHEN q.stage = 'stopped' THEN moment() ELSE q.due_at END"),
    "
     WHERE q.run_id = $1"
);

/// Makes runs due that are being stopped while a late response is already there. In the commit that
/// stops them, behind its fence.
pub(crate) const HEAR: &str = "
    UPDATE queue q
       SET due_at = (SELECT moment())
      FROM late_responses e
     WHERE e.run_id = ANY ($1) AND q.run_id = e.run_id AND num_nulls(q.holder) = 1
       AND q.stage = 'stopped'";

pub(crate) const STATEMENTS: &[&str] = &[LOAD, HAND_IN, HEAR];

/// How long one try to record a response may take.
const HAND_IN_PATIENCE: Duration = Duration::from_secs(5);

/// A late response.
#[derive(Clone, Debug)]
pub struct LateResponse {
    /// The effect that was answered.
    pub effect: EffectId,
    /// The attempt that was answered.
    pub attempt: i32,
    /// What the destination answered.
    pub response: Value,
}

/// Records a late response, and wakes the run if it is stopped.
pub async fn record_late_response(
    cell: SlotCell<'_>,
    run: RunId,
    epoch: i64,
    late: &LateResponse,
) -> Result<(), ReadError> {
    let response = Json(&late.response);
    let values: [&(dyn ToSql + Sync); 5] = [
        run.as_uuid(),
        late.effect.as_uuid(),
        &late.attempt,
        &epoch,
        &response,
    ];
    let lane = cell.recovery();
    lane.execute(HAND_IN, &values, HAND_IN_PATIENCE).await?;
    Ok(())
}

pub(crate) fn read_late(row: &Row) -> LateResponse {
    LateResponse {
        effect: EffectId::from_uuid(row.get(1)),
        attempt: row.get(2),
        response: json::read_back(row.get::<_, Json<Box<RawValue>>>(3).0.get()),
    }
}
