//! Takes the indexes off tables before they are filled, and makes them again by their own definitions.

use anyhow::Result;
use tokio_postgres::Client;

/// Primary keys and unique constraints first: their indexes go with them.
const DEFINITIONS: &str = "
    SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', t.name, c.conname),
           format('ALTER TABLE %s ADD CONSTRAINT %I %s', t.name, c.conname, pg_get_constraintdef(c.oid)),
           c.conname::text
      FROM unnest($1::text[]) AS t (name)
      JOIN pg_constraint c ON c.conrelid = t.name::regclass AND c.contype IN ('p', 'u')
     UNION ALL
    SELECT format('DROP INDEX %s', i.indexrelid::regclass),
           replace(pg_get_indexdef(i.indexrelid), ' ON ONLY ', ' ON '), i.indexrelid::regclass::text
      FROM unnest($1::text[]) AS t (name)
      JOIN pg_index i ON i.indrelid = t.name::regclass
     WHERE NOT EXISTS (SELECT 1 FROM pg_constraint c WHERE c.conindid = i.indexrelid)";

/// Memory and workers for sorting, and nothing that waits for the disk until the end.
const SESSION: &str = "
    SET maintenance_work_mem = '1GB'; SET max_parallel_maintenance_workers = 2;
    SET synchronous_commit = off";

/// One index or constraint, as it was.
pub(crate) struct Definition {
    name: String,
    made_by: String,
}

/// Drops the indexes of some tables.
pub(crate) async fn take_off(client: &Client, tables: &[&str]) -> Result<Vec<Definition>> {
    let mut definitions = Vec::new();
    for row in client.query(DEFINITIONS, &[&tables]).await? {
        client.batch_execute(row.get(0)).await?;
        definitions.push(Definition {
            name: row.get(2),
            made_by: row.get(1),
        });
    }
    Ok(definitions)
}

/// Makes them again.
pub(crate) async fn put_back(client: &Client, definitions: &[Definition]) -> Result<()> {
    client.batch_execute(SESSION).await?;
    for definition in definitions {
        eprintln!("making {}", definition.name);
        client.batch_execute(&definition.made_by).await?;
    }
    client.batch_execute("RESET ALL").await?;
    Ok(())
}
