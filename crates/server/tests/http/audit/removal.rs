//! Retention of the audit record: what is removed keeps its seal, and nothing else goes.

use anyhow::{Context, Result, ensure};
use semel_api::types::{ChainFilter, RemovedFilter};
use semel_engine::{DUTIES, Engine};
use semel_model::Span;
use semel_model::audit_chain::ChainEnd;
use semel_store::audit::removal::{self, Removal};
use semel_store::{Cell, CellOptions, namespaces};
use semel_testkit::until;

use super::{act, follow, follow_from, seal};
use crate::world::World;

/// Lets everything be so many days older, to be sealed anew: only the owner of the tables can.
pub(super) async fn age(world: &World, days: u32) -> Result<()> {
    world.engine.suspend();
    let older = format!(
        "BEGIN;
         ALTER TABLE audit DISABLE TRIGGER USER;
         ALTER TABLE audit_chain DISABLE TRIGGER USER;
         DELETE FROM audit_chain;
         UPDATE audit SET at = at - interval '{days} days';
         ALTER TABLE audit ENABLE ALWAYS TRIGGER audit_append_only;
         ALTER TABLE audit ENABLE ALWAYS TRIGGER audit_removal;
         ALTER TABLE audit_chain ENABLE ALWAYS TRIGGER audit_chain_append_only;
         ALTER TABLE audit_chain ENABLE ALWAYS TRIGGER audit_chain_removal;
         COMMIT"
    );
    let owner = world.database.connect().await?;
    owner.batch_execute(&older).await?;
    Ok(())
}

async fn remove(world: &World, namespace: &str, days: u64) -> Result<Removal> {
    let cell = world.engine.cell();
    let namespace_id = namespaces::ensure(cell.home(), &namespace.parse()?).await?;
    let keep = Span::from_secs(days * 86_400);
    Ok(removal::remove_old(cell.every(), namespace_id, keep).await?)
}

pub(super) async fn acts(world: &World, namespace: &str, actors: &[&str]) -> Result<()> {
    for actor in actors {
        act(world, namespace, actor, "key.drop").await?;
    }
    Ok(())
}

#[tokio::test]
async fn acts_past_their_time_are_removed_and_their_seal_keeps_the_chain_whole() -> Result<()> {
    let world = World::start().await?;
    acts(&world, "main", &["token:ada", "token:ben"]).await?;
    age(&world, 60).await?;
    acts(&world, "main", &["token:cid", "token:dan"]).await?;
    acts(&world, "elsewhere", &["token:ada", "token:ben"]).await?;
    age(&world, 60).await?;
    act(&world, "main", "token:eve", "key.drop").await?;
    seal(&world).await?;
    let all = ChainFilter::default();
    let whole = world.client.read_audit_chain(&all).await?.items;
    let end = follow(&whole).context("it holds before")?;

    let too_early = remove(&world, "main", 150).await?;
    let first = remove(&world, "main", 90).await?;
    let again = remove(&world, "main", 90).await?;
    let second = remove(&world, "main", 1).await?;
    let elsewhere = remove(&world, "elsewhere", 30).await?;

    let removed = RemovedFilter::default();
    let stretches = world.client.list_removed_audit(&removed).await?.items;
    let left = world.client.read_audit_chain(&all).await?.items;
    let mut passed = ChainEnd::START;
    for stretch in &stretches {
        passed.pass(&stretch.acts().context("digests")?)?;
    }
    assert_eq!((too_early, again), (Removal::Nothing, Removal::Nothing));
    assert!(matches!(first, Removal::Removed(_)), "{first:?}");
    assert_eq!(second, Removal::Removed(2));
    assert_eq!(
        elsewhere,
        Removal::Removed(1),
        "the last act of a chain stays"
    );
    assert_eq!(stretches.len(), 2);
    assert_eq!(passed.position, whole.len() as i64 - 1);
    assert_eq!(follow_from(passed, &left), Some(end));
    assert_eq!(follow(&left), None, "without the seals nothing is verified");
    Ok(())
}

