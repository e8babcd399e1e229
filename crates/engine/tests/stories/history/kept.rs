//! What was undone is performed again, also where nothing but its generation is left of the key.

use anyhow::Result;
use semel_model::RunId;
use semel_model::run::RunState;
use semel_store::retention;
use semel_testkit::until;

use super::{days_later, delete_old, left};
use crate::world::World;

/// Books under a key that the destination remembers for 300 days, and takes the booking back where the run fails.
const BOOK: &str = "keep: 1d\non_failure: undo\nsteps:\n\
    \x20 - id: note\n    guard: key\n    window: 300d\n    http: { post: 'PEER/keyed/notes', json: { order: '${{ input.id }}' } }\n\
    \x20 - id: book\n    guard: key\n    window: 300d\n    http: { post: 'PEER/keyed/bookings', json: { order: '${{ input.id }}' } }\n    \
          undo: { http: { put: 'PEER/put/free', json: { order: '${{ input.id }}' } } }\n\
    \x20 - id: no\n    if: input.fails\n    fail: { code: sold-out, message: nothing left }\n";

async fn kept(world: &World) -> Result<i64> {
    let client = world.database().connect().await?;
    let count = "SELECT count(*) FROM kept_generations";
    Ok(client.query_one(count, &[]).await?.get(0))
}

#[tokio::test]
async fn what_was_undone_is_performed_again_after_the_history_of_its_key_is_gone() -> Result<()> {
    let world = World::start().await?;
    world.publish(BOOK).await?;
    let (first, failed) = world.play(r#"{"id":"o-1","fails":true}"#).await?;
    days_later(&world, 100).await?;
    delete_old(&world, 1).await?;
    let without_history = left(&world, first.run).await?;

    let (again, end) = world.play(r#"{"id":"o-1","fails":false}"#).await?;

    assert_eq!(failed.state, RunState::Failed, "{failed:?}");
    assert_eq!(without_history, [("claims", 1)]);
    assert_ne!(again.run, first.run, "the runs of the key go on counting");
    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    let booked = world.peer.count("/keyed/bookings").await?.effects;
    assert_eq!(
        booked, 2,
        "the second is no repeat of the one that was undone"
    );
    let noted = world.peer.count("/keyed/notes").await?.effects;
    assert_eq!(noted, 1, "a step that was not undone keeps its key");
    Ok(())
}

#[tokio::test]
async fn an_item_that_was_undone_is_performed_again_after_its_history_is_gone() -> Result<()> {
    let world = World::start().await?;
    world
        .publish(
            "keep: 1d\non_failure: undo\nsteps:\n  - id: each\n    foreach:\n      in: input.items\n      key: string(item)\n      steps:\n\
             \x20       - { id: book, guard: key, window: 300d, http: { post: 'PEER/keyed/items', json: { item: '${{ item }}' } }, \
                          undo: { http: { put: 'PEER/put/free/${{ item }}', json: { free: true } } } }\n\
             \x20 - id: no\n    if: input.fails\n    fail: { code: sold-out, message: nothing left }\n",
        )
        .await?;
    let (_, failed) = world
        .play(r#"{"id":"o-1","items":[1,2],"fails":true}"#)
        .await?;
    days_later(&world, 100).await?;
    delete_old(&world, 3).await?;

    let (_, end) = world
        .play(r#"{"id":"o-1","items":[1,2,3],"fails":false}"#)
        .await?;

    assert_eq!(failed.state, RunState::Failed, "{failed:?}");
    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    let booked = world.peer.count("/keyed/items").await?.effects;
    assert_eq!(
        booked, 5,
        "two that were undone, the same again, and a third"
    );
    Ok(())
}

#[tokio::test]
async fn a_claim_goes_when_destinations_have_forgotten_its_keys() -> Result<()> {
    let world = World::start().await?;
    world.publish(BOOK).await?;
    let (run, _) = world.play(r#"{"id":"o-1","fails":true}"#).await?;
    days_later(&world, 100).await?;
    delete_old(&world, 1).await?;
    let before = (left(&world, run.run).await?, kept(&world).await?);

    days_later(&world, 201).await?;
    retention::sweep(world.engine.cell().every()).await?;

    assert_eq!(before, (vec![("claims", 1)], 1));
    assert_eq!(left(&world, run.run).await?, []);
    assert_eq!(kept(&world).await?, 0);
    Ok(())
}

/// Lets the service delete what is past its time: it passes when a server starts. Waits until so many runs of the key
/// are left.
async fn retain(world: &mut World, run: RunId, runs: i64) -> Result<()> {
    world.engine.shutdown().await;
    world.engine = world.start_another().await?;
    let world = &*world;
    let look = async || {
        let tables = left(world, run).await?;
        let of_runs = tables.iter().find(|(table, _)| *table == "runs");
        Ok(of_runs.map_or(0, |(_, count)| *count))
    };
    let what = format!("{runs} runs of the key");
    until(&what, look, |count| *count == runs).await?;
    Ok(())
}

/// The first run of the key is on a release whose destination remembers keys for long, the last one on a release
/// that sends nothing.
#[tokio::test]
async fn a_key_is_counted_for_as_long_as_an_earlier_release_of_its_runs_is_remembered() -> Result<()>
{
    let mut world = World::start().await?;
    let keep = "keep: { for: 1d, then: new }\nsteps:\n";
    let book = "\x20 - id: book\n    guard: key\n    window: 300d\n    \
                http: { post: 'PEER/keyed/bookings', json: { order: '${{ input.id }}' } }\n";
    let note = "\x20 - { id: note, kv: { add: noted } }\n";
    let order = r#"{"id":"o-1"}"#;
    world.publish(&format!("{keep}{book}")).await?;
    let (first, booked) = world.play(order).await?;
    days_later(&world, 2).await?;
    world.publish(&format!("{keep}{note}")).await?;
    let (second, noted) = world.play(order).await?;
    days_later(&world, 89).await?;
    retain(&mut world, first.run, 1).await?;
    days_later(&world, 2).await?;
    retain(&mut world, first.run, 0).await?;
    days_later(&world, 2).await?;
    retention::sweep(world.engine.cell().every()).await?;
    let while_remembered = left(&world, first.run).await?;

    let (flow, id) = ("story".parse()?, world.namespace_id);
    world.engine.promote_flow(id, &flow, 1, "test").await?;
    let (third, end) = world.play(order).await?;

    assert_ne!(first.run, second.run);
    for end in [&booked, &noted, &end] {
        assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    }
    assert_eq!(while_remembered, [("claims", 1)]);
    assert_ne!(third.run, first.run, "the runs of the key go on counting");
    let bookings = world.peer.count("/keyed/bookings").await?.effects;
    assert_eq!(bookings, 2, "a new intent is performed under another key");
    Ok(())
}
