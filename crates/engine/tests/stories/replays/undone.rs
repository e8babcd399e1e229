//! Effects whose undo was left in doubt: nobody knows whether they stand, so no later run counts them as done.

use anyhow::{Context, Result};
use semel_engine::{DropWish, ReplayWish, Settlement};
use semel_model::event::StepVerb;
use semel_model::run::RunState;
use semel_model::{EffectId, Key, RunId};
use semel_store::runs::{self, RunView};
use semel_testkit::peer::Behaviour;
use semel_testkit::until;

use super::{post, preview, publish, replay};
use crate::world::World;

const ORDER: &str = r#"{"id":"o-1"}"#;

async fn find(world: &World, run: RunId) -> Result<RunView> {
    let found = runs::find(world.engine.cell().of(run), world.namespace_id, run).await?;
    found.context("a run")
}

async fn comes_to(world: &World, run: RunId, state: RunState) -> Result<()> {
    let look = async || Ok(find(world, run).await?.state);
    until(&format!("{run} to be {state}"), look, |seen| *seen == state).await?;
    Ok(())
}

/// A run that charged, whose charge an operator had refunded: the answer was lost, and an operator gave the doubt up.
async fn refunded_in_doubt(world: &World, more: &str) -> Result<RunId> {
    let undo = "    undo: { http: { post: 'PEER/plain/refunds' } }\n";
    let charge = format!("{}{more}{undo}", post("charge", "n: 1"));
    publish(world, &[charge]).await?;
    let (first, made) = world.play(ORDER).await?;
    anyhow::ensure!(made.state == RunState::Succeeded, "{made:?}");
    let lost = Behaviour::CloseWithoutAnswer;
    world.peer.next("/plain/refunds", lost).await?;
    let run = first.run;
    let effect = |step| EffectId::derive(run, step, "", 0);
    let (engine, by) = (&world.engine, world.by());
    engine
        .perform_for_operator(by, effect("charge"), StepVerb::Undo, "a mistake")
        .await?;
    comes_to(world, run, RunState::InDoubt).await?;
    let fail = Settlement::Fail {
        reason: "nobody knows".to_owned(),
    };
    let id = world.namespace_id;
    engine
        .settle(id, effect("charge.undo"), fail, "test")
        .await?;
    comes_to(world, run, RunState::Succeeded).await?;
    Ok(run)
}

#[tokio::test]
async fn a_replay_reuses_an_effect_whose_undo_is_in_doubt_only_where_an_operator_says_that_it_stands()
-> Result<()> {
    for more in ["", "    key: '\"charge:\" + input.id'\n"] {
        let world = World::start().await?;
        let run = refunded_in_doubt(&world, more).await?;
        let stands = ReplayWish {
            accepts: vec!["charge".to_owned()],
            ..ReplayWish::default()
        };

        let unasked = preview(&world, run, &ReplayWish::default()).await?;
        let (_, end) = replay(&world, run, &stands).await?;

        let obstacles: Vec<&str> = unasked.obstacles.iter().map(|it| &*it.message).collect();
        assert_eq!(obstacles.len(), 1, "{obstacles:?}");
        assert!(
            obstacles[0].contains("whether `charge` was undone"),
            "{obstacles:?}"
        );
        assert_eq!(end.state, RunState::Succeeded, "{end:?}");
        assert_eq!(world.peer.count("/plain/charge").await?.calls, 1);
    }
    Ok(())
}

#[tokio::test]
async fn a_delivery_that_comes_again_stops_at_an_effect_whose_undo_is_in_doubt() -> Result<()> {
    let world = World::start().await?;
    refunded_in_doubt(&world, "").await?;
    let (namespace, flow) = ("default".parse()?, "story".parse()?);
    let wish = DropWish {
        reason: "a test order",
        new_intent: false,
    };
    let key = Key::new(b"o-1".to_vec())?;
    let id = world.namespace_id;
    let dropped = world
        .engine
        .drop_key(id, &namespace, &flow, &key, wish, "test");
    dropped.await?;

    let next = world.deliver(ORDER).await?.run;
    comes_to(&world, next, RunState::NeedsReview).await?;

    let fault = find(&world, next).await?.fault.unwrap_or_default();
    assert!(fault.contains("undo-in-doubt"), "{fault}");
    assert_eq!(world.peer.count("/plain/charge").await?.calls, 1);
    Ok(())
}
