//! Keys that come back as a new intent: everything is done again, once.

use anyhow::{Result, ensure};
use semel_model::run::RunState;

use super::{an_hour_later, drop_key, publish};
use crate::world::World;

#[tokio::test]
async fn items_of_a_new_intent_are_not_done_again_by_another_run_of_it() -> Result<()> {
    let world = World::start().await?;
    publish(
        &world,
        "keep: { for: 1m, then: new }\n",
        "\x20 - id: each\n    foreach: { in: input.items, key: string(item), steps: \
         [{ id: post, guard: review, http: { post: 'PEER/plain/items', json: { item: '${{ item }}' } } }] }\n",
    )
    .await?;
    let mut posted = Vec::new();
    for expires in [true, false, false] {
        let (_, end) = world.play(r#"{"id":"o-1","items":[1,2]}"#).await?;
        ensure!(end.state == RunState::Succeeded, "{end:?}");
        posted.push(world.peer.count("/plain/items").await?.effects);
        match expires {
            true => an_hour_later(&world).await?,
            false => {
                drop_key(&world, "o-1", false).await?;
            }
        }
    }

    assert_eq!(
        posted,
        [2, 4, 4],
        "the third run has the intent of the second"
    );
    Ok(())
}
