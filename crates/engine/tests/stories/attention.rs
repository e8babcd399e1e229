//! What waits for a person: listed in the commit that makes it so, and no longer than that.

use std::time::Duration;

use anyhow::{Context, Result};
use semel_engine::{Actor, Amendment, Settlement};
use semel_model::RunId;
use semel_model::run::RunState;
use semel_store::runs::RunFilter;
use semel_store::{effects, queue, runs, waits};
use semel_testkit::peer::Behaviour;
use semel_testkit::{patience, until, until_some};
use serde_json::json;

use crate::world::World;

const CALL: &str = "steps:\n  - id: call\n    http: { post: PEER/plain/x, text: hi }\n";
const WAITING: &str = "steps:\n  - { id: go, wait: { callback: true, within: 30d } }\n";

async fn state_of(world: &World, run: RunId) -> Result<RunState> {
    let view = runs::find(world.engine.cell().of(run), world.namespace_id, run).await?;
    Ok(view.context("a run")?.state)
}

/// One run in doubt, one that needs review, and one in quarantine.
struct Stopped {
    world: World,
    in_doubt: RunId,
    needs_review: RunId,
    quarantined: RunId,
}

impl Stopped {
    async fn start() -> Result<Self> {
        let world = World::start().await?;
        world.publish(CALL).await?;
        let lost = Behaviour::CloseWithoutAnswer;
        world.peer.next("/plain/", lost).await?;
        let in_doubt = world.play(r#"{"id":"doubt"}"#).await?.0.run;
        let busy = Behaviour::RefuseWith(429);
        world.peer.next_times("/plain/", 3, busy).await?;
        let needs_review = world.play(r#"{"id":"review"}"#).await?.0.run;
        world.publish(WAITING).await?;
        let quarantined = world.deliver(r#"{"id":"stuck"}"#).await?.run;
        let text = "UPDATE queue SET stalled_takes = 5, due_at = moment()
                     WHERE run_id = $1 AND holder IS NULL AND stage = 'waiting'";
        let client = world.database().connect().await?;
        let change = async || Ok(client.execute(text, &[quarantined.as_uuid()]).await?);
        until("a run that waits", change, |rows| *rows == 1).await?;
        let stopped = Self {
            world,
            in_doubt,
            needs_review,
            quarantined,
        };
        stopped.until(quarantined, RunState::Quarantined).await?;
        Ok(stopped)
    }

    async fn until(&self, run: RunId, state: RunState) -> Result<()> {
        let what = format!("{run} to become {state}");
        until(
            &what,
            async || state_of(&self.world, run).await,
            |seen| *seen == state,
        )
        .await?;
        Ok(())
    }

    async fn listed(&self, state: RunState) -> Result<Vec<RunId>> {
        let filter = RunFilter {
            state: Some(state),
            ..RunFilter::default()
        };
        let (cell, id) = (self.world.engine.cell(), self.world.namespace_id);
        let listed = runs::list(cell.every(), id, &filter, 10).await?;
        Ok(listed.items.iter().map(|run| run.id).collect())
    }

    /// The doubts and the stopped runs that are listed.
    async fn all(&self) -> Result<Vec<RunId>> {
        let (cell, id) = (self.world.engine.cell(), self.world.namespace_id);
        let doubts = effects::list_doubts(cell.every(), id, None, 10).await?;
        let mut all: Vec<RunId> = doubts.items.iter().map(|doubt| doubt.run).collect();
        for state in [
            RunState::InDoubt,
            RunState::NeedsReview,
            RunState::Quarantined,
        ] {
            all.extend(self.listed(state).await?);
        }
        Ok(all)
    }
}

#[tokio::test]
async fn what_waits_for_a_person_is_listed_until_it_continues() -> Result<()> {
    let stopped = Stopped::start().await?;
    let (engine, id) = (&stopped.world.engine, stopped.world.namespace_id);

    let listed = stopped.all().await?;
    let before = stopped.world.attention().await?;
    let doubts = effects::list_doubts(engine.cell().every(), id, None, 10).await?;
    let settled = Settlement::Happened {
        external_id: None,
        result: Some(json!({ "status": 201 })),
        reason: "it is in the books".to_owned(),
    };
    engine
        .settle(id, doubts.items[0].id, settled, "test")
        .await?;
    let review = stopped.needs_review;
    engine.resume(id, review, "it is back", "test").await?;
    let stuck = stopped.quarantined;
    engine.resume(id, stuck, "looked at it", "test").await?;
    let cell = engine.cell().of(stuck);
    let wait = waits::list_of_run(cell, id, stuck, false, None, 1).await?;
    engine
        .complete_wait(id, wait.items[0].id, json!(1), "test")
        .await?;
    for run in [stopped.in_doubt, review, stuck] {
        stopped.until(run, RunState::Succeeded).await?;
    }

    let doubted = stopped.in_doubt;
    assert_eq!(listed, [doubted, doubted, review, stuck]);
    assert_eq!(before, Vec::<String>::new());
    assert_eq!(stopped.all().await?, []);
    assert_eq!(stopped.world.attention().await?, Vec::<String>::new());
    stopped.world.until_sound().await
}

#[tokio::test]
async fn a_stopped_run_that_is_cancelled_waits_for_no_person() -> Result<()> {
    let stopped = Stopped::start().await?;
    let (cell, id) = (stopped.world.engine.cell(), stopped.world.namespace_id);

    for run in [stopped.needs_review, stopped.quarantined] {
        queue::ask_cancel(cell.of(run), id, run).await?;
        stopped.until(run, RunState::Cancelled).await?;
    }

    assert_eq!(stopped.all().await?, [stopped.in_doubt, stopped.in_doubt]);
    assert_eq!(stopped.world.attention().await?, Vec::<String>::new());
    stopped.world.until_sound().await
}

#[tokio::test]
async fn a_doubt_that_is_failed_and_comes_back_is_listed_again() -> Result<()> {
    let stopped = Stopped::start().await?;
    let (engine, id) = (&stopped.world.engine, stopped.world.namespace_id);
    let doubts = async || effects::list_doubts(engine.cell().every(), id, None, 10).await;
    let doubt = doubts().await?.items[0].id;

    let reason = "not worth it".to_owned();
    let fail = Settlement::Fail { reason };
    engine.settle(id, doubt, fail, "test").await?;
    stopped.until(stopped.in_doubt, RunState::Failed).await?;
    let failed = doubts().await?.items.len();
    let after_failure = stopped.world.attention().await?;
    engine.resume(id, stopped.in_doubt, "do it", "test").await?;
    stopped.until(stopped.in_doubt, RunState::InDoubt).await?;
    let again = doubts().await?.items;

    assert_eq!((failed, after_failure), (0, Vec::new()));
    assert_eq!(again.iter().map(|it| it.id).collect::<Vec<_>>(), [doubt]);
    assert_eq!(stopped.world.attention().await?, Vec::<String>::new());
    stopped.world.until_sound().await
}

#[tokio::test]
async fn a_doubt_that_a_probe_settles_is_over() -> Result<()> {
    let world = World::start().await?;
    let guard = "    guard: probe\n    probe: { http: { get: 'PEER/items?id=${{ input.id }}' }, found: 'probe.json.items.size() > 0', after: 10m }\n";
    let source = CALL.replace("text: hi", "json: { id: '${{ input.id }}' }");
    world.publish(&format!("{source}{guard}")).await?;
    let lost = Behaviour::CloseWithoutAnswer;
    world.peer.next("/plain/", lost).await?;

    world.deliver(r#"{"id":"1"}"#).await?;
    let (cell, id) = (world.engine.cell(), world.namespace_id);
    let during = until_some("a doubt", async || {
        let doubts = effects::list_doubts(cell.every(), id, None, 10).await?;
        Ok(doubts.items.into_iter().next())
    })
    .await?;
    world.move_clock(Duration::from_secs(601)).await?;
    let end = world.engine.await_end(during.run, patience());
    let end = end.await?.context("a run")?;
    let after = effects::list_doubts(cell.every(), id, None, 10).await?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(after.items.len(), 0);
    assert_eq!(world.attention().await?, Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn a_run_that_continues_by_a_corrected_result_waits_for_no_person() -> Result<()> {
    let world = World::start().await?;
    let second = "  - id: second\n    http: { post: PEER/keyed/x, text: hi }\n";
    world.publish(&format!("{CALL}{second}")).await?;
    let lost = Behaviour::CloseWithoutAnswer;
    world.peer.next("/plain/", lost).await?;
    let busy = Behaviour::RefuseWith(429);
    world.peer.next_times("/keyed/", 3, busy).await?;
    let run = world.play(r#"{"id":"1"}"#).await?.0.run;
    let (engine, id) = (&world.engine, world.namespace_id);
    let doubts = effects::list_doubts(engine.cell().every(), id, None, 10).await?;
    let effect = doubts.items[0].id;
    let settled = Settlement::Happened {
        external_id: None,
        result: Some(json!({ "status": 200 })),
        reason: "seen".to_owned(),
    };
    engine.settle(id, effect, settled, "test").await?;
    let becomes = async |state: RunState| {
        let what = format!("the run to become {state}");
        until(
            &what,
            async || state_of(&world, run).await,
            |seen| *seen == state,
        )
        .await
    };
    becomes(RunState::NeedsReview).await?;
    let before = world.attention().await?;

    let by = Actor {
        namespace_id: id,
        actor: "test",
    };
    let amendment = Amendment {
        external_id: None,
        result: json!({ "status": 201 }),
        reason: "misread".to_owned(),
    };
    engine.amend(by, effect, &amendment).await?;
    becomes(RunState::Succeeded).await?;

    assert_eq!(before, Vec::<String>::new());
    assert_eq!(world.attention().await?, Vec::<String>::new());
    Ok(())
}
