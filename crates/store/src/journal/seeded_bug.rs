//! The fence with a hole in it, for the test that shows that the crash tests would notice.

use semel_model::seeded_bug::SeededBug;

use super::statement::{FENCED, FENCED_BESIDE_ENDED, FENCED_END, WRITTEN};

const NOT_FENCED: &str = ",
    fenced AS (
        UPDATE queue q
           SET seq = q.seq + 1, stage = t.stage::queue_stage,
               holder = CASE WHEN t.hold THEN q.holder END,
               due_at = CASE WHEN t.hold THEN q.due_at ELSE coalesce(t.due_at, 'infinity') END
          FROM moves t
         WHERE NOT t.ends AND q.run_id = t.run_id
     RETURNING q.run_id, q.cancel)";

const NOT_FENCED_END: &str = ",
    ended AS (
        DELETE FROM queue q USING moves t WHERE t.ends AND q.run_id = t.run_id RETURNING 1)";

const WRITTEN_ANYWHERE: &str = ",
    written AS (
        INSERT INTO journal (partition_date, run_id, seq, epoch, at, events)
        SELECT t.partition_date, t.run_id,
               1 + greatest(t.seq, (SELECT max(j.seq) FROM journal j
                                     WHERE j.partition_date = t.partition_date AND j.run_id = t.run_id)),
               t.epoch, (SELECT now FROM present), t.events::json
          FROM moves t)";

/// The part that stands for another where the test build makes a mistake on purpose.
pub(super) fn with_seeded_bug(part: &'static str) -> &'static str {
    if !SeededBug::MissingFence.is_seeded() {
        return part;
    }
    match part {
        FENCED | FENCED_BESIDE_ENDED => NOT_FENCED,
        FENCED_END => NOT_FENCED_END,
        WRITTEN => WRITTEN_ANYWHERE,
        "all_or_nothing" => "greatest",
        other => other,
    }
}
