//! Migrations: an older binary keeps serving through those that add, and is refused by those that
//! take away.

use anyhow::{Context, Result};
use semel_store::migrate::{MIGRATIONS, MigrateError, Migration, apply_all, list_missing};
use semel_testkit::patience;
use tokio::time::timeout;

use crate::world::World;

const EXPANDING: Migration = Migration {
    name: "9001_expanding",
    text: "-- A column more, which older binaries do not look at.\nALTER TABLE kv ADD COLUMN more text;\n",
};

const CONTRACTING: Migration = Migration {
    name: "9002_contracting",
    text: "-- min_binary: 9001\n-- Takes away what binaries before 9001 read.\nALTER TABLE kv DROP COLUMN more;\n",
};

const CONCURRENT: Migration = Migration {
    name: "9003_concurrent",
    text: "-- outside a transaction\n-- An index on a large table; writers continue.\n\
           DROP INDEX CONCURRENTLY IF EXISTS kv_by_slot;\n\
           CREATE INDEX CONCURRENTLY kv_by_slot ON kv (slot);\n",
};

fn with(more: &[Migration]) -> Vec<Migration> {
    MIGRATIONS.iter().chain(more).copied().collect()
}

#[tokio::test]
async fn an_older_binary_keeps_working_after_an_expanding_migration() -> Result<()> {
    let world = World::start().await?;
    let newer = with(&[EXPANDING]);

    let applied = apply_all(&world.cell, &newer).await?;
    let older = list_missing(&world.cell, MIGRATIONS).await?;
    let again = apply_all(&world.cell, MIGRATIONS).await?;

    assert_eq!(applied, ["9001_expanding"]);
    assert!(older.is_empty(), "it lacks nothing: {older:?}");
    assert!(again.is_empty(), "and has nothing to do: {again:?}");
    Ok(())
}

#[tokio::test]
async fn an_older_binary_is_refused_after_a_contracting_migration() -> Result<()> {
    let world = World::start().await?;
    let newest = with(&[EXPANDING, CONTRACTING]);
    apply_all(&world.cell, &newest).await?;

    let one_before = list_missing(&world.cell, &with(&[EXPANDING])).await;
    let older = list_missing(&world.cell, MIGRATIONS).await;
    let older_migrating = apply_all(&world.cell, MIGRATIONS).await;

    assert!(one_before.is_ok(), "{one_before:?}");
    for refused in [older, older_migrating] {
        let Err(MigrateError::Newer { name, needed, .. }) = refused else {
            anyhow::bail!("not refused: {refused:?}");
        };
        assert_eq!((name.as_str(), needed), ("9002_contracting", 9001));
    }
    Ok(())
}

#[tokio::test]
async fn a_database_with_another_history_is_refused_before_it_is_touched() -> Result<()> {
    let world = World::start().await?;
    let client = world.connect().await?;
    let rename = "UPDATE migrations SET name = '0001_foundation' WHERE name = '0001_schema'";
    client.batch_execute(rename).await?;

    let refused = apply_all(&world.cell, MIGRATIONS).await;

    let Err(MigrateError::Foreign { name }) = refused else {
        anyhow::bail!("not refused: {refused:?}");
    };
    assert_eq!(name, "0001_foundation");
    Ok(())
}

#[tokio::test]
async fn a_binary_lacks_what_it_needs_until_it_is_migrated() -> Result<()> {
    let world = World::start().await?;

    let lacking = list_missing(&world.cell, &with(&[EXPANDING])).await?;

    assert_eq!(lacking, ["9001_expanding"]);
    Ok(())
}

#[tokio::test]
async fn a_migration_may_run_outside_a_transaction() -> Result<()> {
    let world = World::start().await?;

    let applied = apply_all(&world.cell, &with(&[CONCURRENT])).await?;

    assert_eq!(applied, ["9003_concurrent"]);
    let client = world.connect().await?;
    let valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'kv_by_slot'::regclass";
    assert!(client.query_one(valid, &[]).await?.get::<_, bool>(0));
    Ok(())
}

#[tokio::test]
async fn a_migration_that_meets_a_lock_waits_without_holding_others_up() -> Result<()> {
    let world = World::start().await?;
    let (dump, writer) = (world.connect().await?, world.connect().await?);
    dump.batch_execute("BEGIN; LOCK TABLE kv IN ACCESS SHARE MODE")
        .await?;
    let cell = world.cell.clone();
    let migrating = tokio::spawn(async move { apply_all(&cell, &with(&[EXPANDING])).await });
    world.until_waiting_for_a_lock().await?;

    // While the dump goes on, only the migration can give way.
    let written = timeout(patience(), writer.batch_execute("DELETE FROM kv")).await;
    dump.batch_execute("COMMIT").await?;
    let applied = migrating.await??;

    written.context("a writer waits behind the migration")??;
    assert_eq!(applied, ["9001_expanding"]);
    Ok(())
}
