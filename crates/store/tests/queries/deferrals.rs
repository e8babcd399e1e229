//! A run whose deadline moves by a pause falls asleep again: it hears of what came while it looked.

use std::sync::Arc;

use anyhow::{Context, Result};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use semel_model::event::{Deferral, Event};
use semel_model::{EffectId, RunId, SessionId, WaitId};
use semel_store::approvals::ApprovalChange;
use semel_store::claims::start_accepting;
use semel_store::journal::{self, Events, LeaseChange, Transition, TransitionResult, WaitChange};
use semel_store::runs::Stage;
use semel_store::tasks::TaskChange;
use uuid::Uuid;

use crate::world::{World, delivery};

const ANSWERED_TASK: &str = "
    INSERT INTO tasks (id, run_id, namespace_id, queue, step, state, attempt, lease_ms, opened_at, ended_at, input)
    VALUES ($1, $2, 1, 'images', 'work', 'done', 1, 1000, moment(), moment(), '{}')";

const ANSWERED_WAIT: &str = "
    INSERT INTO waits (id, run_id, namespace_id, state, step, opened_at, ended_at, payload)
    VALUES ($1, $2, 1, 'answered', 'work', moment(), moment(), '{}')";

const DECIDED_APPROVAL: &str = "
    INSERT INTO approvals (id, run_id, namespace_id, flow, step, state, people, escalate, shown, digest, login, opened_at,
                           ended_at, approved, decided_by)
    VALUES ($1, $2, 1, 'story', 'work', 'decided', '{}', '{}', '{}', '', false, moment(), moment(), true, 'ann')";

/// Whether a run is due that held its lease while its answer came, and then moved its deadline.
async fn is_due(
    world: &World,
    name: &str,
    answered: &str,
    defer: impl FnOnce(&mut Transition, Uuid, Timestamp),
) -> Result<bool> {
    let client = world.connect().await?;
    let accepted = start_accepting(&world.cell)
        .write(delivery(name, "{}", None)?)
        .await?;
    let (run, id, holder) = (
        accepted.run,
        *SessionId::generate().as_uuid(),
        SessionId::generate(),
    );
    let take =
        "UPDATE queue SET holder = $2, epoch = epoch + 1 WHERE run_id = $1 RETURNING epoch, seq";
    let taken = client
        .query_one(take, &[run.as_uuid(), holder.as_uuid()])
        .await?;
    client.execute(answered, &[&id, run.as_uuid()]).await?;

    let from = accepted.accepted_at;
    let until = from + SignedDuration::from_hours(1);
    let mut transition = Transition {
        run,
        partition_date: from.to_zoned(TimeZone::UTC).date(),
        namespace_id: 1,
        holder,
        epoch: taken.get(0),
        seq: taken.get(1),
        events: Events::new(vec![Event::Deferred(Deferral { from, until })]),
        effects: Vec::new(),
        waits: Vec::new(),
        tasks: Vec::new(),
        approvals: Vec::new(),
        kv: Vec::new(),
        emitted: Vec::new(),
        alerts: Vec::new(),
        leaves_gates: Vec::new(),
        notices: Vec::new(),
        kept_generations: Vec::new(),
        record: None,
        next_run: None,
        acts: Vec::new(),
        parent: None,
        saw_cancel: false,
        progresses: true,
        pause_version: None,
        paused_by: None,
        lease: LeaseChange::Return {
            due_at: Some(until),
            stage: Stage::Waiting,
        },
    };
    defer(&mut transition, id, until);
    let written = journal::start_recording(&world.cell)
        .write(Arc::new(transition))
        .await?;
    assert!(
        matches!(written, TransitionResult::Committed { .. }),
        "{written:?}"
    );
    stands_due(world, run).await
}

async fn stands_due(world: &World, run: RunId) -> Result<bool> {
    let client = world.connect().await?;
    let due = "SELECT due_at <= moment() AND stage = 'ready' FROM queue WHERE run_id = $1";
    let row = client.query_opt(due, &[run.as_uuid()]).await?;
    Ok(row.context("the run is there")?.get(0))
}

#[tokio::test]
async fn an_answer_that_came_while_a_deadline_moved_wakes_the_run() -> Result<()> {
    let world = World::start().await?;

    let task = is_due(&world, "task", ANSWERED_TASK, |transition, id, until| {
        let (task, until) = (EffectId::from_uuid(id), Some(until));
        transition.tasks.push(TaskChange::Defer { task, until });
    });
    let task = task.await?;
    let wait = is_due(&world, "wait", ANSWERED_WAIT, |transition, id, until| {
        let (wait, until) = (WaitId::from_uuid(id), Some(until));
        transition.waits.push(WaitChange::Defer { wait, until });
    });
    let wait = wait.await?;
    let approval = is_due(
        &world,
        "approval",
        DECIDED_APPROVAL,
        |transition, id, until| {
            transition.approvals.push(ApprovalChange::Defer {
                wait: WaitId::from_uuid(id),
                until: Some(until),
                escalate_at: None,
            });
        },
    );
    let approval = approval.await?;

    assert_eq!((task, wait, approval), (true, true, true));
    Ok(())
}
