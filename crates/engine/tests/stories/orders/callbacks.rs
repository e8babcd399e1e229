//! A callback beside each way in which its run is taken: the run continues with it in every order.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use semel_engine::{Actor, CallbackError, Engine, SinglePass};
use semel_model::RunId;
use semel_model::run::RunState;
use semel_store::pauses::PauseKind;
use semel_store::runs;
use semel_testkit::{Command, Orders, Scene};
use serde_json::{Value, json};

use super::{PAST_A_MINUTE, Pair, drive, pass};
use crate::world::World;

const STORY: (PauseKind, &str) = (PauseKind::Flow, "story");

const WAITS: &str = "steps:
  - { id: tell, kv: { set: url, value: '${{ waits.answer.url }}' } }
  - { id: answer, wait: { callback: true, within: 1h } }
  - { id: count, kv: { add: continued } }
result: steps.answer.result
";

const WAITS_A_MINUTE: &str = "steps:
  - { id: tell, kv: { set: url, value: '${{ waits.answer.url }}' } }
  - { id: answer, wait: { callback: true, within: 1m, on_timeout: continue } }
  - { id: count, kv: { add: continued } }
result: steps.answer.result
";

const WAITS_AFTER_AN_ITEM: &str = "steps:
  - { id: tell, kv: { set: url, value: '${{ waits.answer.url }}' } }
  - id: each
    foreach:
      in: input.items
      key: string(item)
      steps:
        - { id: rest, wait: { for: 1m } }
        - { id: done, kv: { add: items } }
  - { id: answer, wait: { callback: true, within: 1h } }
  - { id: count, kv: { add: continued } }
result: steps.answer.result
";

/// Leaves a run in the hands of a server that is gone.
const LOSE: &str = "
    WITH gone AS (
        INSERT INTO sessions (id, process, version, expires_at)
        VALUES (gen_random_uuid(), 'gone', '0', moment() - interval '1 second')
     RETURNING id)
    UPDATE queue q SET holder = gone.id, epoch = q.epoch + 1 FROM gone WHERE q.run_id = $1";

/// Has a run taken that nothing has come for.
const MAKE_DUE: &str = "UPDATE queue SET due_at = moment() WHERE run_id = $1 AND holder IS NULL";

/// A run that nobody will take soon, although the answer that it waits for is recorded.
const ASLEEP: &str = "
    SELECT count(*)
      FROM queue q
      JOIN waits w ON w.run_id = q.run_id AND w.state = 'answered' AND w.opened_at IS NOT NULL
     WHERE q.run_id = $1 AND q.holder IS NULL AND q.due_at > moment() + interval '1 minute'";

/// Why a run is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    ItemEnd,
    Cancel,
    Timer,
    PauseEnd,
    Recovery,
}

impl Way {
    fn steps(self) -> &'static str {
        match self {
            Self::ItemEnd => WAITS_AFTER_AN_ITEM,
            Self::Timer => WAITS_A_MINUTE,
            Self::Cancel | Self::PauseEnd | Self::Recovery => WAITS,
        }
    }

    /// Brings the run, which rests, to where it is about to be taken.
    async fn prepare(self, pair: &Pair, run: RunId) -> Result<()> {
        match self {
            Self::ItemEnd | Self::Timer => pair.world.move_clock(PAST_A_MINUTE).await,
            Self::Cancel => Ok(()),
            Self::PauseEnd => {
                // So many pauses may begin within a minute.
                pair.world.move_clock(PAST_A_MINUTE).await?;
                let [first, _] = &pair.engines;
                first.pause(pair.world.by(), STORY, "test").await?;
                pair.admin.execute(MAKE_DUE, &[run.as_uuid()]).await?;
                drive(first).await?;
                let held = "SELECT count(*) FROM paused_runs WHERE run_id = $1";
                ensure!(pair.count(held, run).await? == 1, "it sleeps for the pause");
                Ok(())
            }
            Self::Recovery => {
                let lost = pair.admin.execute(LOSE, &[run.as_uuid()]).await?;
                ensure!(
                    lost == 1,
                    "the run is in the hands of a server that is gone"
                );
                Ok(())
            }
        }
    }

    /// Does what makes the run due, and takes it.
    async fn take(self, engine: &Engine, by: Actor<'static>, run: RunId) -> Result<()> {
        match self {
            Self::ItemEnd | Self::Timer => {}
            Self::Cancel => {
                let cancelled = engine.cancel(by.namespace_id, run, "no longer wanted", by.actor);
                cancelled.await?;
            }
            Self::PauseEnd => {
                engine.resume_paused(by, STORY, None, None).await?;
                pass(engine, SinglePass::PauseDrain).await?;
            }
            Self::Recovery => pass(engine, SinglePass::Recovery).await?,
        }
        drive(engine).await
    }
}

