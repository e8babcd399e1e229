//! Wakes: whatever comes for a run while a worker holds it, the run is due when the worker lets it
//! sleep.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use semel_model::approval::Digest;
use semel_model::event::Event;
use semel_model::run::{EndState, RunState};
use semel_model::task::TaskState;
use semel_model::{EffectId, RunId, SessionId, Span, TokenId, WaitId};
use semel_store::approvals::{self, DecisionRequest, DecisionResult};
use semel_store::audit::origin::ActOrigin;
use semel_store::claims::start_accepting;
use semel_store::journal::{self, Events, LeaseChange, RecordChange, Transition, TransitionResult};
use semel_store::late_responses::{self, LateResponse};
use semel_store::queue::{self, Taken, Taker};
use semel_store::runs::Stage;
use semel_store::tasks::{self, SubmittedAnswer, TaskAnswerResult};
use semel_store::waits::{self, Callback, CallbackResult};
use semel_store::{clock, sessions};
use serde_json::{Value, json};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::world::{World, delivery};

const OPEN_WAIT: &str = "
    INSERT INTO waits (id, run_id, namespace_id, state, step, opened_at)
    VALUES ($1, $2, 1, 'open', $3, moment())";

const ANSWERED_WAIT: &str = "
    INSERT INTO waits (id, run_id, namespace_id, state, step, opened_at, ended_at, payload)
    VALUES ($1, $2, 1, 'answered', 'work', CASE WHEN $3::bool THEN moment() END,
            moment() + make_interval(secs => $4), '{}')";

const HELD_TASK: &str = "
    INSERT INTO tasks (id, run_id, namespace_id, queue, step, state, attempt, token, lease_ms,
                       lease_until, claimed_by, opened_at, input)
    VALUES ($1, $2, 1, 'images', 'work', 'held', 1, 1, 1000, moment() + make_interval(secs => $4),
            ARRAY[$3::uuid], moment(), '{}')";

const OPEN_APPROVAL: &str = "
    INSERT INTO approvals (id, run_id, namespace_id, flow, step, people, escalate, shown, digest,
                           login, opened_at)
    VALUES ($1, $2, 1, 'story', 'work', '{}', '{}', '{}', 'seen', false, moment())";

const DOUBT: &str = "
    INSERT INTO attention (subject_id, kind, partition_date, namespace_id, run_id, flow_id, step, since,
                           accepted_at, is_child)
    VALUES ($1, 'doubt', moment()::date, 1, $2, 1, 'pay', moment(), moment(), false)";

const OPEN_CHILD: &str = "
    INSERT INTO child_runs (parent_id, step, index, run_id, namespace_id, key, state)
    VALUES ($1, 'each', 0, $2, 1, 'a', 'open')";

/// A run, and a worker that takes it although nothing has come for it.
struct Sleeper<'w> {
    world: &'w World,
    session: SessionId,
    run: RunId,
}

impl<'w> Sleeper<'w> {
    /// A run that has been accepted.
    async fn new(world: &'w World, key: &str) -> Result<Self> {
        let session = SessionId::generate();
        sessions::open(&world.cell, session, "test", Span::from_secs(3_600)).await?;
        let accepting = start_accepting(&world.cell);
        let accepted = accepting.write(delivery(key, "{}", None)?).await?;
        Ok(Self {
            world,
            session,
            run: accepted.run,
        })
    }

    /// The same, asleep.
    async fn asleep(world: &'w World, key: &str) -> Result<Self> {
        let sleeper = Self::new(world, key).await?;
        let taken = sleeper.take().await?;
        sleeper.sleep(&taken).await?;
        Ok(sleeper)
    }

    async fn execute(&self, text: &str, values: &[&(dyn ToSql + Sync)]) -> Result<()> {
        self.world.connect().await?.execute(text, values).await?;
        Ok(())
    }

    /// The worker takes the run and loads it.
    async fn take(&self) -> Result<Taken> {
        let mut taker = Taker::new(&self.world.cell);
        let taken = taker.take_one(self.session, self.run).await?;
        let (taken, _) = taken.context("no worker holds the run")?;
        Ok(taken)
    }

