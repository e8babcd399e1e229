//! The `event_waits` table: open waits for events, by what distinguishes the right event.

use jiff::Timestamp;
use semel_model::{RunId, WaitId};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::cell::{EveryCell, ReadError};
use crate::column_text::ColumnText;
use crate::journal::Transition;

pub(crate) const OPEN: &str = "
    INSERT INTO event_waits (wait_id, run_id, namespace_id, event, path, value)
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::int4[], $4::text[], $5::text[], $6::text[])
        ON CONFLICT (wait_id) DO NOTHING";

pub(crate) const CLOSE: &str = "DELETE FROM event_waits WHERE wait_id = ANY ($1)";

// Crosses slots (V6): an event finds waits of all slots, by namespace and name. With a second cell,
// every cell is asked once for a batch of events, and the outbox notes which have answered.

/// Which parts of an event runs go by: one step through the index for each.
const PATHS: &str = "
    WITH RECURSIVE paths AS (
        (SELECT path FROM event_waits
          WHERE namespace_id = $1 AND event = $2 ORDER BY path LIMIT 1)
        UNION ALL
        SELECT (SELECT l.path FROM event_waits l
                 WHERE l.namespace_id = $1 AND l.event = $2 AND l.path > p.path
                 ORDER BY l.path LIMIT 1)
          FROM paths p
         WHERE p.path IS NOT NULL)
    SELECT path FROM paths WHERE path IS NOT NULL";

const FIND: &str = "
    SELECT l.wait_id, l.run_id, w.opened_at
      FROM (SELECT wait_id, run_id
              FROM event_waits
             WHERE namespace_id = $1 AND event = $2 AND path = $3 AND value = $4
               AND wait_id > $5
             ORDER BY wait_id
             LIMIT $6) AS l
      LEFT JOIN waits w ON w.id = l.wait_id
     ORDER BY l.wait_id";

/// Waits that were found before. One that has ended is not listed any more.
const FIND_AGAIN: &str = "
    SELECT l.wait_id, l.run_id, w.opened_at
      FROM event_waits l
      LEFT JOIN waits w ON w.id = l.wait_id
     WHERE l.wait_id = ANY ($1)
     ORDER BY l.wait_id";

pub(crate) const STATEMENTS: &[&str] = &[OPEN, CLOSE, PATHS, FIND, FIND_AGAIN];

/// Which event a wait is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// The event.
    pub event: String,
    /// The part of it that tells which one is meant; empty if nothing does.
    pub path: String,
    /// What stands there, as JSON text; empty if nothing does.
    pub value: String,
}

/// Waits for events of a batch, by column.
#[derive(Default)]
pub(crate) struct Rows<'a> {
    waits: Vec<Uuid>,
    runs: Vec<Uuid>,
    namespaces: Vec<i32>,
    events: Vec<&'a str>,
    paths: Vec<&'a str>,
    values: Vec<ColumnText<'a>>,
}

impl<'a> Rows<'a> {
    pub(crate) fn push(&mut self, item: &Transition, wait: WaitId, topic: &'a Topic) {
        self.waits.push(*wait.as_uuid());
        self.runs.push(*item.run.as_uuid());
        self.namespaces.push(item.namespace_id);
        self.events.push(&topic.event);
        self.paths.push(&topic.path);
        self.values.push(ColumnText::indexed(&topic.value));
    }

    pub(crate) fn values(&self) -> Option<Vec<&(dyn ToSql + Sync)>> {
        (!self.waits.is_empty()).then(|| {
            vec![
                &self.waits as &(dyn ToSql + Sync),
                &self.runs,
                &self.namespaces,
                &self.events,
                &self.paths,
                &self.values,
            ]
        })
    }
}

/// Which parts of an event runs go by that wait for it.
pub async fn paths(
    cell: EveryCell<'_>,
    namespace_id: i32,
    event: &str,
) -> Result<Vec<String>, ReadError> {
    let client = cell.reader().await?;
    let rows = client.query(PATHS, &[&namespace_id, &event]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// An open wait for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventWait {
    /// The wait.
    pub wait: WaitId,
    /// Its run.
    pub run: RunId,
    /// When it opened.
    pub opened_at: Option<Timestamp>,
}

/// Waits that an event may answer, behind one of them.
pub async fn find(
    cell: EveryCell<'_>,
    namespace_id: i32,
    topic: &Topic,
    after: Option<WaitId>,
    limit: i64,
) -> Result<Vec<EventWait>, ReadError> {
    let after = after.map_or(Uuid::nil(), |wait| *wait.as_uuid());
    let value = ColumnText::indexed(&topic.value);
    let values: [&(dyn ToSql + Sync); 6] = [
        &namespace_id,
        &topic.event,
        &topic.path,
        &value,
        &after,
        &limit,
    ];
    let rows = cell.reader().await?.query(FIND, &values).await?;
    Ok(rows.iter().map(read_wait).collect())
}

/// Those of some waits that are open, in no order of theirs.
pub async fn find_again(
    cell: EveryCell<'_>,
    waits: &[WaitId],
) -> Result<Vec<EventWait>, ReadError> {
    let ids: Vec<Uuid> = waits.iter().map(|wait| *wait.as_uuid()).collect();
    let rows = cell.reader().await?.query(FIND_AGAIN, &[&ids]).await?;
    Ok(rows.iter().map(read_wait).collect())
}

/// Notes that waits have ended.
pub async fn close(cell: EveryCell<'_>, waits: &[WaitId]) -> Result<(), ReadError> {
    let ids: Vec<Uuid> = waits.iter().map(|wait| *wait.as_uuid()).collect();
    cell.reader().await?.execute(CLOSE, &[&ids]).await?;
    Ok(())
}

fn read_wait(row: &tokio_postgres::Row) -> EventWait {
    let (wait, run): (Uuid, Uuid) = (row.get(0), row.get(1));
    EventWait {
        wait: WaitId::from_uuid(wait),
        run: RunId::from_uuid(run),
        opened_at: row.get(2),
    }
}
