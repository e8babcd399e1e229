//! `probe: { before: true }`: the destination is asked before the first attempt.

use anyhow::{Context, Result, ensure};
use semel_model::Span;
use semel_model::effect::EffectState;
use semel_model::run::RunState;
use semel_store::{duplicates, effects, runs};
use semel_testkit::peer::Behaviour;
use semel_testkit::proxy::Cut;
use semel_testkit::{patience, until_some};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::world::World;

const LOOK: &str = "guard: probe\n    probe: { before: true, http: { get: 'PEER/items?id=${{ input.id }}' }, found: 'probe.json.items.size() > 0', result: 'probe.json.items[0]', after: 100ms, because: it acts at once or never }\n    external_id: result.index\n";

fn call() -> String {
    format!(
        "steps:\n  - id: call\n    http: {{ post: 'PEER/plain/ours', json: {{ id: '${{{{ input.id }}}}' }} }}\n    {LOOK}"
    )
}

/// Another system makes the thing that the story is about.
async fn make_elsewhere(world: &World, id: &str) -> Result<()> {
    let mut wire = TcpStream::connect(world.peer.address()).await?;
    let body = format!(r#"{{"id":"{id}"}}"#);
    let head = format!(
        "POST /plain/theirs HTTP/1.1\r\nhost: peer\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    wire.write_all(format!("{head}{body}").as_bytes()).await?;
    let mut answer = String::new();
    wire.read_to_string(&mut answer).await?;
    ensure!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    Ok(())
}

#[tokio::test]
async fn what_another_system_made_is_done_and_nothing_is_sent() -> Result<()> {
    let world = World::start().await?;
    world.publish(&call()).await?;
    make_elsewhere(&world, "7").await?;

    let (accepted, end) = world.play(r#"{"id":"7"}"#).await?;
    let cell = world.engine.cell();
    let run = runs::find(cell.of(accepted.run), world.namespace_id, accepted.run).await?;
    let day = run.context("the run")?.partition_date;
    let of_run = effects::list_of_run(cell.of(accepted.run), world.namespace_id, day, accepted.run);
    let ledger = of_run.await?;
    let stopped = until_some("a repeat that was stopped", async || {
        let (all, _) = duplicates::list(cell.every(), world.namespace_id, None, 10, true).await?;
        Ok(all.into_iter().find(|one| one.run == accepted.run))
    })
    .await?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(world.peer.count("/plain/ours").await?.calls, 0);
    assert_eq!(ledger.len(), 1);
    assert_eq!(ledger[0].state, EffectState::Done);
    assert_eq!(ledger[0].attempt, 0, "no attempt was made");
    assert_eq!(ledger[0].external_id.as_deref(), Some("0"));
    assert_eq!(stopped.stopped_by, "destination");
    assert_eq!((stopped.verdict.as_str(), stopped.count), ("repeat", 1));
    Ok(())
}

#[tokio::test]
async fn what_is_absent_is_performed_once() -> Result<()> {
    let world = World::start().await?;
    world.publish(&call()).await?;
    world
        .peer
        .next("/plain/", Behaviour::CloseWithoutAnswer)
        .await?;

    let (_, end) = world.play(r#"{"id":"1"}"#).await?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(world.peer.count("/plain/ours").await?.effects, 1);
    let asked = world.peer.count("/items").await?.calls;
    assert_eq!(
        asked, 2,
        "before the first attempt, and after the lost answer"
    );
    Ok(())
}

#[tokio::test]
async fn a_look_that_fails_is_made_again_and_nothing_is_sent_before_it() -> Result<()> {
    let world = World::start().await?;
    world.publish(&call()).await?;
    let busy = Behaviour::RefuseWith(503);
    world.peer.next_times("/items", 2, busy).await?;

    let (_, end) = world.play(r#"{"id":"1"}"#).await?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(world.peer.count("/plain/ours").await?.effects, 1);
    Ok(())
}

#[tokio::test]
async fn a_look_that_always_fails_sends_nothing() -> Result<()> {
    for (status, state) in [(503, RunState::NeedsReview), (403, RunState::Failed)] {
        let world = World::start().await?;
        world.publish(&call()).await?;
        let refused = Behaviour::RefuseWith(status);
        world.peer.next_times("/items", 9, refused).await?;

        let (_, end) = world.play(r#"{"id":"1"}"#).await?;

        assert_eq!(end.state, state, "{status}: {end:?}");
        assert_eq!(world.peer.count("/plain/ours").await?.calls, 0);
    }
    Ok(())
}

#[tokio::test]
async fn what_was_found_is_not_undone() -> Result<()> {
    let world = World::start().await?;
    let steps = format!(
        "{}    undo: {{ http: {{ delete: PEER/plain/undone }} }}\n  - {{ id: no, fail: {{ code: sold-out, message: nothing left }} }}\non_failure: undo\n",
        call()
    );
    world.publish(&steps).await?;
    make_elsewhere(&world, "7").await?;

    let (_, found) = world.play(r#"{"id":"7"}"#).await?;
    let of_found = world.peer.count("/plain/undone").await?.calls;
    let (_, made) = world.play(r#"{"id":"8"}"#).await?;
    let of_made = world.peer.count("/plain/undone").await?.calls;

    assert_eq!((found.state, of_found), (RunState::Failed, 0));
    assert_eq!((made.state, of_made), (RunState::Failed, 1));
    Ok(())
}

#[tokio::test]
async fn a_server_that_dies_while_it_looks_leaves_nothing_behind() -> Result<()> {
    let (world, proxy) = World::start_behind_proxy(Span::from_secs(3), None).await?;
    world.publish(&call()).await?;
    let held = Behaviour::HoldBeforeAnswer;
    world.peer.next("/items", held).await?;

    let run = world.deliver(r#"{"id":"7"}"#).await?.run;
    world.peer.until_held(1, patience()).await?;
    proxy.refuse();
    proxy.cut(Cut::Reset);
    make_elsewhere(&world, "7").await?;
    // Its lease ends: it cannot renew it.
    let over = "UPDATE sessions SET expires_at = moment()";
    let client = world.database().connect().await?;
    client.execute(over, &[]).await?;
    let other = world.start_another().await?;
    let end = other.await_end(run, patience()).await?;
    // The first server hears that there is nothing, and may not act on it any more.
    world.peer.let_go().await?;
    proxy.resume();

    assert_eq!(end.context("the run")?.state, RunState::Succeeded);
    assert_eq!(world.peer.count("/plain/ours").await?.calls, 0);
    Ok(())
}
