//! A later run of a key: what earlier runs did is not done again, and what is done keeps its key.

use anyhow::{Context, Result};
use semel_engine::{DropWish, Intake, Settlement};
use semel_model::RunId;
use semel_model::run::RunState;
use semel_store::{duplicates, effects};
use semel_testkit::peer::Behaviour;
use semel_testkit::{patience, until, until_some};
use serde_json::json;

use crate::world::World;

mod by_hand;
mod intents;
mod late;

const CHARGE: &str = "\x20 - id: charge\n    guard: review\n    \
    http: { post: 'PEER/plain/charges', json: { order: '${{ input.id }}' } }\n    \
    external_id: result.id\n";
const SHIP: &str = "\x20 - id: ship\n    guard: review\n    \
    http: { post: 'PEER/plain/parcels', json: { to: '${{ input.to }}', charge: '${{ steps.charge.external_id }}' } }\n";

async fn publish(world: &World, head: &str, steps: &str) -> Result<()> {
    let steps = steps.replace("PEER", &world.peer.url(""));
    world
        .publish_source(&format!(
            "flow: story\ntrigger:\n  webhook: {{ auth: none, key: input.id }}\n{head}\
             retry: {{ attempts: 3, delay: 100ms, max_delay: 200ms, within: 1h }}\nsteps:\n{steps}"
        ))
        .await
}

async fn drop_key(world: &World, key: &str, new_intent: bool) -> Result<RunId> {
    let (namespace, flow) = ("default".parse()?, "story".parse()?);
    let key = semel_model::Key::new(key.as_bytes().to_vec())?;
    let wish = DropWish {
        reason: "a test order",
        new_intent,
    };
    let dropped = world
        .engine
        .drop_key(world.namespace_id, &namespace, &flow, &key, wish, "test")
        .await?;
    Ok(dropped)
}

/// The keys that a path was sent, in order.
async fn keys(world: &World, path: &str) -> Result<Vec<String>> {
    let seen = world.peer.effects().await?.into_iter();
    let seen = seen.filter(|effect| effect.path.starts_with(path));
    Ok(seen.filter_map(|effect| effect.key).collect())
}

/// Makes everything that happened an hour older, and lets keys expire.
async fn an_hour_later(world: &World) -> Result<()> {
    let client = world.database().connect().await?;
    client
        .batch_execute(
            "UPDATE runs SET accepted_at = accepted_at - interval '1 hour',
                             ended_at = ended_at - interval '1 hour';
             UPDATE claims SET expires_at = expires_at - interval '1 hour'",
        )
        .await?;
    semel_store::retention::forget_keys(world.engine.cell().every()).await?;
    Ok(())
}

