//! F4q and F4s: F4 again, when the last ANALYZE of the queue saw no run at work.
//!
//! PostgreSQL plans by what it last saw of a table. A VACUUM and ANALYZE falls into a busy hour or
//! into a quiet one, and runs that sleep stand in the queue by the thousand; neither may change
//! what a run costs. Each round has a slice after an ANALYZE in the midst of work, and one after an
//! ANALYZE of a queue in which no run is held.

use std::time::Duration;

use anyhow::Result;
use tokio_postgres::Client;

use crate::goal::Goal;
use crate::load::{self, Keys, Poster};
use crate::measure::Course;

/// How many run at once.
const IN_FLIGHT: usize = 256;

/// How long the work lasts in the midst of which the queue is looked at.
const BUSY: Duration = Duration::from_secs(1);

/// No autovacuum may analyse the queue.
const ALONE: &str = "ALTER TABLE queue SET (autovacuum_enabled = false)";
const NOT_ALONE: &str = "ALTER TABLE queue RESET (autovacuum_enabled)";

const FALL_ASLEEP: &str = "
    INSERT INTO queue (run_id, due_at, epoch, seq, partition_date, namespace_id, stage)
    SELECT md5('sleeper-' || n)::uuid, now() + interval '30 days', 1, 1, current_date, 1, 'waiting'
      FROM generate_series(1, 10000) AS n";

const WAKE_UP: &str = "
    DELETE FROM queue
     WHERE run_id = ANY (ARRAY(SELECT md5('sleeper-' || n)::uuid
                                 FROM generate_series(1, 10000) AS n))";

/// Measures one of the two beside F4 itself.
pub(crate) async fn measure(course: &mut Course<'_>, goal: Goal) -> Result<()> {
    let client = course.ground.connect("semel").await?;
    client.batch_execute(ALONE).await?;
    let measured = rounds(course, goal, &client).await;
    client.batch_execute(NOT_ALONE).await?;
    measured
}

async fn rounds(course: &mut Course<'_>, goal: Goal, client: &Client) -> Result<()> {
    let target = course.ground.semel.runs_of("orders");
    for round in 0..=course.pace.rounds {
        let tag = |part: &str| format!("{}-{part}-{round}", goal.name());
        client.batch_execute("VACUUM queue").await?;
        let crowd = Poster::crowd(&target, IN_FLIGHT, Keys::Unique, &tag("busy")).await?;
        let look = async {
            tokio::time::sleep(BUSY / 2).await;
            anyhow::Ok(client.batch_execute("ANALYZE queue").await?)
        };
        tokio::try_join!(load::run(crowd, BUSY), look)?;
        let keys = Keys::Unique;
        let busy = course.post(&target, IN_FLIGHT, keys, &tag("f4")).await?;
        if goal == Goal::F4s {
            client.batch_execute(FALL_ASLEEP).await?;
        }
        client.batch_execute("VACUUM ANALYZE queue").await?;
        let quiet = course.post(&target, IN_FLIGHT, keys, &tag("quiet")).await?;
        if goal == Goal::F4s {
            client.batch_execute(WAKE_UP).await?;
        }
        course.note(goal, round, &busy, &quiet);
    }
    Ok(())
}
