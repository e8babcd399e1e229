//! Migrations: the schema's history, forward only.
//!
//! Any number of processes may start at once: one migrates, the others wait by polling a lock. Every
//! file's digest is kept, so that a changed file is refused instead of being skipped.
//!
//! A binary's number is that of the last migration it knows. A database may know more: as long as
//! no migration says that older binaries cannot work with it, they keep serving. A file says so,
//! and whatever else is special about it, in comments at its head:
//!
//! ```sql
//! -- min_binary: 12         the least number of a binary that can work with the schema from here on
//! -- outside a transaction  each statement by itself, as CREATE INDEX CONCURRENTLY wants it
//! ```
//!
//! Only a file that takes something away (contracts) names a `min_binary`. Nothing waits for a lock
//! for long, because all other sessions would wait behind it: a file is tried again instead.

use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

use crate::cell::{Cell, ConnectError};

/// A numbered change of the schema.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// The file's name, which begins with its number.
    pub name: &'static str,
    /// What it says.
    pub text: &'static str,
}

impl Migration {
    fn number(&self) -> i32 {
        number_of(self.name)
    }

    /// What its head says; comments up to the first statement.
    fn head(&self) -> impl Iterator<Item = &'static str> {
        let lines = self.text.lines().map(str::trim);
        let lines = lines.take_while(|line| line.is_empty() || line.starts_with("--"));
        lines.map(|line| line.trim_start_matches('-').trim())
    }

    /// The least number of a binary that can work with the schema once this is applied.
    fn min_binary(&self) -> i32 {
        let mut said = self.head().filter_map(|line| {
            let rest = line.strip_prefix("min_binary:")?;
            rest.split_whitespace().next()?.parse().ok()
        });
        said.next().unwrap_or_default()
    }

    fn is_outside_transaction(&self) -> bool {
        self.head()
            .any(|line| line.starts_with("outside a transaction"))
    }
}

/// The number that a file's name begins with.
fn number_of(name: &str) -> i32 {
    let digits = name.split('_').next().unwrap_or_default();
    digits.parse().unwrap_or_default()
}

/// Every migration that this binary knows, in order.
pub const MIGRATIONS: &[Migration] = &[Migration {
    name: "0001_schema",
    text: include_str!("../../../migrations/0001_schema.sql"),
}];

/// The lock that one migrating process holds: the letters SEMEL and a number of ours.
const LOCK: i64 = 0x53_45_4d_45_4c_00_00_01;

const HISTORY: &str = "
    CREATE TABLE IF NOT EXISTS migrations (
        name       text PRIMARY KEY,
        digest     text NOT NULL,
        applied_at timestamptz NOT NULL DEFAULT now()
    );
    COMMENT ON TABLE migrations IS 'Which changes of the schema have been made.';
    COMMENT ON COLUMN migrations.name IS 'The file''s name.';
    COMMENT ON COLUMN migrations.digest IS 'SHA-256 of the file as it was applied.';
    COMMENT ON COLUMN migrations.applied_at IS 'When.';
    ALTER TABLE migrations ADD COLUMN IF NOT EXISTS min_binary integer NOT NULL DEFAULT 0;
    COMMENT ON COLUMN migrations.min_binary IS 'The least number of a binary that can work with the schema from here on; 0 where all can.'";

/// How long a statement of a migration waits for a lock.
const LOCK_TIMEOUT: &str = "SET lock_timeout = '500ms'";

/// How often a migration is tried that meets a lock.
const TRIES_MAX: u32 = 60;

/// The pause between two tries, in which sessions that waited behind it continue.
const TRY_PAUSE: Duration = Duration::from_millis(500);

