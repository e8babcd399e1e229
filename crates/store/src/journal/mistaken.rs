//! The fence with a hole in it, for the test that shows that the crash tests would notice.

use semel_model::mistake::Mistake;

use super::{APPEND, FENCE, FENCE_END};

pub(super) const NO_FENCE: &str = "
    WITH passed AS (
        UPDATE queue q
           SET seq = q.seq + 1, stage = t.stage::queue_stage,
               holder = CASE WHEN t.hold THEN q.holder END,
               due_at = CASE WHEN t.hold THEN q.due_at ELSE coalesce(t.due_at, 'infinity') END
          FROM unnest($1::uuid[], $2::int8[], $3::int4[], $4::uuid[], $5::bool[],
                      $6::timestamptz[], $7::text[], $9::bool[])
            AS t (run_id, epoch, seq, holder, hold, due_at, stage, saw_cancel)
         WHERE q.run_id = t.run_id AND t.epoch > 0 AND t.seq > 0 AND t.holder IS NOT NULL
     RETURNING q.run_id, q.cancel)
    SELECT $8::int8, array_agg(run_id) FILTER (WHERE cancel) FROM passed";

pub(super) const NO_FENCE_END: &str = "
    WITH passed AS (
        DELETE FROM queue q
         USING unnest($1::uuid[], $2::int8[], $3::int4[], $4::uuid[])
            AS t (run_id, epoch, seq, holder)
         WHERE q.run_id = t.run_id AND t.epoch > 0 AND t.seq > 0 AND t.holder IS NOT NULL
     RETURNING 1)
    SELECT $5::int8, count(*) FROM passed";

pub(super) const APPEND_ANYWHERE: &str = "
    INSERT INTO journal (born, run_id, seq, epoch, at, events)
    SELECT t.born, t.run_id,
           1 + greatest(t.seq, (SELECT max(j.seq) FROM journal j
                                 WHERE j.born = t.born AND j.run_id = t.run_id)),
           t.epoch, (SELECT moment()), t.events::json
      FROM unnest($1::date[], $2::uuid[], $3::int4[], $4::int8[], $5::text[])
        AS t (born, run_id, seq, epoch, events)";

/// The statement that is sent for another where the test build makes a mistake on purpose.
pub(super) fn mistaken(text: &'static str) -> &'static str {
    if !Mistake::MissingFence.is_seeded() {
        return text;
    }
    match text {
        FENCE => NO_FENCE,
        FENCE_END => NO_FENCE_END,
        APPEND => APPEND_ANYWHERE,
        other => other,
    }
}
