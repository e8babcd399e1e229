//! Wakes: what comes for a run while a worker holds it resumes the run once the worker lets it go.

use anyhow::{Context, Result, ensure};
use semel_model::run::RunState;
use semel_model::{RunId, SessionId, Span};
use semel_store::queue::{self, Taken, Taker};
use semel_store::runs::{RunSnapshot, Stage};
use semel_store::sessions;
use semel_testkit::{patience, until};

use crate::world::World;

const WAITING: &str = "steps:
  - { id: tell, kv: { set: url, value: '${{ waits.answer.url }}' } }
  - { id: answer, wait: { callback: true, within: 1d } }
result: steps.answer.result
";

const CALLER: &str = "steps:
  - { id: other, call: { flow: called, input: { n: 4 } } }
result: steps.other.result
";

const CALLED: &str = "flow: called
trigger:
  api: {}
steps:
  - { id: tell, kv: { set: url, value: '${{ waits.word.url }}' } }
  - { id: word, wait: { callback: true, within: 1d } }
result: input.n * 2
";

/// A worker beside the engine that takes a run although nothing has come for it.
struct OtherWorker {
    session: SessionId,
    taken: Taken,
}

impl OtherWorker {
    async fn take(world: &World, run: RunId) -> Result<Self> {
        let cell = world.engine.cell();
        let session = SessionId::generate();
        sessions::open(cell, session, "other", Span::from_secs(600)).await?;
        // Its background duties stay with the engine.
        sessions::leave(cell.every(), session).await?;
        let taken = Taker::new(cell).take_one(session, run).await?;
        let (taken, _) = taken.context("no worker holds the run")?;
        Ok(Self { session, taken })
    }

    /// Lets the run sleep without a due time: what it loaded holds no answer.
    async fn let_sleep(self, world: &World) -> Result<()> {
        let Taken {
            run, epoch, cancel, ..
        } = self.taken;
        let cell = world.engine.cell().of(run);
        let rest = (None, Stage::Waiting);
        let slept = queue::sleep_on(cell, run, epoch, self.session, rest, cancel).await?;
        ensure!(slept, "the run is in the worker's hands");
        Ok(())
    }
}

/// How many waits of a run, which no worker holds, are in a state.
async fn waits(world: &World, run: RunId, state: &str) -> Result<i64> {
    let count = "
        SELECT count(*) FROM waits w JOIN queue q ON q.run_id = w.run_id
         WHERE w.run_id = $1 AND w.state::text = $2 AND q.stage = 'waiting'";
    let client = world.engine.cell().reader().await?;
    let row = client.query_one(count, &[run.as_uuid(), &state]).await?;
    Ok(row.get(0))
}

/// Waits until a run sleeps at an open wait.
async fn until_asleep(world: &World, run: RunId) -> Result<()> {
    let open = async || {
        let held = "SELECT count(*) FROM queue WHERE run_id = $1 AND holder IS NOT NULL";
        let client = world.engine.cell().reader().await?;
        let held: i64 = client.query_one(held, &[run.as_uuid()]).await?.get(0);
        drop(client);
        anyhow::Ok((waits(world, run, "open").await?, held))
    };
    until("the run to sleep at its wait", open, |seen| *seen == (1, 0)).await?;
    Ok(())
}

/// The code of the address that a flow has told.
async fn token(world: &World) -> Result<String> {
    let url = until(
        "an address",
        async || world.kv("url").await,
        serde_json::Value::is_string,
    );
    let url = url.await?;
    let token = url.as_str().and_then(|url| url.rsplit('/').next());
    Ok(token.context("a code")?.to_owned())
}

async fn end_of(world: &World, run: RunId) -> Result<RunSnapshot> {
    let end = world.engine.await_end(run, patience()).await?;
    end.context("a run")
}

#[tokio::test]
async fn a_callback_resumes_a_run_that_a_worker_was_about_to_let_sleep() -> Result<()> {
    let world = World::start().await?;
    world.publish(WAITING).await?;
    let run = world.deliver(r#"{"id":"1"}"#).await?.run;
    let token = token(&world).await?;
    until_asleep(&world, run).await?;

    let worker = OtherWorker::take(&world, run).await?;
    let called = world.engine.call_back(&token, br#"{"ok":true}"#).await?;
    worker.let_sleep(&world).await?;
    let end = end_of(&world, run).await?;

    assert!(!called.replayed);
    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(world.engine.metrics().wakes_repaired.get(), 0);
    Ok(())
}

#[tokio::test]
async fn the_end_of_a_called_run_resumes_a_caller_in_another_worker_s_hands() -> Result<()> {
    let world = World::start().await?;
    world.publish_source(CALLED).await?;
    world.publish(CALLER).await?;
    let run = world.deliver(r#"{"id":"1"}"#).await?.run;
    let token = token(&world).await?;
    until_asleep(&world, run).await?;

    let worker = OtherWorker::take(&world, run).await?;
    world.engine.call_back(&token, b"1").await?;
    let answered = async || waits(&world, run, "answered").await;
    until("the caller's answer", answered, |count| *count == 1).await?;
    worker.let_sleep(&world).await?;
    let end = end_of(&world, run).await?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(end.result.as_deref(), Some("8"));
    assert_eq!(world.engine.metrics().wakes_repaired.get(), 0);
    Ok(())
}

#[tokio::test]
async fn a_run_that_was_left_asleep_over_its_answer_continues() -> Result<()> {
    let world = World::start().await?;
    world.publish(WAITING).await?;
    let run = world.deliver(r#"{"id":"1"}"#).await?.run;
    until_asleep(&world, run).await?;

    // What a build left that lost the wake.
    let lost = "UPDATE waits SET state = 'answered', ended_at = moment(), payload = '{\"ok\":true}'
                 WHERE run_id = $1";
    let client = world.engine.cell().reader().await?;
    client.execute(lost, &[run.as_uuid()]).await?;
    drop(client);
    let end = end_of(&world, run).await?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(end.result.as_deref(), Some(r#"{"ok":true}"#));
    assert_eq!(world.engine.metrics().wakes_repaired.get(), 1);
    Ok(())
}
