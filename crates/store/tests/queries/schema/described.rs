//! The schema as the database describes it: `docs/schema.sql`, one file to read.
//!
//! Read from the catalogue and not from `pg_dump`, whose output differs between versions.

use std::fmt::Write as _;

use anyhow::Result;
use tokio_postgres::Client;

const HEAD: &str = "\
-- The schema of Semel, as PostgreSQL describes it once every migration is applied.
--
-- Generated and compared by a test: after a change in migrations/, run
--
--     SEMEL_BLESS=1 cargo nextest run -p semel-store -E 'test(schema::)'
--
-- Monthly partitions of journal and effects are left out.
";

const TYPES: &str = "
    SELECT t.typname, string_agg(quote_literal(e.enumlabel), ', ' ORDER BY e.enumsortorder)
      FROM pg_type t
      JOIN pg_enum e ON e.enumtypid = t.oid
     WHERE t.typnamespace = 'public'::regnamespace
     GROUP BY t.typname, t.oid
     ORDER BY t.oid";

const FUNCTIONS: &str = "
    SELECT pg_get_functiondef(p.oid), obj_description(p.oid, 'pg_proc')
      FROM pg_proc p
     WHERE p.pronamespace = 'public'::regnamespace
     ORDER BY p.oid";

const TABLES: &str = "
    SELECT c.oid::int8, c.relname, obj_description(c.oid, 'pg_class'),
           coalesce(' PARTITION BY ' || pg_get_partkeydef(c.oid), ''),
           coalesce(' WITH (' || array_to_string(c.reloptions, ', ') || ')', '')
      FROM pg_class c
     WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
       AND NOT c.relispartition AND c.relname <> 'migrations'
     ORDER BY c.oid";

const COLUMNS: &str = "
    SELECT a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
           || CASE WHEN a.attcollation = 'pg_catalog.\"C\"'::regcollation THEN ' COLLATE \"C\"' ELSE '' END
           || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
           || CASE WHEN a.attidentity = 'a' THEN ' GENERATED ALWAYS AS IDENTITY' ELSE '' END
           || coalesce(' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), ''),
           col_description(a.attrelid, a.attnum)
      FROM pg_attribute a
      LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
     WHERE a.attrelid = $1::int8::oid AND a.attnum > 0 AND NOT a.attisdropped
     ORDER BY a.attnum";

/// Without the constraints that only newer versions list for columns that are not null.
const CONSTRAINTS: &str = "
    SELECT 'CONSTRAINT ' || conname || ' ' || pg_get_constraintdef(oid)
      FROM pg_constraint
     WHERE conrelid = $1::int8::oid AND contype IN ('p', 'u', 'f', 'c')
     ORDER BY array_position('{p,u,f,c}'::text[], contype::text), conname";

const INDEXES: &str = "
    SELECT pg_get_indexdef(x.indexrelid)
      FROM pg_index x
     WHERE x.indrelid = $1::int8::oid
       AND NOT EXISTS (SELECT 1 FROM pg_constraint c WHERE c.conindid = x.indexrelid)
     ORDER BY x.indexrelid::regclass::text";

const TRIGGERS: &str = "
    SELECT pg_get_triggerdef(oid) FROM pg_trigger
     WHERE tgrelid = $1::int8::oid AND NOT tgisinternal
     ORDER BY tgname";

/// The whole schema, as text.
pub(super) async fn describe(client: &Client) -> Result<String> {
    let mut text = HEAD.to_owned();
    for row in client.query(TYPES, &[]).await? {
        let (name, words): (String, String) = (row.get(0), row.get(1));
        write!(text, "\nCREATE TYPE {name} AS ENUM ({words});")?;
    }
    text.push('\n');
    for row in client.query(FUNCTIONS, &[]).await? {
        let (body, about): (String, String) = (row.get(0), row.get(1));
        write!(text, "\n-- {about}\n{};\n", body.trim_end())?;
    }
    for row in client.query(TABLES, &[]).await? {
        describe_table(client, &mut text, &row).await?;
    }
    Ok(text.replace("public.", ""))
}

async fn describe_table(
    client: &Client,
    text: &mut String,
    table: &tokio_postgres::Row,
) -> Result<()> {
    let (oid, name, about): (i64, String, String) = (table.get(0), table.get(1), table.get(2));
    write!(text, "\n-- {about}\nCREATE TABLE {name} (\n")?;
    for column in client.query(COLUMNS, &[&oid]).await? {
        let (column, about): (String, String) = (column.get(0), column.get(1));
        write!(text, "    -- {about}\n    {column},\n")?;
    }
    let constraints = client.query(CONSTRAINTS, &[&oid]).await?;
    let constraints: Vec<String> = constraints.iter().map(|row| row.get(0)).collect();
    write!(text, "\n    {}\n", constraints.join(",\n    "))?;
    let (partitions, options): (String, String) = (table.get(3), table.get(4));
    writeln!(text, "){partitions}{options};")?;
    for statement in [INDEXES, TRIGGERS] {
        for row in client.query(statement, &[&oid]).await? {
            writeln!(text, "{};", row.get::<_, String>(0))?;
        }
    }
    Ok(())
}