    /// The worker has found nothing to do in what it loaded.
    async fn sleep(&self, taken: &Taken) -> Result<()> {
        let (run, rest) = (self.run, (None, Stage::Waiting));
        let (cell, session) = (self.world.cell.of(run), self.session);
        let slept = queue::sleep_on(cell, run, taken.epoch, session, rest, taken.cancel).await?;
        ensure!(slept, "the worker has lost the run");
        Ok(())
    }

    async fn is_due(&self) -> Result<bool> {
        let due = "SELECT due_at <= moment() FROM queue WHERE run_id = $1";
        let client = self.world.connect().await?;
        let row = client.query_one(due, &[self.run.as_uuid()]).await?;
        Ok(row.get(0))
    }

    /// Whether the run is due if `comes` happens after the worker has loaded it and before it lets
    /// it sleep; and whether it still is after a worker has looked.
    async fn hears(&self, comes: impl Future<Output = Result<()>>) -> Result<(bool, bool)> {
        let taken = self.take().await?;
        comes.await?;
        self.sleep(&taken).await?;
        let heard = self.is_due().await?;
        let next = self.take().await?;
        self.sleep(&next).await?;
        Ok((heard, self.is_due().await?))
    }

    async fn open_wait(&self, step: &str) -> Result<WaitId> {
        let wait = WaitId::derive(self.run, step);
        let values: [&(dyn ToSql + Sync); 3] = [wait.as_uuid(), self.run.as_uuid(), &step];
        self.execute(OPEN_WAIT, &values).await?;
        Ok(wait)
    }

    async fn call_back(&self, wait: WaitId) -> Result<()> {
        let callback = Callback::of(self.run, wait, "{}".to_owned());
        let answering = waits::start_answering(&self.world.cell);
        let answered = answering.write(callback).await?;
        ensure!(answered == CallbackResult::First, "{answered:?}");
        Ok(())
    }

    /// A wait that was answered, and whose run nobody woke.
    async fn leave_answer(&self, is_opened: bool, secs: f64) -> Result<()> {
        let wait = WaitId::derive(self.run, "work");
        let values: [&(dyn ToSql + Sync); 4] =
            [wait.as_uuid(), self.run.as_uuid(), &is_opened, &secs];
        self.execute(ANSWERED_WAIT, &values).await
    }

    /// A task in a worker's hands, whose lease is over in so many seconds.
    async fn hold_task(&self, caller: TokenId, secs: f64) -> Result<EffectId> {
        let task = EffectId::derive(self.run, "work", "", 0);
        let values: [&(dyn ToSql + Sync); 4] =
            [task.as_uuid(), self.run.as_uuid(), caller.as_uuid(), &secs];
        self.execute(HELD_TASK, &values).await?;
        Ok(task)
    }

    async fn answer_task(&self, task: EffectId, caller: TokenId) -> Result<()> {
        let answer = SubmittedAnswer {
            task,
            run: self.run,
            token: 1,
            caller,
            state: TaskState::Done,
            answer: "{}".to_owned(),
        };
        let settling = tasks::start_settling(&self.world.cell);
        let answered = settling.write(answer).await?;
        ensure!(matches!(answered, TaskAnswerResult::First), "{answered:?}");
        Ok(())
    }

    async fn lose_task(&self) -> Result<()> {
        let lost = tasks::lose(self.world.cell.every()).await?;
        ensure!(lost == 1, "{lost} tasks are lost");
        Ok(())
    }

    async fn open_approval(&self) -> Result<WaitId> {
        let wait = WaitId::derive(self.run, "work");
        let values: [&(dyn ToSql + Sync); 2] = [wait.as_uuid(), self.run.as_uuid()];
        self.execute(OPEN_APPROVAL, &values).await?;
        Ok(wait)
    }

    async fn decide(&self, wait: WaitId) -> Result<()> {
        let request = DecisionRequest {
            wait,
            run: self.run,
            digest: Digest::from_text("seen"),
            approved: true,
            round: 0,
            by: "ann".to_owned(),
            comment: None,
            actor: "ann".to_owned(),
            origin: ActOrigin::default(),
        };
        let deciding = approvals::start_deciding(&self.world.cell);
        let decided = deciding.write(request).await?;
        ensure!(matches!(decided, DecisionResult::First(_)), "{decided:?}");
        Ok(())
    }