#[tokio::test]
async fn after_a_dropped_key_nothing_is_sent_again() -> Result<()> {
    let world = World::start().await?;
    publish(
        &world,
        "",
        &format!("{CHARGE}{SHIP}result: steps.charge.external_id\n"),
    )
    .await?;

    let (first, end) = world.play(r#"{"id":"o-1","to":"x"}"#).await?;
    drop_key(&world, "o-1", false).await?;
    let (again, reused) = world.play(r#"{"id":"o-1","to":"x"}"#).await?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(reused.state, RunState::Succeeded, "{reused:?}");
    assert_ne!(first.run, again.run);
    assert_eq!(end.result, reused.result, "the result is the first one's");
    assert_eq!(world.peer.count("/plain/").await?.calls, 2);
    let cell = world.engine.cell();
    let look = async || {
        let (id, run) = (world.namespace_id, first.run);
        let of_run = duplicates::list_of_run(cell.of(run), id, run, None, 9, true);
        Ok(of_run.await?.0)
    };
    let stopped = until("two repeats", look, |stopped| stopped.len() == 2).await?;
    assert!(
        stopped.iter().all(|it| it.stopped_by == "ledger"),
        "{stopped:?}"
    );
    Ok(())
}

/// The ledger has the row of the first run, of the same day.
#[tokio::test]
async fn a_doubt_that_was_given_up_is_taken_over_by_the_next_run() -> Result<()> {
    let world = World::start().await?;
    publish(&world, "", CHARGE).await?;
    world
        .peer
        .next("/plain/", Behaviour::CloseWithoutAnswer)
        .await?;
    let (engine, id) = (&world.engine, world.namespace_id);
    let doubt = async || {
        let doubts = effects::list_doubts(engine.cell().every(), id, None, 10).await?;
        Ok(doubts.items.into_iter().next())
    };

    world.deliver(r#"{"id":"1"}"#).await?;
    let first = until_some("a doubt", doubt).await?;
    let reason = "not worth it".to_owned();
    engine
        .settle(id, first.id, Settlement::Fail { reason }, "test")
        .await?;
    let end = engine.await_end(first.run, patience());
    let end = end.await?.context("a run")?.state;
    let sent = keys(&world, "/plain/charges").await?;
    drop_key(&world, "1", false).await?;
    world.deliver(r#"{"id":"1"}"#).await?;
    let again = until_some("the doubt again", doubt).await?;

    assert_eq!(end, RunState::Failed);
    assert_eq!(again.id, first.id, "the same effect");
    assert_ne!(again.run, first.run, "of the next run");
    assert_eq!(
        keys(&world, "/plain/charges").await?,
        sent,
        "not sent again"
    );
    assert_eq!(world.attention().await?, Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn what_failed_goes_out_under_its_first_key_after_an_expired_keep() -> Result<()> {
    let world = World::start().await?;
    publish(&world, "keep: 1m\n", &format!("{CHARGE}{SHIP}")).await?;
    let refuse = Behaviour::RefuseWith(403);
    world.peer.next("/plain/parcels", refuse).await?;

    let (first, failed) = world.play(r#"{"id":"o-1","to":"x"}"#).await?;
    an_hour_later(&world).await?;
    let (again, end) = world.play(r#"{"id":"o-1","to":"x"}"#).await?;

    assert_eq!(failed.state, RunState::Failed, "{failed:?}");
    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_ne!(first.run, again.run);
    assert_eq!(world.peer.count("/plain/charges").await?.calls, 1);
    assert_eq!(world.peer.count("/plain/parcels").await?.calls, 2);
    let sent = keys(&world, "/plain/parcels").await?;
    let first_key = semel_model::EffectId::derive(first.run, "ship", "", 0);
    assert_eq!(sent, [first_key.to_string()]);
    Ok(())
}

#[tokio::test]
async fn another_request_for_what_failed_has_another_key() -> Result<()> {
    let world = World::start().await?;
    publish(&world, "", &format!("{CHARGE}{SHIP}")).await?;
    world
        .peer
        .next("/plain/parcels", Behaviour::RefuseWith(403))
        .await?;

    let (first, _) = world.play(r#"{"id":"o-1","to":"nowhere"}"#).await?;
    drop_key(&world, "o-1", false).await?;
    let (_, end) = world.play(r#"{"id":"o-1","to":"here"}"#).await?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    let next = semel_model::EffectId::derive(first.run, "ship", "", 1);
    assert_eq!(keys(&world, "/plain/parcels").await?, [next.to_string()]);
    Ok(())
}

#[tokio::test]
async fn a_done_effect_with_another_request_needs_review() -> Result<()> {
    let world = World::start().await?;
    publish(&world, "", &format!("{CHARGE}{SHIP}")).await?;

    world.play(r#"{"id":"o-1","to":"x"}"#).await?;
    drop_key(&world, "o-1", false).await?;
    let (_, stopped) = world.play(r#"{"id":"o-1","to":"y"}"#).await?;

    assert_eq!(stopped.state, RunState::NeedsReview, "{stopped:?}");
    let fault = stopped.fault.context("a fault")?;
    assert!(fault.contains("effect-changed"), "{fault}");
    assert_eq!(world.peer.count("/plain/").await?.calls, 2);
    Ok(())
}

#[tokio::test]
async fn a_new_intent_is_performed_under_new_keys() -> Result<()> {
    let world = World::start().await?;
    publish(&world, "", CHARGE).await?;

    let (first, _) = world.play(r#"{"id":"o-1"}"#).await?;
    drop_key(&world, "o-1", true).await?;
    let (_, end) = world.play(r#"{"id":"o-1"}"#).await?;
    drop_key(&world, "o-1", false).await?;
    let (_, reused) = world.play(r#"{"id":"o-1"}"#).await?;

    for end in [end, reused] {
        assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    }
    let key = |generation| semel_model::EffectId::derive(first.run, "charge", "", generation);
    let sent = keys(&world, "/plain/charges").await?;
    assert_eq!(sent, [key(0).to_string(), key(1).to_string()]);
    Ok(())
}

#[tokio::test]
async fn a_key_that_comes_back_as_new_is_performed_again_after_its_time() -> Result<()> {
    let world = World::start().await?;
    publish(&world, "keep: { for: 1m, then: new }\n", CHARGE).await?;

    for _ in 0..3 {
        let (_, end) = world.play(r#"{"id":"o-1"}"#).await?;
        assert_eq!(end.state, RunState::Succeeded, "{end:?}");
        an_hour_later(&world).await?;
    }

    let sent: std::collections::HashSet<_> = keys(&world, "/plain/").await?.into_iter().collect();
    assert_eq!(sent.len(), 3, "three intents, three keys");
    Ok(())
}

#[tokio::test]
async fn what_was_undone_is_performed_again_under_a_new_key() -> Result<()> {
    let world = World::start().await?;
    let undo = "\x20   undo: { http: { put: 'PEER/put/refunds', json: { charge: '${{ steps.charge.external_id }}' } } }\n";
    publish(
        &world,
        "on_failure: undo\n",
        &format!("{CHARGE}{undo}{SHIP}"),
    )
    .await?;
    let refuse = Behaviour::RefuseWith(403);
    world.peer.next("/plain/parcels", refuse).await?;

    let (first, failed) = world.play(r#"{"id":"o-1","to":"x"}"#).await?;
    drop_key(&world, "o-1", false).await?;
    let (_, end) = world.play(r#"{"id":"o-1","to":"x"}"#).await?;

    assert_eq!(failed.state, RunState::Failed, "{failed:?}");
    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    let key = |generation| semel_model::EffectId::derive(first.run, "charge", "", generation);
    let sent = keys(&world, "/plain/charges").await?;
    assert_eq!(sent, [key(0).to_string(), key(1).to_string()]);
    assert_eq!(world.peer.count("/put/refunds").await?.calls, 1);
    Ok(())
}

#[tokio::test]
async fn items_that_were_done_are_not_done_again() -> Result<()> {
    let world = World::start().await?;
    let list = "\x20 - id: each\n    foreach:\n      in: input.items\n      key: item\n      on_error: collect\n      steps:\n        \
        - { id: pay, guard: review, http: { post: 'PEER/plain/pay/${{ item }}', json: { n: '${{ item }}' } } }\n";
    publish(&world, "", list).await?;
    world
        .peer
        .next("/plain/pay/b", Behaviour::RefuseWith(403))
        .await?;
    let order = r#"{"id":"o-1","items":["a","b","c"]}"#;

    let (_, failed) = world.play(order).await?;
    let mut ends = Vec::new();
    for _ in 0..2 {
        drop_key(&world, "o-1", false).await?;
        ends.push(world.play(order).await?.1);
    }

    assert_eq!(failed.state, RunState::Failed, "{failed:?}");
    for end in ends {
        assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    }
    for (item, requests) in [("a", 1), ("b", 2), ("c", 1)] {
        let path = format!("/plain/pay/{item}");
        assert_eq!(world.peer.count(&path).await?.calls, requests, "{item}");
    }
    let sent: std::collections::HashSet<_> = keys(&world, "/plain/").await?.into_iter().collect();
    assert_eq!(sent.len(), 3, "one key for each item: {sent:?}");
    Ok(())
}

#[tokio::test]
async fn the_first_key_is_sent_when_even_the_history_is_gone() -> Result<()> {
    let world = World::start().await?;
    publish(&world, "", CHARGE).await?;

    world.play(r#"{"id":"o-1"}"#).await?;
    drop_key(&world, "o-1", false).await?;
    let client = world.database().connect().await?;
    client
        .batch_execute("DELETE FROM journal; DELETE FROM effects")
        .await?;
    let (_, end) = world.play(r#"{"id":"o-1"}"#).await?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    let sent = keys(&world, "/plain/").await?;
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[0], sent[1]);
    Ok(())
}

#[tokio::test]
async fn a_callback_to_the_first_address_ends_the_wait_of_the_next_run() -> Result<()> {
    let world = World::start().await?;
    let ask = "\x20 - id: ask\n    guard: review\n    \
        http: { post: 'PEER/plain/asks', json: { url: '${{ waits.word.url }}' } }\n\
        \x20 - id: word\n    wait: { callback: true, within: 1h }\nresult: steps.word.result\n";
    publish(&world, "", ask).await?;
    let first = world.deliver(r#"{"id":"o-1"}"#).await?.run;
    let token = until_some("the address of the wait", async || {
        let seen = world.peer.effects().await?;
        let Some(asked) = seen.first() else {
            return Ok(None);
        };
        let body: serde_json::Value = serde_json::from_str(&asked.body)?;
        let url = body["url"].as_str().context("an address")?;
        Ok(url.rsplit('/').next().map(str::to_owned))
    })
    .await?;
    let cell = world.engine.cell();
    semel_store::queue::ask_cancel(cell.of(first), world.namespace_id, first).await?;
    let end = async || Ok(semel_store::runs::find_snapshot(cell.of(first), first).await?);
    until("the first run to end", end, |end| {
        end.as_ref().is_some_and(|it| it.state.is_ended())
    })
    .await?;
    drop_key(&world, "o-1", false).await?;

    let next = world.deliver(r#"{"id":"o-1"}"#).await?.run;
    let answered = until_some("the callback to be taken", async || {
        let answered = world.engine.call_back(&token, b"\"yes\"").await;
        Ok(answered.ok())
    })
    .await?;
    let end = world
        .engine
        .await_end(next, patience())
        .await?
        .context("a run")?;

    assert_eq!(answered.run, next);
    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(end.result.as_deref(), Some("\"yes\""));
    assert_eq!(world.peer.count("/plain/asks").await?.calls, 1);
    // What answered the wait is reused by the run after that.
    drop_key(&world, "o-1", false).await?;
    assert_eq!(world.result(r#"{"id":"o-1"}"#).await?, json!("yes"));
    Ok(())
}

#[tokio::test]
async fn a_later_run_meets_the_run_that_the_first_one_called() -> Result<()> {
    let world = World::start().await?;
    let called = "flow: called\ntrigger: { api: {} }\nsteps:\n  - id: pay\n    guard: review\n    \
        http: { post: 'PEER/plain/called', json: {} }\nresult: '7'\n";
    world
        .publish_source(&called.replace("PEER", &world.peer.url("")))
        .await?;
    let call = "\x20 - { id: other, call: { flow: called, input: {} } }\n";
    publish(
        &world,
        "",
        &format!("{call}{SHIP}").replace("steps.charge.external_id", "steps.other.result"),
    )
    .await?;
    world
        .peer
        .next("/plain/parcels", Behaviour::RefuseWith(403))
        .await?;

    let (_, failed) = world.play(r#"{"id":"o-1","to":"x"}"#).await?;
    drop_key(&world, "o-1", false).await?;
    let (_, end) = world.play(r#"{"id":"o-1","to":"x"}"#).await?;

    assert_eq!(failed.state, RunState::Failed, "{failed:?}");
    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(world.peer.count("/plain/called").await?.calls, 1);
    assert!(matches!(
        world.try_deliver(r#"{"id":"o-1","to":"x"}"#).await?,
        Intake::Accepted(it) if it.replayed
    ));
    Ok(())
}