/// In namespaces that nobody set otherwise, too.
#[tokio::test]
async fn a_server_that_was_told_how_long_removes_what_is_older() -> Result<()> {
    let world = World::start().await?;
    acts(&world, "main", &["token:ada", "token:ben"]).await?;
    acts(&world, "elsewhere", &["token:ada", "token:ben"]).await?;
    age(&world, 40).await?;
    seal(&world).await?;

    world.engine.shutdown().await;
    let mut options = world.engine.options().clone();
    // A server that was told nothing does not keep the others from it, whatever its rank.
    ensure!(!DUTIES.contains(&"retention_audit"), "one server's for all");
    let cell = Cell::connect(&world.database.url(), CellOptions::default()).await?;
    let untold = Engine::start(cell, options.clone()).await?;
    let cell = Cell::connect(&world.database.url(), CellOptions::default()).await?;
    options.audit_keep = Some(Span::from_secs(30 * 86_400));
    let engine = Engine::start(cell, options).await?;
    let owner = world.database.connect().await?;
    let stretches = "SELECT count(DISTINCT namespace_id) FROM audit_removed";
    let look = async || Ok(owner.query_one(stretches, &[]).await?.get::<_, i64>(0));
    until("acts of two namespaces to be removed", look, |count| {
        *count == 2
    })
    .await?;

    assert!(engine.metrics().audit_removed.get() >= 2);
    engine.shutdown().await;
    untold.shutdown().await;
    Ok(())
}

/// What shows that somebody changed the record must not go with it.
#[tokio::test]
async fn nothing_is_removed_of_a_chain_that_does_not_hold() -> Result<()> {
    for change in [
        "UPDATE audit SET actor = 'token:eve' WHERE actor = 'token:ada'",
        "DELETE FROM audit WHERE actor = 'token:ada'",
    ] {
        let world = World::start().await?;
        acts(
            &world,
            "elsewhere",
            &["token:ada", "token:ben", "token:cid"],
        )
        .await?;
        age(&world, 40).await?;
        seal(&world).await?;
        let owner = world.database.connect().await?;
        let change = format!(
            "BEGIN; ALTER TABLE audit DISABLE TRIGGER USER; {change};
             ALTER TABLE audit ENABLE ALWAYS TRIGGER audit_append_only;
             ALTER TABLE audit ENABLE ALWAYS TRIGGER audit_removal; COMMIT"
        );
        owner.batch_execute(&change).await?;

        let removed = remove(&world, "elsewhere", 30).await?;

        assert!(
            matches!(removed, Removal::Broken(_)),
            "{change}: {removed:?}"
        );
        let stretches = owner.query("SELECT 1 FROM audit_removed", &[]).await?;
        assert!(stretches.is_empty());
    }
    Ok(())
}

#[tokio::test]
async fn no_act_goes_without_its_seal_nor_before_its_time() -> Result<()> {
    let world = World::start().await?;
    acts(
        &world,
        "elsewhere",
        &["token:ada", "token:ben", "token:cid"],
    )
    .await?;
    world.engine.suspend();
    seal(&world).await?;
    let owner = world.database.connect().await?;
    let stretch = |first: i64, last: i64, digest: &str| {
        format!(
            "INSERT INTO audit_removed
                 (namespace_id, first_position, last_position, digest_before, digest, latest_at)
             SELECT c.namespace_id, {first}, {last}, decode(repeat('00', 32), 'hex'), {digest}, now()
               FROM audit_chain c JOIN namespaces n ON n.id = c.namespace_id
              WHERE n.name = 'elsewhere' AND c.position = least({last}, 3)"
        )
    };
    let refused = async |text: &str| owner.batch_execute(text).await.is_err();

    for attempt in [
        "DELETE FROM audit",
        "DELETE FROM audit_chain",
        "TRUNCATE audit",
        "TRUNCATE audit_chain, audit",
        "UPDATE audit SET actor = actor",
        "DELETE FROM audit_removed",
        "UPDATE audit_removed SET last_position = 99",
        "TRUNCATE audit_removed",
        &stretch(1, 1, "c.digest"),
        &format!(
            "UPDATE clock SET time_offset = '60 days'; {}",
            stretch(1, 1, "c.digest")
        ),
    ] {
        assert!(refused(attempt).await, "of young acts: {attempt}");
    }
    age(&world, 40).await?;
    seal(&world).await?;
    for attempt in [
        stretch(1, 1_000_000, "c.digest"),
        stretch(2, 2, "c.digest"),
        stretch(1, 1, "sha256('x')"),
        stretch(1, 3, "c.digest"),
        "DELETE FROM audit WHERE actor = 'token:ada'".to_owned(),
        "DELETE FROM audit_chain WHERE position = 1".to_owned(),
    ] {
        assert!(refused(&attempt).await, "of old acts: {attempt}");
    }
    owner.batch_execute(&stretch(1, 1, "c.digest")).await?;
    let place = "DELETE FROM audit_chain WHERE position = 1";
    assert!(refused(place).await, "its act is there");
    Ok(())
}