    async fn record_late_response(&self) -> Result<()> {
        let late = LateResponse {
            effect: EffectId::derive(self.run, "pay", "", 0),
            attempt: 1,
            response: json!({}),
        };
        let cell = self.world.cell.of(self.run);
        late_responses::record_late_response(cell, self.run, 1, &late).await?;
        Ok(())
    }

    /// Ends the run, which is a child run of another.
    async fn end_as_child_of(&self, parent: RunId) -> Result<()> {
        let taken = self.take().await?;
        let transition = Transition {
            run: self.run,
            partition_date: taken.partition_date,
            namespace_id: 1,
            holder: self.session,
            epoch: taken.epoch,
            seq: taken.seq,
            events: Events::new(vec![Event::Ended {
                state: EndState::Succeeded,
                result: Value::Null,
                fault: None,
            }]),
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
            record: Some(RecordChange {
                state: RunState::Succeeded,
                result: None,
                fault: None,
                fault_code: None,
                has_inherited: false,
                was_stopped: false,
            }),
            next_run: None,
            acts: Vec::new(),
            parent: Some(parent),
            saw_cancel: false,
            progresses: true,
            pause_version: None,
            paused_by: None,
            lease: LeaseChange::End,
        };
        let recording = journal::start_recording(&self.world.cell);
        let written = recording.write(Arc::new(transition)).await?;
        ensure!(
            matches!(written, TransitionResult::Committed { .. }),
            "{written:?}"
        );
        Ok(())
    }
}

/// Due once: the next look of a worker finds what came.
const HEARD: (bool, bool) = (true, false);

#[tokio::test]
async fn of_two_callbacks_the_one_that_comes_while_a_worker_looks_is_heard() -> Result<()> {
    let world = World::start().await?;
    let sleeper = Sleeper::asleep(&world, "two").await?;
    let paid = sleeper.open_wait("paid").await?;
    let shipped = WaitId::derive(sleeper.run, "shipped");

    sleeper.call_back(shipped).await?;
    let is_due_early = sleeper.is_due().await?;
    let heard = sleeper.hears(sleeper.call_back(paid)).await?;
    let taken = sleeper.take().await?;

    assert!(!is_due_early, "its run does not stand at that wait yet");
    assert_eq!(heard, HEARD);
    let mut answered: Vec<WaitId> = taken.answers.iter().map(|it| it.wait).collect();
    answered.sort_unstable();
    let mut both = [paid, shipped];
    both.sort_unstable();
    assert_eq!(answered, both, "both are there when the run continues");
    Ok(())
}

#[tokio::test]
async fn whatever_comes_while_a_worker_holds_the_run_wakes_it_once() -> Result<()> {
    let world = World::start().await?;
    let caller = TokenId::from_uuid(Uuid::from_u128(7));

    let called = Sleeper::asleep(&world, "callback").await?;
    let wait = called.open_wait("answer").await?;
    let callback = called.hears(called.call_back(wait)).await?;
    let worked = Sleeper::asleep(&world, "task").await?;
    let task = worked.hold_task(caller, 60.0).await?;
    let answer = worked.hears(worked.answer_task(task, caller)).await?;
    let silent = Sleeper::asleep(&world, "silent").await?;
    silent.hold_task(caller, -1.0).await?;
    let lost = silent.hears(silent.lose_task()).await?;
    let asked = Sleeper::asleep(&world, "approval").await?;
    let approval = asked.open_approval().await?;
    let decision = asked.hears(asked.decide(approval)).await?;
    let doubted = Sleeper::asleep(&world, "doubt").await?;
    let late = doubted.hears(doubted.record_late_response()).await?;

    assert_eq!(callback, HEARD, "a callback");
    assert_eq!(answer, HEARD, "a worker's answer");
    assert_eq!(lost, HEARD, "the loss of a worker");
    assert_eq!(decision, HEARD, "a decision");
    assert_eq!(late, HEARD, "a late response");
    Ok(())
}