/// Whether a callback was the first, once it was answered.
type Answered = Arc<Mutex<Option<bool>>>;

struct Called {
    pair: Pair,
    way: Way,
    run: Option<RunId>,
    answered: Answered,
}

async fn call_back(engine: Engine, token: String, answered: Answered) -> Result<()> {
    let is_first = match engine.call_back(&token, br#"{"ok":true}"#).await {
        Ok(called) => !called.replayed,
        // Its wait has timed out.
        Err(CallbackError::Unknown) => false,
        Err(error) => return Err(error.into()),
    };
    let mut answered = answered.lock().unwrap_or_else(PoisonError::into_inner);
    *answered = Some(is_first);
    Ok(())
}

impl Scene for Called {
    async fn begin(&mut self) -> Result<[Command; 2]> {
        let run = self.pair.begin_run().await?;
        let token = self.pair.token().await?;
        self.way.prepare(&self.pair, run).await?;
        self.run = Some(run);
        self.answered = Answered::default();
        let (way, by) = (self.way, self.pair.world.by());
        let [first, second] = self.pair.engines.clone();
        let answered = self.answered.clone();
        Ok([
            Box::pin(async move { way.take(&first, by, run).await }),
            Box::pin(call_back(second, token, answered)),
        ])
    }

    async fn judge(&mut self) -> Result<()> {
        let run = self.run.context("a run")?;
        let answered = *self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = answered.context("the callback was answered")?;
        if self.way == Way::Recovery {
            // A pass leaves out what another session has locked, and the next one takes it.
            pass(&self.pair.engines[0], SinglePass::Recovery).await?;
        }
        drive(&self.pair.engines[0]).await?;
        let asleep = self.pair.count(ASLEEP, run).await?;
        ensure!(
            asleep == 0,
            "the run sleeps although its answer is recorded"
        );
        self.pair.until_ended(run).await?;
        let cell = self.pair.world.engine.cell().of(run);
        let end = runs::find_snapshot(cell, run).await?.context("a run")?;
        if self.way == Way::Cancel {
            self.pair.runs_cut_short += 1;
            ensure!(end.state == RunState::Cancelled, "{end:?}");
            return self.judge_effects().await;
        }
        ensure!(end.state == RunState::Succeeded, "{end:?}");
        let result: Value = serde_json::from_str(end.result.as_deref().unwrap_or("null"))?;
        let wanted = match is_first {
            true => json!({"ok": true}),
            false => Value::Null,
        };
        ensure!(
            result == wanted,
            "first {is_first}, and the run has {result}"
        );
        ensure!(
            is_first || self.way == Way::Timer,
            "nothing else ends the wait"
        );
        self.judge_effects().await
    }
}

impl Called {
    /// What stands behind the wait happened once for each run that was not cancelled.
    async fn judge_effects(&self) -> Result<()> {
        let wanted = self.pair.runs - self.pair.runs_cut_short;
        let continued = self.pair.entry("continued").await?;
        let count = continued.as_i64().unwrap_or_default();
        ensure!(count == wanted, "{wanted} runs continued {count} times");
        Ok(())
    }
}

async fn play(way: Way, name: &str) -> Result<()> {
    let world = World::start().await?;
    world.publish(way.steps()).await?;
    let (pair, stage) = Pair::of(world).await?;
    let mut called = Called {
        pair,
        way,
        run: None,
        answered: Answered::default(),
    };
    let pair = Orders {
        pair: name,
        red: &[],
        least: 5,
    };
    stage.play(pair, &mut called).await?;
    Ok(())
}

#[tokio::test]
async fn no_order_of_an_items_end_and_a_callback_leaves_the_run_asleep() -> Result<()> {
    play(Way::ItemEnd, "item end and callback").await
}

#[tokio::test]
async fn no_order_of_a_cancel_and_a_callback_leaves_the_run_asleep() -> Result<()> {
    play(Way::Cancel, "cancel and callback").await
}

#[tokio::test]
async fn no_order_of_a_timer_and_a_callback_leaves_the_run_asleep() -> Result<()> {
    play(Way::Timer, "timer and callback").await
}

#[tokio::test]
async fn no_order_of_a_pauses_end_and_a_callback_leaves_the_run_asleep() -> Result<()> {
    play(Way::PauseEnd, "pause end and callback").await
}

#[tokio::test]
async fn no_order_of_a_recovery_and_a_callback_leaves_the_run_asleep() -> Result<()> {
    play(Way::Recovery, "recovery and callback").await
}
