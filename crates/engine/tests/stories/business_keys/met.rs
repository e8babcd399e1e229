//! What the ledger says of an effect that another holder of its business key had made.

use anyhow::{Context, Result};
use semel_engine::DropWish;
use semel_model::effect::EffectState;
use semel_model::run::RunState;
use semel_model::{Key, NamedEffectState, RunId};
use semel_store::effects::{self, EffectView, GIVEN_UP};
use semel_store::key_story::{self, LedgerCounts, StoryOf};
use semel_store::runs;
use semel_testkit::peer::Behaviour;
use serde_json::json;

use super::settling::{given_up, happened, key_sent, settle};
use super::{CHARGE, FIRST, SECOND, becomes, end, play, publish, publish_steps};
use crate::world::World;

/// What the ledger has of the one effect of a run.
async fn entry(world: &World, run: RunId) -> Result<EffectView> {
    let cell = world.engine.cell();
    let found = runs::find_release(cell.of(run), world.namespace_id, run).await?;
    let (_, date) = found.context("a run")?;
    let mut listed = effects::list_of_run(cell.of(run), world.namespace_id, date, run).await?;
    anyhow::ensure!(listed.len() == 1, "{listed:?}");
    listed.pop().context("an effect")
}

async fn told(world: &World, run: RunId) -> Result<LedgerCounts> {
    let cell = world.engine.cell().every();
    let of = [StoryOf::Key(run)];
    let story = key_story::read(cell, world.namespace_id, &of).await?;
    anyhow::ensure!(story.is_whole && story.steps.len() == 1, "{story:?}");
    Ok(story.steps[0].counts)
}

fn met() -> LedgerCounts {
    LedgerCounts {
        met: 1,
        ..LedgerCounts::default()
    }
}

fn done_once() -> LedgerCounts {
    LedgerCounts {
        done: 1,
        places: 1,
        ..LedgerCounts::default()
    }
}

#[tokio::test]
async fn a_reused_effect_is_no_second_done_row() -> Result<()> {
    let world = World::start().await?;
    publish(&world, "story", "namespace", "").await?;
    let refused = Behaviour::RefuseWith(400);
    world.peer.next("/plain/", refused).await?;

    let (first, failed) = play(&world, "story", FIRST).await?;
    let (second, done) = play(&world, "story", SECOND).await?;
    becomes(&world, "charge:o-1", Some(NamedEffectState::Done)).await?;
    world
        .engine
        .resume(world.namespace_id, first, "again", "test")
        .await?;
    let resumed = end(&world, first).await?;

    assert_eq!(failed.state, RunState::Failed, "{failed:?}");
    assert_eq!(done.state, RunState::Succeeded, "{done:?}");
    assert_eq!(resumed.state, RunState::Succeeded, "{resumed:?}");
    let (reused, made) = (entry(&world, first).await?, entry(&world, second).await?);
    assert_eq!((made.state, made.attempt), (EffectState::Done, 1));
    assert_eq!((reused.state, reused.attempt), (EffectState::Done, 0));
    assert_eq!(reused.external_id, made.external_id);
    let note = reused.note.context("a note")?;
    assert!(note.contains(&second.to_string()), "{note}");
    assert_eq!(told(&world, first).await?, met());
    assert_eq!(told(&world, second).await?, done_once());
    Ok(())
}

#[tokio::test]
async fn a_run_that_meets_a_done_name_has_a_row_that_says_who_made_it() -> Result<()> {
    let world = World::start().await?;
    publish(&world, "story", "namespace", "").await?;

    let (first, _) = play(&world, "story", FIRST).await?;
    becomes(&world, "charge:o-1", Some(NamedEffectState::Done)).await?;
    let (second, end) = play(&world, "story", SECOND).await?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    let row = entry(&world, second).await?;
    assert_eq!((row.state, row.attempt), (EffectState::Done, 0));
    let note = row.note.context("a note")?;
    let words = format!("already done by {first} (");
    assert!(note.starts_with(&words), "{note}");
    assert_eq!(told(&world, second).await?, met());
    Ok(())
}

/// The run's own attempt was in doubt, and its run ended; an operator says at the name that it happened.
#[tokio::test]
async fn an_own_doubt_that_is_settled_at_the_name_is_an_effect_of_the_key_and_met_by_others()
-> Result<()> {
    let world = World::start().await?;
    publish(&world, "story", "namespace", "").await?;
    let lost = Behaviour::CloseWithoutAnswer;
    world.peer.next("/plain/", lost).await?;
    let run = given_up(&world).await?;
    let row = entry(&world, run).await?;
    let unknown = told(&world, run).await?;

    let seen = happened(Some(json!({ "id": "ch_1" })));
    settle(&world, key_sent()?, seen).await?;
    let (other, met_by_other) = play(&world, "story", SECOND).await?;
    let (namespace, flow) = ("default".parse()?, "story".parse()?);
    let key = Key::new(b"1".to_vec())?;
    let wish = DropWish {
        reason: "a test order",
        new_intent: false,
    };
    world
        .engine
        .drop_key(world.namespace_id, &namespace, &flow, &key, wish, "test")
        .await?;
    let (next, followed) = play(&world, "story", FIRST).await?;

    let note = row.note.context("a note")?;
    assert!(note.starts_with(GIVEN_UP), "{note}");
    assert_eq!((unknown.in_doubt, unknown.not_done), (1, 0));
    assert_eq!(met_by_other.state, RunState::Succeeded, "{met_by_other:?}");
    assert_eq!(told(&world, other).await?, met());
    assert_ne!(next, run);
    assert_eq!(followed.state, RunState::Succeeded, "{followed:?}");
    assert_eq!(told(&world, next).await?, done_once());
    assert_eq!(world.peer.count("/plain/").await?.calls, 1);
    Ok(())
}

#[tokio::test]
async fn a_second_step_that_meets_what_the_first_made_has_a_row_without_an_attempt() -> Result<()> {
    let world = World::start().await?;
    let first = CHARGE.replace("SCOPE", "namespace");
    // Another expression of the same key: the check would refuse the same one.
    let second = first.replace("id: charge", "id: again");
    let second = second.replace("+ input.order", "+ string(input.order)");
    publish_steps(&world, "story", &format!("{first}{second}")).await?;

    let (run, ended) = play(&world, "story", FIRST).await?;

    assert_eq!(ended.state, RunState::Succeeded, "{ended:?}");
    assert_eq!(world.peer.count("/plain/").await?.calls, 1);
    let cell = world.engine.cell().every();
    let of = [StoryOf::Key(run)];
    let story = key_story::read(cell, world.namespace_id, &of).await?;
    let counts = story.steps.iter().map(|it| (it.step.as_str(), it.counts));
    let expected = [("charge", done_once()), ("again", met())];
    assert_eq!(counts.collect::<Vec<_>>(), expected);
    Ok(())
}