/// Another statement has the first of two runs and comes to the second, as the journal does.
#[tokio::test]
async fn a_late_response_for_two_runs_locks_them_in_the_order_of_every_statement() -> Result<()> {
    let world = World::start().await?;
    // The first by its identity comes second in the table.
    let second = Sleeper::asleep(&world, "second").await?;
    let mut first = Sleeper::asleep(&world, "0").await?;
    for key in 1..100 {
        if first.run.as_uuid() < second.run.as_uuid() {
            break;
        }
        first = Sleeper::asleep(&world, &key.to_string()).await?;
    }
    // The response is to the second's effect, at whose doubt the first stands.
    let effect = EffectId::derive(second.run, "pay", "", 0);
    let values: [&(dyn ToSql + Sync); 2] = [effect.as_uuid(), first.run.as_uuid()];
    first.execute(DOUBT, &values).await?;
    let lock = "SELECT 1 FROM queue WHERE run_id = $1 FOR UPDATE";
    let lock_now = "SELECT 1 FROM queue WHERE run_id = $1 FOR UPDATE NOWAIT";

    let mut client = world.connect().await?;
    let tx = client.transaction().await?;
    tx.query_one(lock, &[first.run.as_uuid()]).await?;
    let go_on = async {
        world.until_waiting_for_a_lock().await?;
        tx.query_one(lock_now, &[second.run.as_uuid()]).await?;
        tx.commit().await?;
        anyhow::Ok(())
    };
    let recorded = tokio::try_join!(second.record_late_response(), go_on);

    assert!(recorded.is_ok(), "{recorded:?}");
    Ok(())
}

#[tokio::test]
async fn the_end_of_a_child_run_is_heard_by_a_parent_in_a_workers_hands() -> Result<()> {
    let world = World::start().await?;
    let parent = Sleeper::asleep(&world, "parent").await?;
    let child = Sleeper::asleep(&world, "child").await?;
    let values: [&(dyn ToSql + Sync); 2] = [parent.run.as_uuid(), child.run.as_uuid()];
    child.execute(OPEN_CHILD, &values).await?;

    let heard = parent.hears(child.end_as_child_of(parent.run)).await?;

    assert_eq!(heard, HEARD);
    Ok(())
}

#[tokio::test]
async fn a_run_that_sleeps_over_its_answer_is_made_due_and_no_other() -> Result<()> {
    let world = World::start().await?;
    let stranded = Sleeper::asleep(&world, "stranded").await?;
    stranded.leave_answer(true, 0.0).await?;
    // Each of them has an answer as well, and a reason to sleep.
    let passed = Sleeper::asleep(&world, "passed before its last row").await?;
    passed.leave_answer(true, -3_600.0).await?;
    let early = Sleeper::asleep(&world, "stands elsewhere").await?;
    early.leave_answer(false, 0.0).await?;
    let recent = Sleeper::asleep(&world, "answered just now").await?;
    recent.leave_answer(true, 3_600.0).await?;
    let held = Sleeper::asleep(&world, "held").await?;
    held.leave_answer(true, 0.0).await?;
    held.take().await?;
    for (key, change) in [
        (
            "paused",
            "INSERT INTO paused_runs (run_id, pause_id) VALUES ($1, 1)",
        ),
        (
            "stopped",
            "UPDATE queue SET stage = 'stopped' WHERE run_id = $1",
        ),
        (
            "put off",
            "UPDATE queue SET due_at = moment() + interval '30 seconds' WHERE run_id = $1",
        ),
    ] {
        let left = Sleeper::asleep(&world, key).await?;
        left.leave_answer(true, 0.0).await?;
        left.execute(change, &[left.run.as_uuid()]).await?;
    }
    clock::move_ahead(&world.cell, Duration::from_secs(3)).await?;

    let (awake, next) = queue::wake_stranded(world.cell.every(), None).await?;
    let (again, _) = queue::wake_stranded(world.cell.every(), None).await?;

    assert_eq!(awake, [stranded.run]);
    assert_eq!(next, None, "one page");
    assert_eq!(again, []);
    assert!(stranded.is_due().await?);
    Ok(())
}
