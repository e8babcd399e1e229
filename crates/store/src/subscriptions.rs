//! The `subscriptions` table: webhooks that receive events.

use jiff::Timestamp;
use tokio_postgres::types::ToSql;

use crate::audit::{self, AuditEntry};
use crate::cell::{HomeCell, ReadError};
use crate::webhook_deliveries;

const PUT: &str = "
    INSERT INTO subscriptions (namespace_id, name, event, connection) VALUES ($1, $2, $3, $4)
        ON CONFLICT (namespace_id, name) DO UPDATE
       SET event = EXCLUDED.event, connection = EXCLUDED.connection";

const MAKE: &str = "
    INSERT INTO subscriptions (namespace_id, name, event, connection) VALUES ($1, $2, $3, $4)
        ON CONFLICT (namespace_id, name) DO NOTHING";

const DELETE: &str = "DELETE FROM subscriptions WHERE namespace_id = $1 AND name = $2";

const FIND_OVER: &str = "
    SELECT name FROM subscriptions
     WHERE namespace_id = $1 AND connection = $2
     ORDER BY name LIMIT 1";

const LIST: &str = "
    SELECT s.name, s.event, s.connection, s.created_at,
           (SELECT count(*) FROM webhook_deliveries o
             WHERE o.namespace_id = s.namespace_id AND o.subscription = s.name AND o.state = 'due')
      FROM subscriptions s
     WHERE s.namespace_id = $1 AND ($2::text IS NULL OR s.name = $2)
     ORDER BY s.name";

pub(crate) const STATEMENTS: &[&str] = &[PUT, MAKE, DELETE, FIND_OVER, LIST];

/// A webhook that receives events.
#[derive(Clone, Debug)]
pub struct Subscription {
    /// What its owner calls it.
    pub name: String,
    /// The event; a trailing `.*` takes all that begin so.
    pub event: String,
    /// The webhook connection that deliveries go to.
    pub connection: String,
    /// When it was created. Earlier events are not delivered.
    pub created_at: Timestamp,
    /// How many deliveries are due.
    pub due: i64,
}

/// Keeps a subscription, in place of an earlier one of that name. Here and below, the act is
/// recorded in the same commit.
pub async fn put(
    cell: HomeCell<'_>,
    namespace_id: i32,
    name: &str,
    event: &str,
    connection: &str,
    act: &AuditEntry,
) -> Result<(), ReadError> {
    let values: [&(dyn ToSql + Sync); 4] = [&namespace_id, &name, &event, &connection];
    audit::execute(cell, PUT, &values, act).await?;
    Ok(())
}

/// Keeps a subscription, unless there is one of that name.
pub async fn make(
    cell: HomeCell<'_>,
    namespace_id: i32,
    name: &str,
    event: &str,
    connection: &str,
    act: &AuditEntry,
) -> Result<bool, ReadError> {
    let values: [&(dyn ToSql + Sync); 4] = [&namespace_id, &name, &event, &connection];
    Ok(audit::execute(cell, MAKE, &values, act).await? > 0)
}

// Crosses slots (V3): control data and deliveries of all slots change in one commit, and lists count
// deliveries of all slots. With a second cell, each cell applies the removal to its own deliveries.

/// Removes a subscription and drops what is due to it; says how much that is. Nothing if
/// there is none of that name.
pub async fn delete(
    cell: HomeCell<'_>,
    namespace_id: i32,
    name: &str,
    act: &AuditEntry,
) -> Result<Option<u64>, ReadError> {
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    if tx.execute(DELETE, &[&namespace_id, &name]).await? == 0 {
        return Ok(None);
    }
    // After the subscription, in a statement of its own: what was being made due meanwhile is
    // committed by now, and seen.
    let failed = tx
        .execute(
            webhook_deliveries::FAIL_OF_SUBSCRIPTION,
            &[&namespace_id, &name],
        )
        .await?;
    audit::append(&tx, act).await?;
    tx.commit().await?;
    Ok(Some(failed))
}

/// A subscription that goes over a connection.
pub async fn find_over(
    cell: HomeCell<'_>,
    namespace_id: i32,
    connection: &str,
) -> Result<Option<String>, ReadError> {
    let client = cell.reader().await?;
    let row = client
        .query_opt(FIND_OVER, &[&namespace_id, &connection])
        .await?;
    Ok(row.map(|row| row.get(0)))
}

/// The subscriptions of a namespace, sorted by name.
pub async fn list(cell: HomeCell<'_>, namespace_id: i32) -> Result<Vec<Subscription>, ReadError> {
    read(cell, namespace_id, None).await
}

/// The subscription of that name.
pub async fn find(
    cell: HomeCell<'_>,
    namespace_id: i32,
    name: &str,
) -> Result<Option<Subscription>, ReadError> {
    Ok(read(cell, namespace_id, Some(name)).await?.pop())
}

async fn read(
    cell: HomeCell<'_>,
    namespace_id: i32,
    name: Option<&str>,
) -> Result<Vec<Subscription>, ReadError> {
    let client = cell.reader().await?;
    let rows = client.query(LIST, &[&namespace_id, &name]).await?;
    Ok(rows
        .iter()
        .map(|row| Subscription {
            name: row.get(0),
            event: row.get(1),
            connection: row.get(2),
            created_at: row.get(3),
            due: row.get(4),
        })
        .collect())
}
