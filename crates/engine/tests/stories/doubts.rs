//! Doubt: settled by the guard, or by an operator.

use anyhow::{Context, Result};
use semel_engine::{SettleError, Settlement};
use semel_model::run::RunState;
use semel_store::{effects, runs};
use semel_testkit::peer::Behaviour;
use semel_testkit::{patience, until_some};
use std::time::Duration;

use crate::world::World;

const CALL: &str = "steps:\n  - id: call\n    http: { post: 'PEER/PATH/x', json: { id: '${{ input.id }}' }, timeout: 20s }\n";

async fn world_with(path: &str, guard: &str) -> Result<World> {
    let world = World::start().await?;
    world
        .publish(&format!("{}{guard}", CALL.replace("PATH", path)))
        .await?;
    Ok(world)
}

#[tokio::test]
async fn a_lost_answer_without_a_guard_is_in_doubt_and_not_sent_again() -> Result<()> {
    let world = world_with("plain", "").await?;
    world
        .peer
        .next("/plain/", Behaviour::CloseWithoutAnswer)
        .await?;

    let (_, end) = world.play(r#"{"id":"1"}"#).await?;

    assert_eq!(end.state, RunState::InDoubt);
    assert_eq!(world.peer.count("/plain/").await?.effects, 1);
    Ok(())
}

#[tokio::test]
async fn an_operator_confirms_that_an_effect_happened() -> Result<()> {
    let world = world_with("plain", "").await?;
    world
        .peer
        .next("/plain/", Behaviour::CloseWithoutAnswer)
        .await?;
    let (accepted, _) = world.play(r#"{"id":"1"}"#).await?;
    let doubts = effects::list_doubts(world.engine.cell().every(), world.namespace_id, None, 10)
        .await?
        .items;

    let settlement = Settlement::Happened {
        external_id: Some("ch_1".to_owned()),
        result: None,
        reason: "seen".to_owned(),
    };
    world
        .engine
        .settle(world.namespace_id, doubts[0].id, settlement, "test")
        .await?;
    let end = world
        .engine
        .await_end(accepted.run, patience())
        .await?
        .context("there is such a run")?;

    assert_eq!(end.state, RunState::Succeeded);
    assert_eq!(
        world.peer.count("/plain/").await?.effects,
        1,
        "nothing is sent again"
    );
    Ok(())
}

#[tokio::test]
async fn a_decision_that_does_not_fit_its_run_quarantines_it() -> Result<()> {
    let world = world_with("plain", "").await?;
    let lost = Behaviour::CloseWithoutAnswer;
    world.peer.next("/plain/", lost).await?;
    let (accepted, _) = world.play(r#"{"id":"1"}"#).await?;
    let cell = world.engine.cell();
    let doubts = effects::list_doubts(cell.every(), world.namespace_id, None, 10)
        .await?
        .items;
    // The decision is about the step that the ledger names.
    let moved = "UPDATE effects SET step = 'other' WHERE run_id = $1";
    let client = cell.reader().await?;
    assert_eq!(client.execute(moved, &[accepted.run.as_uuid()]).await?, 1);

    let happened = Settlement::Happened {
        external_id: None,
        result: None,
        reason: "seen".to_owned(),
    };
    let settled = world
        .engine
        .settle(world.namespace_id, doubts[0].id, happened, "test")
        .await;
    let view = runs::find(cell.of(accepted.run), world.namespace_id, accepted.run).await?;
    let view = view.context("a run")?;

    let Err(error @ SettleError::Inconsistent(_)) = settled else {
        panic!("{settled:?}");
    };
    assert_eq!(error.code(), "journal-inconsistent");
    assert_eq!(view.state, RunState::Quarantined, "{:?}", view.fault);
    let fault = view.fault.unwrap_or_default();
    assert!(fault.contains("journal-inconsistent"), "{fault}");
    assert_eq!(world.engine.metrics().journals_inconsistent.get(), 1);
    assert_eq!(world.peer.count("/plain/").await?.effects, 1);
    Ok(())
}

#[tokio::test]
async fn an_operator_may_not_deny_an_effect_too_soon() -> Result<()> {
    let world = world_with("plain", "").await?;
    world
        .peer
        .next("/plain/", Behaviour::CloseBeforeEffect)
        .await?;
    let (accepted, _) = world.play(r#"{"id":"1"}"#).await?;
    let doubt = effects::list_doubts(world.engine.cell().every(), world.namespace_id, None, 10)
        .await?
        .items
        .remove(0);
    let settlement = || Settlement::DidNotHappen {
        reason: "looked it up".to_owned(),
    };

    let soon = world
        .engine
        .settle(world.namespace_id, doubt.id, settlement(), "test")
        .await;
    // The wait for room, the lease, the timeout and the margin make 113 seconds.
    world.move_clock(Duration::from_secs(120)).await?;
    let later = until_some("the run to be free", async || {
        let settled = world
            .engine
            .settle(world.namespace_id, doubt.id, settlement(), "test")
            .await;
        Ok(match settled {
            Err(SettleError::Busy) => None,
            other => Some(other),
        })
    })
    .await?;
    let end = world
        .engine
        .await_end(accepted.run, patience())
        .await?
        .context("there is such a run")?;

    assert!(matches!(soon, Err(SettleError::TooSoon { .. })), "{soon:?}");
    later?;
    assert_eq!(end.state, RunState::Succeeded);
    assert_eq!(world.peer.count("/plain/").await?.effects, 1);
    Ok(())
}

#[tokio::test]
async fn a_decision_is_about_the_attempt_that_was_looked_at() -> Result<()> {
    let world = world_with("slow/300/plain", "").await?;
    let lost = Behaviour::CloseWithoutAnswer;
    world.peer.next_times("/slow/", 2, lost).await?;
    world.play(r#"{"id":"1"}"#).await?;
    let (cell, id) = (world.engine.cell(), world.namespace_id);
    let doubt = effects::list_doubts(cell.every(), id, None, 10)
        .await?
        .items
        .remove(0);
    world.move_clock(Duration::from_secs(120)).await?;
    let settle = async || {
        let reason = "looked it up".to_owned();
        let settlement = Settlement::DidNotHappen { reason };
        world.engine.settle(id, doubt.id, settlement, "test").await
    };

    // Both operators looked at the first attempt. The later one finds the second, which may have
    // acted.
    let (one, two) = tokio::join!(settle(), settle());
    let again = until_some("the second doubt", async || {
        Ok(effects::list_doubts(cell.every(), id, None, 10)
            .await?
            .items
            .pop())
    })
    .await?;

    let taken = [one, two].into_iter().filter(Result::is_ok).count();
    assert_eq!((taken, again.attempt), (1, 2));
    assert_eq!(world.peer.count("/slow/").await?.calls, 2);
    Ok(())
}

#[tokio::test]
async fn a_honoured_key_lets_the_same_bytes_be_sent_again() -> Result<()> {
    let world = world_with("keyed", "    guard: key\n").await?;
    world
        .peer
        .next("/keyed/", Behaviour::CloseWithoutAnswer)
        .await?;

    let (_, end) = world.play(r#"{"id":"1"}"#).await?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    let count = world.peer.count("/keyed/").await?;
    assert_eq!((count.effects, count.calls), (1, 2));
    Ok(())
}

#[tokio::test]
async fn a_probe_finds_what_happened() -> Result<()> {
    let guard = "    guard: probe\n    probe: { http: { get: 'PEER/items?id=${{ input.id }}' }, found: 'probe.json.items.size() > 0', after: 100ms }\n";
    let world = world_with("plain", guard).await?;
    world
        .peer
        .next("/plain/", Behaviour::CloseWithoutAnswer)
        .await?;

    let (_, end) = world.play(r#"{"id":"1"}"#).await?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(world.peer.count("/plain/").await?.effects, 1);
    Ok(())
}

#[tokio::test]
async fn a_settlement_that_comes_too_soon_does_not_stop_the_probe() -> Result<()> {
    let guard = "    guard: probe\n    probe: { http: { get: 'PEER/items?id=${{ input.id }}' }, found: 'probe.json.items.size() > 0', after: 10m }\n";
    let world = world_with("plain", guard).await?;
    world
        .peer
        .next("/plain/", Behaviour::CloseWithoutAnswer)
        .await?;

    let accepted = world.deliver(r#"{"id":"1"}"#).await?;
    let (cell, id) = (world.engine.cell(), world.namespace_id);
    let doubt = until_some("a doubt", async || {
        Ok(effects::list_doubts(cell.every(), id, None, 10)
            .await?
            .items
            .pop())
    })
    .await?;
    let reason = "nothing is there".to_owned();
    let refused = world
        .engine
        .settle(id, doubt.id, Settlement::DidNotHappen { reason }, "test")
        .await;
    world.move_clock(Duration::from_secs(601)).await?;
    let end = world.engine.await_end(accepted.run, patience()).await?;

    assert!(
        matches!(refused, Err(SettleError::TooSoon { .. })),
        "{refused:?}"
    );
    assert_eq!(end.map(|end| end.state), Some(RunState::Succeeded));
    Ok(())
}

#[tokio::test]
async fn a_probe_that_finds_nothing_lets_the_effect_be_performed() -> Result<()> {
    let guard = "    guard: probe\n    probe: { http: { get: 'PEER/items?id=${{ input.id }}' }, found: 'probe.json.items.size() > 0', after: 100ms, because: it acts at once or never }\n";
    let world = world_with("plain", guard).await?;
    world
        .peer
        .next("/plain/", Behaviour::CloseBeforeEffect)
        .await?;

    let (_, end) = world.play(r#"{"id":"1"}"#).await?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(world.peer.count("/plain/").await?.effects, 1);
    Ok(())
}

#[tokio::test]
async fn nothing_is_undone_before_the_doubt_is_settled() -> Result<()> {
    let world = World::start().await?;
    world
        .publish(
            "steps:\n  - { id: book, http: { post: PEER/plain/book, text: hi }, undo: { http: { delete: PEER/plain/unbook } } }\n\
             \x20 - { id: pay, http: { post: PEER/plain/pay, text: hi }, undo: { http: { delete: PEER/plain/refund } } }\n\
             \x20 - { id: no, fail: { code: sold-out, message: nothing left } }\non_failure: undo\n",
        )
        .await?;
    let lost = Behaviour::CloseWithoutAnswer;
    world.peer.next("/plain/pay", lost).await?;
    let effects_of = async |path: &str| anyhow::Ok(world.peer.count(path).await?.effects);

    let (accepted, doubted) = world.play(r#"{"id":"1"}"#).await?;
    let before = effects_of("/plain/unbook").await? + effects_of("/plain/refund").await?;
    let doubts = effects::list_doubts(world.engine.cell().every(), world.namespace_id, None, 10)
        .await?
        .items;
    let happened = Settlement::Happened {
        external_id: None,
        result: None,
        reason: "seen".to_owned(),
    };
    world
        .engine
        .settle(world.namespace_id, doubts[0].id, happened, "test")
        .await?;
    let end = world
        .engine
        .await_end(accepted.run, patience())
        .await?
        .context("there is such a run")?;

    assert_eq!((doubted.state, before), (RunState::InDoubt, 0));
    assert_eq!(end.state, RunState::Failed);
    for path in [
        "/plain/book",
        "/plain/pay",
        "/plain/refund",
        "/plain/unbook",
    ] {
        assert_eq!(effects_of(path).await?, 1, "{path}");
    }
    Ok(())
}
