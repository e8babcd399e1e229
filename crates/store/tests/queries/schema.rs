//! The schema: every statement fits it, and every table and column says what it is for.

use std::path::Path;

use anyhow::{Context, Result};

use crate::world::World;

mod described;

#[tokio::test]
async fn the_page_of_the_schema_is_what_migrations_make() -> Result<()> {
    let world = World::start().await?;
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema.sql");

    let now = described::describe(&world.connect().await?).await?;
    if std::env::var_os("SEMEL_BLESS").is_some() {
        std::fs::write(&page, &now)?;
    }

    let kept = std::fs::read_to_string(&page).context("docs/schema.sql")?;
    assert!(
        kept == now,
        "docs/schema.sql is not what the migrations make: run this test with SEMEL_BLESS=1"
    );
    Ok(())
}

#[tokio::test]
async fn every_statement_can_be_prepared() -> Result<()> {
    let world = World::start().await?;
    let client = world.cell.reader().await?;

    let mut refused = Vec::new();
    for (module, text) in semel_store::statements() {
        if let Err(error) = client.prepare(text).await {
            refused.push(format!("{module}: {error:?}\n{text}"));
        }
    }

    assert!(refused.is_empty(), "{}", refused.join("\n\n"));
    Ok(())
}

#[tokio::test]
async fn every_table_and_column_has_a_comment() -> Result<()> {
    let world = World::start().await?;
    let client = world.cell.reader().await?;

    let rows = client
        .query(
            "SELECT c.relname || coalesce('.' || a.attname, '')
               FROM pg_class c
               LEFT JOIN pg_attribute a
                 ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                AND NOT c.relispartition
              WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
                AND (col_description(c.oid, a.attnum) IS NULL AND a.attnum IS NOT NULL
                     OR obj_description(c.oid, 'pg_class') IS NULL)",
            &[],
        )
        .await?;

    let bare: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert!(bare.is_empty(), "without a comment: {}", bare.join(", "));
    Ok(())
}

#[tokio::test]
async fn migrating_twice_changes_nothing() -> Result<()> {
    let world = World::start().await?;

    let again = semel_store::migrate(&world.cell).await?;

    assert!(again.is_empty());
    Ok(())
}
