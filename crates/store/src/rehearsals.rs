//! Rehearsals: each has a schema of its own in the same database, with the same tables.
//!
//! The name of a schema says when it was made, by the database's clock, so that what a crashed
//! server left can be told from what is in use. Of the schema that serves only `rehearsals` is
//! written, which says how far each is.

mod contents;
mod observe;
mod records;

pub(crate) use contents::STATEMENTS as CONTENTS;
pub use contents::{StagedConnection, StagedFlow, StagedNamespace, set_up};
pub(crate) use observe::STATEMENTS as OBSERVATIONS;
pub use observe::{
    OpenWait, OpenWaitKind, Pulse, StagedEffect, StagedRun, jump, list_effects, list_journals,
    list_open, list_runs, take_pulse,
};

pub(crate) use records::STATEMENTS as RECORDS;
pub use records::{
    RehearsalEnd, RehearsalRow, RehearsalTries, RehearsalView, Rehearsed, advance, ask,
    count_tried, find, finish, list_latest, list_of_flow, list_of_release,
};

use crate::cell::{Cell, ReadError};
use crate::partitions;

pub use crate::cell::RehearsalSchema;

/// How old a schema is, in seconds, before it counts as left by a crash: more than a rehearsal may take.
const ABANDONED_SECS: i64 = 3_600;

const NOW: &str = "SELECT extract(epoch FROM moment())::bigint";

const LIST: &str = "
    SELECT nspname::text FROM pg_namespace
     WHERE starts_with(nspname::text, 'semel_rehearsal_')";

/// Noon of a Thursday in the middle of a month: no rehearsal is at the end of a day, a month or a year because it
/// was asked for then.
const START_CLOCK: &str = "
    UPDATE clock
       SET time_offset = make_interval(
               secs => extract(epoch FROM timestamptz '2026-01-15T12:00:00Z' - clock_timestamp())::float8)";

pub(crate) const STATEMENTS: &[&str] = &[NOW, LIST, START_CLOCK];

/// Makes an empty schema, and drops those that crashed servers left.
///
/// # Errors
///
/// Where the database does not answer, or its role may not create schemas.
pub async fn create_schema(cell: &Cell) -> Result<RehearsalSchema, ReadError> {
    drop_abandoned(cell).await?;
    let client = cell.reader().await?;
    let now: i64 = client.query_one(NOW, &[]).await?.get(0);
    let schema = RehearsalSchema::new(now);
    client
        .batch_execute(&format!("CREATE SCHEMA {}", schema.as_str()))
        .await?;
    Ok(schema)
}

/// Starts the clock of a rehearsal's tables at the instant at which every rehearsal starts.
///
/// # Errors
///
/// Where the database does not answer.
pub async fn start_clock(cell: &Cell) -> Result<(), ReadError> {
    cell.reader().await?.execute(START_CLOCK, &[]).await?;
    // Those that the migrations made are of the month in which it was asked for.
    partitions::keep_up(cell).await?;
    Ok(())
}

/// Drops the schemas that crashed servers left.
///
/// # Errors
///
/// Where the database does not answer: they are dropped later then.
pub async fn drop_abandoned(cell: &Cell) -> Result<(), ReadError> {
    let client = cell.reader().await?;
    let now: i64 = client.query_one(NOW, &[]).await?.get(0);
    for row in client.query(LIST, &[]).await? {
        let name: String = row.get(0);
        if let Some((schema, made_at)) = RehearsalSchema::read(name)
            && made_at < now - ABANDONED_SECS
        {
            drop_schema(cell, &schema).await?;
        }
    }
    Ok(())
}

/// Drops a schema and everything in it. May be repeated.
///
/// # Errors
///
/// Where the database does not answer: the schema is dropped by a later rehearsal then.
pub async fn drop_schema(cell: &Cell, schema: &RehearsalSchema) -> Result<(), ReadError> {
    let text = format!("DROP SCHEMA IF EXISTS {} CASCADE", schema.as_str());
    cell.reader().await?.batch_execute(&text).await?;
    Ok(())
}
