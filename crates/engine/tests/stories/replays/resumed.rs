//! Resumed runs: the key of an effect that was refused, and what a replay knows of them.

use anyhow::Result;
use semel_engine::ReplayWish;
use semel_model::run::RunState;
use semel_model::{EffectId, EffectName, NamedEffectId, NamedEffectState};
use semel_store::named_effects;
use semel_testkit::peer::Behaviour;
use semel_testkit::until;
use serde_json::json;

use super::{end_of, post, publish, refuse, replay};
use crate::world::World;

/// The stored refusals of `bank` are those that a connection has by default: 402, 412 and 422.
async fn pays_a_bank() -> Result<World> {
    pays_under("").await
}

/// The same with more fields of the step.
async fn pays_under(more: &str) -> Result<World> {
    let world = World::start().await?;
    let bank = json!({
        "to": { "http": { "base_url": world.peer.url("") } },
        "idempotency_keys": { "window": "24h" },
    });
    world.connect("bank", bank).await?;
    let pay = "\x20 - id: pay\n    guard: key\n    \
        http: { connection: bank, post: /plain/pay, json: { id: '${{ input.id }}' } }\n";
    publish(&world, &[format!("{pay}{more}")]).await?;
    Ok(world)
}

/// Has the bank refuse once, and resumes the run that failed by it. The key under which the effect was
/// made in the end is that of the generation.
async fn is_made_under(status: u16, generation: u32) -> Result<()> {
    let world = pays_a_bank().await?;
    let refusal = Behaviour::RefuseWith(status);
    world.peer.next("/plain/pay", refusal).await?;
    let (run, failed) = world.play(r#"{"id":"o-1"}"#).await?;

    let resumed = world
        .engine
        .resume(world.namespace_id, run.run, "funds came", "test");
    resumed.await?;
    let end = end_of(&world, run.run).await?;

    assert_eq!(failed.state, RunState::Failed, "{failed:?}");
    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    let sent = world.peer.effects().await?;
    let keys: Vec<Option<String>> = sent.into_iter().map(|effect| effect.key).collect();
    let key = EffectId::derive(run.run, "pay", "", generation).to_string();
    assert_eq!(keys, [Some(key)]);
    let client = world.database().connect().await?;
    let states = "SELECT string_agg(state::text, ' ' ORDER BY intended_at) FROM effects";
    let states: String = client.query_one(states, &[]).await?.get(0);
    let expected = if generation == 0 {
        "done"
    } else {
        "failed done"
    };
    assert_eq!(states, expected);
    Ok(())
}

#[tokio::test]
async fn a_resumed_run_leaves_the_key_behind_whose_refusal_the_destination_keeps() -> Result<()> {
    is_made_under(402, 1).await
}

#[tokio::test]
async fn a_resumed_run_sends_the_same_key_where_the_destination_keeps_no_refusal() -> Result<()> {
    is_made_under(403, 0).await
}

/// The effect is made under the second key of its name, whether the run that was refused is resumed or replayed.
#[tokio::test]
async fn a_business_key_leaves_the_key_behind_whose_refusal_the_destination_keeps() -> Result<()> {
    let name = EffectName::new("flow/story/pay".parse()?, *b"pay:o-1")?;
    let name = NamedEffectId::derive(&"default".parse()?, &name);
    for is_replayed in [false, true] {
        let world = pays_under("    key: '\"pay:\" + input.id'\n").await?;
        let refusal = Behaviour::RefuseWith(402);
        world.peer.next("/plain/pay", refusal).await?;
        let (run, failed) = world.play(r#"{"id":"o-1"}"#).await?;
        let (cell, id) = (world.engine.cell().of(name), world.namespace_id);
        let look = async || {
            Ok(named_effects::find(cell, id, name)
                .await?
                .map(|it| it.state))
        };
        until("the name to be told of the refusal", look, |seen| {
            *seen == Some(NamedEffectState::Failed)
        })
        .await?;

        let end = if is_replayed {
            replay(&world, run.run, &ReplayWish::default()).await?.1
        } else {
            let resumed = world.engine.resume(id, run.run, "funds came", "test");
            resumed.await?;
            end_of(&world, run.run).await?
        };

        assert_eq!(failed.state, RunState::Failed, "{failed:?}");
        assert_eq!(end.state, RunState::Succeeded, "{end:?}");
        let sent = world.peer.effects().await?;
        let keys: Vec<Option<String>> = sent.into_iter().map(|effect| effect.key).collect();
        assert_eq!(keys, [Some(EffectId::named(name, 1).to_string())]);
    }
    Ok(())
}

#[tokio::test]
async fn a_refusal_that_is_kept_under_the_next_key_too_is_left_behind_again() -> Result<()> {
    let world = pays_a_bank().await?;
    let refuse = async || {
        world
            .peer
            .next("/plain/pay", Behaviour::RefuseWith(402))
            .await
    };
    refuse().await?;
    let (run, _) = world.play(r#"{"id":"o-1"}"#).await?;
    let run = run.run;
    let resume = async || {
        let resumed = world
            .engine
            .resume(world.namespace_id, run, "again", "test");
        resumed.await?;
        end_of(&world, run).await
    };

    refuse().await?;
    let second = resume().await?;
    let third = resume().await?;

    assert_eq!(second.state, RunState::Failed, "{second:?}");
    assert_eq!(third.state, RunState::Succeeded, "{third:?}");
    let key = EffectId::derive(run, "pay", "", 2).to_string();
    let sent = world.peer.effects().await?;
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].key, Some(key));
    Ok(())
}

#[tokio::test]
async fn an_effect_that_a_resumed_run_made_is_not_made_again_by_a_replay() -> Result<()> {
    let world = World::start().await?;
    publish(&world, &[post("a", "n: 1"), post("b", "n: 2")]).await?;
    refuse(&world, "/plain/a").await?;
    let (run, _) = world.play(r#"{"id":"o-1"}"#).await?;
    refuse(&world, "/plain/b").await?;
    let resumed = world
        .engine
        .resume(world.namespace_id, run.run, "again", "test");
    resumed.await?;
    let failed_again = end_of(&world, run.run).await?;

    let (_, end) = replay(&world, run.run, &ReplayWish::default()).await?;

    assert_eq!(failed_again.state, RunState::Failed, "{failed_again:?}");
    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(world.peer.count("/plain/a").await?.effects, 1);
    assert_eq!(world.peer.count("/plain/b").await?.effects, 1);
    Ok(())
}