/// Why the schema could not be migrated.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// The database cannot be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A statement failed; nothing of its file was kept.
    #[error("migration {name} failed")]
    Failed {
        /// The file.
        name: &'static str,
        /// Why.
        #[source]
        error: tokio_postgres::Error,
    },
    /// A file is not what it was when it was applied.
    #[error(
        "migration {name} was changed after it had been applied: restore the file, and put the change into a new one"
    )]
    Changed {
        /// The file.
        name: &'static str,
    },
    /// The database holds a change that this binary cannot work with.
    #[error(
        "the database was migrated by a newer semel: {name} needs a binary of number {needed}, and this one has {ours}"
    )]
    Newer {
        /// The change.
        name: String,
        /// The least number of a binary that can work with it.
        needed: i32,
        /// This binary's.
        ours: i32,
    },
    /// The database has a history that is not this binary's.
    #[error(
        "the database was migrated with {name}, which this semel does not know: create an empty database, and run `semel migrate`"
    )]
    Foreign {
        /// The change.
        name: String,
    },
    /// Another statement failed.
    #[error("cannot read the history of migrations")]
    History(#[from] tokio_postgres::Error),
    /// Partitions could not be made.
    #[error(transparent)]
    Partitions(#[from] crate::ReadError),
}

/// Brings the schema up to date. Gives the names of what was applied now.
pub async fn migrate(cell: &Cell) -> Result<Vec<&'static str>, MigrateError> {
    let applied = apply_all(cell, MIGRATIONS).await?;
    crate::partitions::keep_up(cell).await?;
    Ok(applied)
}

/// Applies those of some migrations that have not been applied, as a binary does that knows these.
pub async fn apply_all(
    cell: &Cell,
    migrations: &[Migration],
) -> Result<Vec<&'static str>, MigrateError> {
    let wire = cell.connector().open().await?;
    let client = &wire.client;
    client.batch_execute(LOCK_TIMEOUT).await?;
    // Polled, not waited for: a session that waits for a lock would hold back CREATE INDEX
    // CONCURRENTLY in the session that has it.
    while !client
        .query_one("SELECT pg_try_advisory_lock($1)", &[&LOCK])
        .await?
        .get::<_, bool>(0)
    {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let applied = apply_missing(client, migrations).await;
    client
        .execute("SELECT pg_advisory_unlock($1)", &[&LOCK])
        .await?;
    applied
}

/// What has not been applied yet.
pub async fn list_pending(cell: &Cell) -> Result<Vec<&'static str>, MigrateError> {
    list_missing(cell, MIGRATIONS).await
}

/// Which of some migrations have not been applied, for a binary that knows these.
///
/// # Errors
///
/// Where the database holds a change that such a binary cannot work with.
pub async fn list_missing(
    cell: &Cell,
    migrations: &[Migration],
) -> Result<Vec<&'static str>, MigrateError> {
    let wire = cell.connector().open().await?;
    let there = wire
        .client
        .query_one("SELECT to_regclass('migrations') IS NOT NULL", &[])
        .await?;
    if !there.get::<_, bool>(0) {
        return Ok(migrations.iter().map(|migration| migration.name).collect());
    }
    let known = history(&wire.client).await?;
    refuse_newer(&known, migrations)?;
    Ok(migrations
        .iter()
        .filter(|migration| !known.iter().any(|applied| applied.name == migration.name))
        .map(|migration| migration.name)
        .collect())
}

/// Refuses a schema that says of itself that a binary which knows these cannot work with it.
fn refuse_newer(known: &[Applied], migrations: &[Migration]) -> Result<(), MigrateError> {
    let ours = migrations.iter().map(Migration::number).max();
    let ours = ours.unwrap_or_default();
    match known.iter().find(|applied| applied.min_binary > ours) {
        None => Ok(()),
        Some(applied) => Err(MigrateError::Newer {
            name: applied.name.clone(),
            needed: applied.min_binary,
            ours,
        }),
    }
}

/// Refuses a schema whose history leads elsewhere: a change that this binary should know by its
/// number, and does not.
fn refuse_foreign(known: &[Applied], migrations: &[Migration]) -> Result<(), MigrateError> {
    let ours = migrations.iter().map(Migration::number).max();
    let is_foreign = |applied: &&Applied| {
        number_of(&applied.name) <= ours.unwrap_or_default()
            && migrations.iter().all(|known| known.name != applied.name)
    };
    match known.iter().find(is_foreign) {
        None => Ok(()),
        Some(applied) => Err(MigrateError::Foreign {
            name: applied.name.clone(),
        }),
    }
}

