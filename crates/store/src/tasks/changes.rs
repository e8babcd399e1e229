//! What a run's own transition makes of its tasks.

use jiff::Timestamp;
use semel_model::request::TaskRequest;
use semel_model::{EffectId, RunId};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::HEAR;
use crate::journal::Transition;

/// A write that is submitted twice opens once.
pub(crate) const OPEN: &str = "
    INSERT INTO tasks (id, run_id, namespace_id, queue, step, attempt, lease_ms, until, input,
                       opened_at)
    SELECT t.id, t.run_id, t.namespace_id, t.queue, t.step, t.attempt, t.lease_ms, t.until,
           t.input::json, (SELECT moment())
      FROM unnest($1::uuid[], $2::uuid[], $3::int4[], $4::text[], $5::text[], $6::int4[],
                  $7::int8[], $8::timestamptz[], $9::text[])
        AS t (id, run_id, namespace_id, queue, step, attempt, lease_ms, until, input)
        ON CONFLICT (id) DO NOTHING";

/// The next attempt at a task: its last worker failed, or was lost.
pub(crate) const REOPEN: &str = "
    UPDATE tasks k
       SET state = 'open', attempt = t.attempt, opened_at = (SELECT moment()), ended_at = NULL
      FROM unnest($1::uuid[], $2::int4[]) AS t (id, attempt)
     WHERE k.id = t.id AND k.state IN ('failed', 'lost', 'withdrawn') AND k.attempt < t.attempt";

/// Moves the times of tasks by that of a pause.
pub(crate) const DEFER: &str = "
    UPDATE tasks k
       SET until = t.until
      FROM unnest($1::uuid[], $2::timestamptz[]) AS t (id, until)
     WHERE k.id = t.id AND k.ended_at IS NULL";

/// Withdraws tasks that no worker has; refuses the transition if a worker was first.
pub(crate) const WITHDRAW: &str = "
    WITH withdrawn AS (
        UPDATE tasks
           SET state = 'withdrawn', ended_at = (SELECT moment())
         WHERE id = ANY ($1) AND state IS NOT DISTINCT FROM 'open'
     RETURNING 1)
    SELECT all_or_nothing(count(*), $2) FROM withdrawn";

/// What happens to a task.
#[derive(Clone, Debug)]
pub enum TaskChange {
    /// Its first attempt may be claimed.
    Open {
        /// The task: the effect.
        task: EffectId,
        /// The step's path.
        step: String,
        /// What is asked for.
        request: Box<TaskRequest>,
    },
    /// Its next attempt may be claimed.
    Reopen {
        /// The task.
        task: EffectId,
        /// The number of the attempt.
        attempt: u32,
    },
    /// A pause is over, and its time ends later.
    Defer {
        /// The task.
        task: EffectId,
        /// When.
        until: Option<Timestamp>,
    },
    /// The run no longer needs it, and no worker has it.
    Withdraw {
        /// The task.
        task: EffectId,
    },
}

/// Changes of a batch, by column.
#[derive(Default)]
pub(crate) struct Rows<'a> {
    ids: Vec<Uuid>,
    runs: Vec<Uuid>,
    namespaces: Vec<i32>,
    queues: Vec<&'a str>,
    steps: Vec<&'a str>,
    attempts: Vec<i32>,
    leases: Vec<i64>,
    untils: Vec<Option<Timestamp>>,
    inputs: Vec<String>,
    again: Vec<Uuid>,
    again_attempts: Vec<i32>,
    deferred: Vec<Uuid>,
    deferred_untils: Vec<Option<Timestamp>>,
    withdrawn: Vec<Uuid>,
    withdrawn_count: i64,
}

impl<'a> Rows<'a> {
    pub(crate) fn push(&mut self, item: &Transition, change: &'a TaskChange) {
        match change {
            TaskChange::Open {
                task,
                step,
                request,
            } => self.open(item.run, item.namespace_id, (*task, step), request),
            TaskChange::Reopen { task, attempt } => {
                self.again.push(*task.as_uuid());
                let attempt = i32::try_from(*attempt).unwrap_or(i32::MAX);
                self.again_attempts.push(attempt);
            }
            TaskChange::Defer { task, until } => {
                self.deferred.push(*task.as_uuid());
                self.deferred_untils.push(*until);
            }
            TaskChange::Withdraw { task } => {
                self.withdrawn.push(*task.as_uuid());
                self.withdrawn_count += 1;
            }
        }
    }

    fn open(
        &mut self,
        run: RunId,
        namespace_id: i32,
        (task, step): (EffectId, &'a str),
        request: &'a TaskRequest,
    ) {
        self.ids.push(*task.as_uuid());
        self.runs.push(*run.as_uuid());
        self.namespaces.push(namespace_id);
        self.queues.push(&request.queue);
        self.steps.push(step);
        self.attempts.push(1);
        let lease = i64::try_from(request.lease.as_millis()).unwrap_or(i64::MAX);
        self.leases.push(lease);
        self.untils.push(request.until);
        self.inputs.push(request.input.to_string());
    }

    /// The statements that these changes need, with their parameters.
    pub(crate) fn statements(&'a self) -> Vec<(&'static str, Vec<&'a (dyn ToSql + Sync)>)> {
        let mut all: Vec<(&'static str, Vec<&'a (dyn ToSql + Sync)>)> = Vec::new();
        if !self.ids.is_empty() {
            let values: Vec<&(dyn ToSql + Sync)> = vec![
                &self.ids,
                &self.runs,
                &self.namespaces,
                &self.queues,
                &self.steps,
                &self.attempts,
                &self.leases,
                &self.untils,
                &self.inputs,
            ];
            all.push((OPEN, values));
        }
        if !self.again.is_empty() {
            all.push((REOPEN, vec![&self.again, &self.again_attempts]));
        }
        if !self.deferred.is_empty() {
            all.push((DEFER, vec![&self.deferred, &self.deferred_untils]));
            // An answer may have come since the run looked.
            all.push((HEAR, vec![&self.deferred]));
        }
        if !self.withdrawn.is_empty() {
            all.push((WITHDRAW, vec![&self.withdrawn, &self.withdrawn_count]));
        }
        all
    }
}
