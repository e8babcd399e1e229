//! Migrations: the schema's history, forward only.
//!
//! Any number of processes may start at once: one migrates, the others wait by polling a lock. Every
//! file's digest is kept, so that a changed file is refused instead of being skipped.

use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::cell::{Cell, ConnectError};

/// A numbered change of the schema.
struct Migration {
    name: &'static str,
    text: &'static str,
}

const MIGRATIONS: &[Migration] = &[
    Migration {
        name: "0001_foundation",
        text: include_str!("../../../migrations/0001_foundation.sql"),
    },
    Migration {
        name: "0002_ledger_comment",
        text: include_str!("../../../migrations/0002_ledger_comment.sql"),
    },
    Migration {
        name: "0003_destinations",
        text: include_str!("../../../migrations/0003_destinations.sql"),
    },
    Migration {
        name: "0004_deliveries",
        text: include_str!("../../../migrations/0004_deliveries.sql"),
    },
    Migration {
        name: "0005_control",
        text: include_str!("../../../migrations/0005_control.sql"),
    },
    Migration {
        name: "0006_people",
        text: include_str!("../../../migrations/0006_people.sql"),
    },
    Migration {
        name: "0007_schedules",
        text: include_str!("../../../migrations/0007_schedules.sql"),
    },
    Migration {
        name: "0008_gates",
        text: include_str!("../../../migrations/0008_gates.sql"),
    },
    Migration {
        name: "0009_claims_stay",
        text: include_str!("../../../migrations/0009_claims_stay.sql"),
    },
    Migration {
        name: "0011_answers_of_runs",
        text: include_str!("../../../migrations/0011_answers_of_runs.sql"),
    },
    Migration {
        name: "0013_broadcasts",
        text: include_str!("../../../migrations/0013_broadcasts.sql"),
    },
];

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
    COMMENT ON COLUMN migrations.applied_at IS 'When.'";

/// Why the schema could not be brought up to date.
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
    /// The database holds changes that this binary does not know.
    #[error("the database was migrated by a newer semel (it knows {name}): use that one")]
    Newer {
        /// The first unknown change.
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
    let wire = cell.dialer().open().await?;
    let client = &wire.client;
    // Polled, not waited for: a session that waits for a lock would hold back CREATE INDEX
    // CONCURRENTLY in the session that has it.
    while !client
        .query_one("SELECT pg_try_advisory_lock($1)", &[&LOCK])
        .await?
        .get::<_, bool>(0)
    {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let applied = apply_all(client).await;
    client
        .execute("SELECT pg_advisory_unlock($1)", &[&LOCK])
        .await?;
    let applied = applied?;
    crate::partitions::keep_up(cell).await?;
    Ok(applied)
}

/// What has not been applied yet.
pub async fn list_pending(cell: &Cell) -> Result<Vec<&'static str>, MigrateError> {
    let wire = cell.dialer().open().await?;
    let there = wire
        .client
        .query_one("SELECT to_regclass('migrations') IS NOT NULL", &[])
        .await?;
    if !there.get::<_, bool>(0) {
        return Ok(MIGRATIONS.iter().map(|migration| migration.name).collect());
    }
    let known = history(&wire.client).await?;
    Ok(MIGRATIONS
        .iter()
        .filter(|migration| !known.iter().any(|(name, _)| name == migration.name))
        .map(|migration| migration.name)
        .collect())
}

async fn apply_all(client: &tokio_postgres::Client) -> Result<Vec<&'static str>, MigrateError> {
    client.batch_execute(HISTORY).await?;
    let known = history(client).await?;
    if let Some((name, _)) = known
        .iter()
        .find(|(name, _)| !MIGRATIONS.iter().any(|ours| ours.name == name))
    {
        return Err(MigrateError::Newer { name: name.clone() });
    }
    let mut applied = Vec::new();
    for migration in MIGRATIONS {
        let digest = hex::encode(Sha256::digest(migration.text));
        match known.iter().find(|(name, _)| name == migration.name) {
            Some((_, then)) if *then == digest => {}
            Some(_) => {
                return Err(MigrateError::Changed {
                    name: migration.name,
                });
            }
            None => {
                apply(client, migration, &digest)
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

async fn history(
    client: &tokio_postgres::Client,
) -> Result<Vec<(String, String)>, tokio_postgres::Error> {
    let rows = client
        .query("SELECT name, digest FROM migrations ORDER BY name", &[])
        .await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

async fn apply(
    client: &tokio_postgres::Client,
    migration: &Migration,
    digest: &str,
) -> Result<(), tokio_postgres::Error> {
    let text = format!(
        "BEGIN; {}; ",
        migration.text.trim_end().trim_end_matches(';')
    );
    let done = async {
        client.batch_execute(&text).await?;
        client
            .execute(
                "INSERT INTO migrations (name, digest) VALUES ($1, $2)",
                &[&migration.name, &digest],
            )
            .await?;
        client.batch_execute("COMMIT").await
    }
    .await;
    if done.is_err() {
        let _ = client.batch_execute("ROLLBACK").await;
    }
    done
}
