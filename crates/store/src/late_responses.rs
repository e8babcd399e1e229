//! The `late_responses` table: responses that came to a worker whose lease was lost.
//!
//! Nothing fences them, because they change nothing by themselves: the next holder of the run may
//! read them to turn doubt into done: the run, or a later one of its key that took the effect over.

use std::time::Duration;

use semel_model::{EffectId, RunId, json};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio_postgres::Row;
use tokio_postgres::types::{Json, ToSql};
use uuid::Uuid;

use crate::cell::{ReadError, SlotCell};
use crate::wakes::wakes;

pub(crate) const LOAD: &str = "
    SELECT e.run_id, e.effect_id, e.attempt, e.response
      FROM unnest($1::uuid[]) AS t (run_id)
      JOIN late_responses e ON e.run_id = t.run_id
     ORDER BY e.run_id";

/// A later run of a key stands at an effect that an earlier one left in doubt: its response is among those of
/// the earlier run. Everything of a key is in one range.
const OF_EFFECTS: &str = "
    SELECT run_id, effect_id, attempt, response
      FROM late_responses
     WHERE run_id BETWEEN $1 AND $2 AND effect_id = ANY ($3)
     ORDER BY run_id, effect_id, attempt
     LIMIT $4";

/// Touches the run's row whatever its state, so that it waits for a worker that lets the run sleep
/// at this moment, or is waited for: one of the two sees the other. A run that is not stopped finds
/// the response at its next look. So do the run that has the key now, and the one that stands at the
/// doubt: either may have taken the effect over. Their rows are locked in the order of identities, as in every
/// statement, before anything is changed. Of an erased run nothing is kept that is said from now on.
const HAND_IN: &str = concat!(
    "/* commits alone: late response */
    WITH kept AS (
        INSERT INTO late_responses (run_id, effect_id, attempt, epoch, response)
        SELECT $1::uuid, $2::uuid, $3::integer, $4::bigint, $5::json
         WHERE NOT EXISTS (SELECT FROM runs r WHERE r.id = $1 AND r.erased_at IS NOT NULL)
            ON CONFLICT DO NOTHING),
    locked AS MATERIALIZED (
        SELECT o.run_id
          FROM queue o
         WHERE o.run_id = ANY (ARRAY[$1::uuid]
                               || ARRAY(SELECT c.run_id FROM runs r JOIN claims c ON c.id = r.claim_id
                                         WHERE r.id = $1)
                               || ARRAY(SELECT a.run_id FROM attention a
                                         WHERE a.subject_id = $2 AND a.kind = 'doubt'))
         ORDER BY o.run_id
           FOR UPDATE)
    UPDATE queue q
       SET ",
    wakes!("CASE WHEN q.stage = 'stopped' THEN moment() ELSE q.due_at END"),
    "
     WHERE q.run_id = ANY (ARRAY(SELECT run_id FROM locked))"
);

/// Makes runs due that are being stopped while a late response is already there: one of their own, or one to an
/// effect in doubt that they took over, which is kept under the run that had sent the request. In the commit that
/// stops them, behind its fence and behind what notes their doubts.
pub(crate) const HEAR: &str = "
    WITH heard AS MATERIALIZED (
        SELECT t.run_id
          FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS t (run_id, low, high)
         WHERE EXISTS (SELECT FROM late_responses e WHERE e.run_id = t.run_id OFFSET 0)
            OR EXISTS (SELECT
                         FROM late_responses e
                        CROSS JOIN LATERAL (SELECT a.run_id FROM attention a
                                             WHERE a.subject_id = e.effect_id AND a.kind = 'doubt'
                                            OFFSET 0) d
                        WHERE e.run_id BETWEEN t.low AND t.high AND d.run_id = t.run_id
                       OFFSET 0))
    UPDATE queue q
       SET due_at = (SELECT moment())
     WHERE q.run_id = ANY (ARRAY(SELECT run_id FROM heard)) AND num_nulls(q.holder) = 1
       AND q.stage = 'stopped'";

pub(crate) const STATEMENTS: &[&str] = &[LOAD, OF_EFFECTS, HAND_IN, HEAR];

/// Runs that are being stopped, with the range that everything of their keys is in.
#[derive(Default)]
pub(crate) struct StoppedRuns {
    runs: Vec<Uuid>,
    low: Vec<Uuid>,
    high: Vec<Uuid>,
}

impl StoppedRuns {
    pub(crate) fn push(&mut self, run: RunId) {
        let (low, high) = run.key_range();
        self.runs.push(*run.as_uuid());
        self.low.push(low);
        self.high.push(high);
    }

    pub(crate) fn values(&self) -> Option<Vec<&(dyn ToSql + Sync)>> {
        let values = || vec![&self.runs as &(dyn ToSql + Sync), &self.low, &self.high];
        (!self.runs.is_empty()).then(values)
    }
}

/// The most responses that a run looks at.
const OF_EFFECTS_MAX: i64 = 64;

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

/// A late response as a run's next turn reads it. It stays text until that turn has memory for what it
/// becomes.
#[derive(Clone, Debug)]
pub struct StoredResponse {
    /// The effect that was answered.
    pub effect: EffectId,
    response: Box<RawValue>,
}

impl StoredResponse {
    /// What the destination answered, as JSON text.
    pub fn text(&self) -> &str {
        self.response.get()
    }

    /// What the destination answered.
    pub fn read(&self) -> Value {
        json::read_back(self.text())
    }
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

/// The late responses to effects that a run may have taken over from earlier runs of its key.
pub async fn list_of_effects(
    cell: SlotCell<'_>,
    run: RunId,
    effects: &[EffectId],
) -> Result<Vec<StoredResponse>, ReadError> {
    let (low, high) = run.key_range();
    let ids: Vec<Uuid> = effects.iter().map(|effect| *effect.as_uuid()).collect();
    let values: [&(dyn ToSql + Sync); 4] = [&low, &high, &ids, &OF_EFFECTS_MAX];
    let rows = cell.reader().await?.query(OF_EFFECTS, &values).await?;
    Ok(rows.iter().map(read_late).collect())
}

pub(crate) fn read_late(row: &Row) -> StoredResponse {
    StoredResponse {
        effect: EffectId::from_uuid(row.get(1)),
        response: row.get::<_, Json<Box<RawValue>>>(3).0,
    }
}
