//! The `subscriptions` table: who outside is told of events.

use jiff::Timestamp;

use crate::cell::{Cell, ReadError};

const PUT: &str = "
    INSERT INTO subscriptions (namespace_id, name, event, connection) VALUES ($1, $2, $3, $4)
        ON CONFLICT (namespace_id, name) DO UPDATE
       SET event = EXCLUDED.event, connection = EXCLUDED.connection";

const DELETE: &str = "DELETE FROM subscriptions WHERE namespace_id = $1 AND name = $2";

const LIST: &str = "
    SELECT s.name, s.event, s.connection, s.created_at,
           (SELECT count(*) FROM outgoing o
             WHERE o.namespace_id = s.namespace_id AND o.subscription = s.name AND o.state = 'due')
      FROM subscriptions s
     WHERE s.namespace_id = $1
     ORDER BY s.name";

pub(crate) const STATEMENTS: &[&str] = &[PUT, DELETE, LIST];

/// Somebody outside who is told of events.
#[derive(Clone, Debug)]
pub struct Subscription {
    /// What its owner calls it.
    pub name: String,
    /// The event; a trailing `.*` takes all that begin so.
    pub event: String,
    /// The webhook connection that deliveries go to.
    pub connection: String,
    /// When it was made. Earlier events are not delivered.
    pub created_at: Timestamp,
    /// How many deliveries are due.
    pub due: i64,
}

/// Keeps a subscription, in place of an earlier one of that name.
pub async fn put(
    cell: &Cell,
    namespace_id: i32,
    name: &str,
    event: &str,
    connection: &str,
) -> Result<(), ReadError> {
    let client = cell.reader().await?;
    client
        .execute(PUT, &[&namespace_id, &name, &event, &connection])
        .await?;
    Ok(())
}

/// Removes a subscription; false when there is none of that name.
pub async fn delete(cell: &Cell, namespace_id: i32, name: &str) -> Result<bool, ReadError> {
    let client = cell.reader().await?;
    Ok(client.execute(DELETE, &[&namespace_id, &name]).await? > 0)
}

/// The subscriptions of a namespace, sorted by name.
pub async fn list(cell: &Cell, namespace_id: i32) -> Result<Vec<Subscription>, ReadError> {
    let client = cell.reader().await?;
    let rows = client.query(LIST, &[&namespace_id]).await?;
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
