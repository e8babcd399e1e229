//! Taking a key from a run that nothing moves any more.

use anyhow::{Context, Result};
use semel_engine::{Actor, OnceError, Settlement};
use semel_model::run::RunState;
use semel_model::{EffectId, NamedEffectState, RunId};
use semel_testkit::until;

use super::undoing::comes_to;
use super::waiting::{begin_late, waits};
use super::{FIRST, SECOND, becomes, end, id_of, named, publish, publish_steps};
use crate::world::World;

async fn quarantine(world: &World, run: RunId) -> Result<()> {
    let text = "UPDATE queue SET stalled_takes = 5, due_at = moment()
                 WHERE run_id = $1 AND holder IS NULL AND stage = 'waiting'";
    let client = world.database().connect().await?;
    let change = async || Ok(client.execute(text, &[run.as_uuid()]).await?);
    until("a run that waits", change, |rows| *rows == 1).await?;
    comes_to(world, run, RunState::Quarantined).await
}

#[tokio::test]
async fn a_key_that_a_quarantined_run_holds_is_taken_from_it_and_settled() -> Result<()> {
    let world = World::start().await?;
    let waiting = "\x20 - { id: charge, wait: { callback: true, within: 30d } }\n";
    publish_steps(&world, "stuck", waiting).await?;
    publish(&world, "story", "namespace", "").await?;
    let holder = world.deliver_to("stuck", FIRST).await?.run;
    begin_late(&world, holder).await?;
    let key = EffectId::named(id_of("shared", "charge:o-1")?, 0);
    let by = Actor {
        namespace_id: world.namespace_id,
        actor: "test",
    };
    let free = async || {
        world
            .engine
            .free_once(by, key, "its journal is damaged")
            .await
    };

    let early = free().await;
    quarantine(&world, holder).await?;
    let second = world.deliver_to("story", SECOND).await?.run;
    waits(&world, second).await?;
    let freed = [free().await?, free().await?];
    let doubt = named(&world, "shared", "charge:o-1").await?;
    let listed = world.attention().await?;
    let deny = Settlement::DidNotHappen {
        reason: "not there".to_owned(),
    };
    world
        .engine
        .settle(world.namespace_id, key, deny, "test")
        .await?;
    let performed = end(&world, second).await?;

    assert!(
        matches!(early, Err(OnceError::HeldByRun { run }) if run == holder),
        "{early:?}"
    );
    assert_eq!(freed, [false, true], "a repeat changes nothing");
    assert_eq!(doubt.context("a name")?.state, NamedEffectState::InDoubt);
    assert_eq!(listed, Vec::<String>::new());
    assert_eq!(performed.state, RunState::Succeeded, "{performed:?}");
    becomes(&world, "charge:o-1", Some(NamedEffectState::Done)).await
}
