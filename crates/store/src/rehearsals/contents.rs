//! What a rehearsal's schema is filled with: one namespace per case, each with the same flows and
//! connections.

use crate::cell::{HomeCell, ReadError};

/// One statement for all namespaces, so that hundreds of cases cost one commit. Releases are live at
/// once.
const SET_UP: &str = "
    WITH made AS (
        INSERT INTO namespaces (name) SELECT unnest($1::text[]) RETURNING id, name),
    staged AS (
        SELECT * FROM unnest($2::text[], $3::text[], $4::text[]) AS s (name, digest, source)),
    written AS (
        INSERT INTO flows (namespace_id, name, live_release, live_at)
        SELECT made.id, staged.name, 1, moment() FROM made, staged
        RETURNING id, name),
    frozen AS (
        INSERT INTO releases (flow_id, number, digest, source)
        SELECT written.id, 1, staged.digest, staged.source
          FROM written JOIN staged USING (name)),
    connected AS (
        INSERT INTO connections (namespace_id, name, connection)
        SELECT made.id, c.name, c.connection::json
          FROM made, unnest($5::text[], $6::text[]) AS c (name, connection)),
    counted AS (UPDATE config_version SET version = version + 1)
    SELECT id, name FROM made";

pub(crate) const STATEMENTS: &[&str] = &[SET_UP];

/// A flow of a rehearsal.
#[derive(Clone, Debug)]
pub struct StagedFlow {
    /// Its name.
    pub name: String,
    /// The digest of its canonical form.
    pub digest: String,
    /// Its text.
    pub source: String,
}

/// A connection of a rehearsal.
#[derive(Clone, Debug)]
pub struct StagedConnection {
    /// What flows call it.
    pub name: String,
    /// What its owner says of it, as JSON text.
    pub connection: String,
}

/// A namespace of a rehearsal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedNamespace {
    /// The namespace, short.
    pub id: i32,
    /// Its name.
    pub name: String,
}

/// Makes namespaces that all have the same flows, live, and the same connections.
///
/// # Errors
///
/// Where the database does not answer.
pub async fn set_up(
    cell: HomeCell<'_>,
    names: &[String],
    flows: &[StagedFlow],
    connections: &[StagedConnection],
) -> Result<Vec<StagedNamespace>, ReadError> {
    let flow = |part: fn(&StagedFlow) -> &str| flows.iter().map(part).collect::<Vec<_>>();
    let connection =
        |part: fn(&StagedConnection) -> &str| connections.iter().map(part).collect::<Vec<_>>();
    let rows = cell
        .reader()
        .await?
        .query(
            SET_UP,
            &[
                &names,
                &flow(|flow| &flow.name),
                &flow(|flow| &flow.digest),
                &flow(|flow| &flow.source),
                &connection(|one| &one.name),
                &connection(|one| &one.connection),
            ],
        )
        .await?;
    let read = |row: &tokio_postgres::Row| StagedNamespace {
        id: row.get(0),
        name: row.get(1),
    };
    Ok(rows.iter().map(read).collect())
}