async fn apply_missing(
    client: &tokio_postgres::Client,
    migrations: &[Migration],
) -> Result<Vec<&'static str>, MigrateError> {
    client.batch_execute(HISTORY).await?;
    let known = history(client).await?;
    refuse_newer(&known, migrations)?;
    refuse_foreign(&known, migrations)?;
    let mut applied = Vec::new();
    for migration in migrations {
        let digest = hex::encode(Sha256::digest(migration.text));
        match known.iter().find(|known| known.name == migration.name) {
            Some(then) if then.digest == digest => {}
            Some(_) => {
                return Err(MigrateError::Changed {
                    name: migration.name,
                });
            }
            None => {
                apply_patiently(client, migration, &digest)
                    .await
                    .map_err(|error| MigrateError::Failed {
                        name: migration.name,
                        error,
                    })?;
                applied.push(migration.name);
            }
        }
    }
    Ok(applied)
}

/// Applies a file, and tries again where it meets a lock.
async fn apply_patiently(
    client: &tokio_postgres::Client,
    migration: &Migration,
    digest: &str,
) -> Result<(), tokio_postgres::Error> {
    for _ in 1..TRIES_MAX {
        match apply(client, migration, digest).await {
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                tracing::info!(migration = migration.name, "the tables are in use; waiting");
                tokio::time::sleep(TRY_PAUSE).await;
            }
            applied => return applied,
        }
    }
    apply(client, migration, digest).await
}

/// A change that was made.
struct Applied {
    name: String,
    digest: String,
    min_binary: i32,
}

/// A binary of before `min_binary` made the table without that column.
const HAS_MIN_BINARY: &str = "
    SELECT EXISTS (SELECT 1 FROM pg_attribute
                    WHERE attrelid = 'migrations'::regclass AND attname = 'min_binary')";

async fn history(client: &tokio_postgres::Client) -> Result<Vec<Applied>, tokio_postgres::Error> {
    let has_min = client.query_one(HAS_MIN_BINARY, &[]).await?;
    let text = match has_min.get(0) {
        true => "SELECT name, digest, min_binary FROM migrations ORDER BY name",
        false => "SELECT name, digest, 0::int4 FROM migrations ORDER BY name",
    };
    let rows = client.query(text, &[]).await?;
    let read = |row: &tokio_postgres::Row| Applied {
        name: row.get(0),
        digest: row.get(1),
        min_binary: row.get(2),
    };
    Ok(rows.iter().map(read).collect())
}

/// The statements of a file that runs outside a transaction: each ends with a semicolon at the end
/// of a line.
fn statements(text: &str) -> impl Iterator<Item = &str> {
    let ends = |statement: &&str| {
        let mut lines = statement.lines().map(str::trim);
        lines.any(|line| !line.is_empty() && !line.starts_with("--"))
    };
    text.split(";\n").filter(ends)
}

async fn apply(
    client: &tokio_postgres::Client,
    migration: &Migration,
    digest: &str,
) -> Result<(), tokio_postgres::Error> {
    if migration.is_outside_transaction() {
        for statement in statements(migration.text) {
            client.batch_execute(statement).await?;
        }
        return note(client, migration, digest).await;
    }
    let text = format!(
        "BEGIN; {}; ",
        migration.text.trim_end().trim_end_matches(';')
    );
    let done = async {
        client.batch_execute(&text).await?;
        note(client, migration, digest).await?;
        client.batch_execute("COMMIT").await
    }
    .await;
    if done.is_err() {
        let _ = client.batch_execute("ROLLBACK").await;
    }
    done
}

/// Records that a file was applied.
async fn note(
    client: &tokio_postgres::Client,
    migration: &Migration,
    digest: &str,
) -> Result<(), tokio_postgres::Error> {
    let insert = "INSERT INTO migrations (name, digest, min_binary) VALUES ($1, $2, $3)";
    let values: [&(dyn ToSql + Sync); 3] = [&migration.name, &digest, &migration.min_binary()];
    client.execute(insert, &values).await?;
    Ok(())
}
