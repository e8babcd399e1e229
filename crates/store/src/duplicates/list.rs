//! Stopped repeats, as the API lists them: those of the latest minute first. No index has the moment
//! itself, so that a repeat within the minute changes none.

use jiff::Timestamp;
use semel_model::{DuplicateId, Fingerprint, RunId};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use super::held::{self, DecisionView, HeldArrival};
use crate::cell::{EveryCell, ReadError, SlotCell};
use crate::listed::PAGE_BYTES_MAX;

/// The duplicates of a namespace that a condition names, with their payloads where those are asked
/// for. The page first: only its runs are looked up.
macro_rules! listed {
    ($condition:literal) => {
        concat!(
            "
    WITH page AS MATERIALIZED (
        SELECT d.*
          FROM duplicates d
         WHERE d.namespace_id = $1
           AND (d.minute, d.subject, d.fingerprint, d.stopped_by) < ($2, $3, $4, $5)",
            $condition,
            "
         ORDER BY d.minute DESC, d.subject DESC, d.fingerprint DESC, d.stopped_by DESC
         LIMIT $6)
    SELECT d.subject, d.stopped_by, d.fingerprint, d.run_id, d.verdict, d.count, d.first_at, d.last_at,
           CASE WHEN $7 THEN d.payload END, r.key, f.name, d.arrival, d.decision, d.decision_key, d.decided_at,
           d.decided_by, d.decided_run, d.minute
      FROM page d
      LEFT JOIN runs r ON r.id = d.run_id
      LEFT JOIN releases l ON l.id = r.release_id
      LEFT JOIN flows f ON f.id = l.flow_id
     ORDER BY d.minute DESC, d.subject DESC, d.fingerprint DESC, d.stopped_by DESC"
        )
    };
}

const ALL: &str = listed!("");
const OF_RUN: &str = listed!(" AND d.run_id = $8");

/// What waits for an operator, by the index that has nothing else.
const HELD: &str = listed!(
    "
       AND d.verdict = 'held' AND (d.decision IS NULL OR (d.decision = 'new_key' AND d.decided_run IS NULL))"
);
const HELD_OF_FLOW: &str = listed!(
    "
       AND d.verdict = 'held' AND (d.decision IS NULL OR (d.decision = 'new_key' AND d.decided_run IS NULL))
       AND d.flow = $8"
);

pub(super) const STATEMENTS: &[&str] = &[ALL, OF_RUN, HELD, HELD_OF_FLOW];

/// A stopped repeat as the API shows it.
#[derive(Clone, Debug)]
pub struct DuplicateView {
    /// The claim, wait or effect that stopped it.
    pub subject: Uuid,
    /// Where it was stopped: `claim`, `wait`, `replay`, `ledger` or `destination`.
    pub stopped_by: String,
    /// What it is recorded under: the fingerprint of its payload or, for a replayed body, of its payload
    /// and its key; all zeros where further ones are counted together.
    pub fingerprint: Fingerprint,
    /// The fingerprint of its payload alone; all zeros where further ones are counted together.
    pub payload_fingerprint: Fingerprint,
    /// The run that answered.
    pub run: RunId,
    /// What happened to it.
    pub verdict: String,
    /// How many.
    pub count: i64,
    /// When the first came.
    pub first_at: Timestamp,
    /// When the latest came.
    pub last_at: Timestamp,
    /// Its payload as JSON text, where it differs from the first's.
    pub payload: Option<String>,
    /// The run's key, while its record is kept.
    pub key: Option<Vec<u8>>,
    /// The run's flow, while its record is kept.
    pub flow: Option<String>,
    /// The key that it came with, where it is held.
    pub came_as: Option<String>,
    /// What an operator decided about it.
    pub decision: Option<DecisionView>,
    minute: Timestamp,
}

impl DuplicateView {
    /// Its identity.
    pub fn id(&self) -> DuplicateId {
        DuplicateId::derive(&self.subject, &self.stopped_by, self.fingerprint)
    }
}

impl DuplicateView {
    /// Its place in a list.
    pub fn position(&self) -> DuplicatePosition {
        DuplicatePosition {
            minute: self.minute,
            subject: self.subject,
            fingerprint: *self.fingerprint.as_uuid(),
            stopped_by: self.stopped_by.clone(),
        }
    }
}

/// The place of a duplicate in a list: the minute in which the latest came, and what tells it from
/// others. The default is before all of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DuplicatePosition {
    /// The minute in which the latest came.
    pub minute: Timestamp,
    /// What stopped it.
    pub subject: Uuid,
    /// Its payload.
    pub fingerprint: Uuid,
    /// The word for what stopped it.
    pub stopped_by: String,
}

impl Default for DuplicatePosition {
    fn default() -> Self {
        Self {
            minute: Timestamp::MAX,
            subject: Uuid::max(),
            fingerprint: Uuid::max(),
            stopped_by: String::new(),
        }
    }
}

impl DuplicatePosition {
    pub(crate) fn values(&self) -> [&(dyn ToSql + Sync); 4] {
        [
            &self.minute,
            &self.subject,
            &self.fingerprint,
            &self.stopped_by,
        ]
    }
}

/// Stopped repeats of a list, and whether others were left because of [`PAGE_BYTES_MAX`].
pub type ListedDuplicates = (Vec<DuplicateView>, bool);

/// Lists stopped repeats, those of the latest minute first, with or without their payloads.
pub async fn list(
    cell: EveryCell<'_>,
    namespace_id: i32,
    before: Option<&DuplicatePosition>,
    limit: u16,
    payloads: bool,
) -> Result<ListedDuplicates, ReadError> {
    let before = before.cloned().unwrap_or_default();
    let limit = i64::from(limit);
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&namespace_id];
    values.extend(before.values());
    values.extend([&limit as &(dyn ToSql + Sync), &payloads]);
    let client = cell.reader().await?;
    read_page(client.query_within(ALL, &values, PAGE_BYTES_MAX)).await
}

/// Lists what is held and not decided, of a flow where one is named, those of the latest minute
/// first, with or without payloads.
pub async fn list_held(
    cell: EveryCell<'_>,
    namespace_id: i32,
    flow: Option<&str>,
    before: Option<&DuplicatePosition>,
    limit: u16,
    payloads: bool,
) -> Result<ListedDuplicates, ReadError> {
    let before = before.cloned().unwrap_or_default();
    let limit = i64::from(limit);
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&namespace_id];
    values.extend(before.values());
    values.extend([&limit as &(dyn ToSql + Sync), &payloads]);
    let text = match &flow {
        Some(flow) => {
            values.push(flow);
            HELD_OF_FLOW
        }
        None => HELD,
    };
    let client = cell.reader().await?;
    read_page(client.query_within(text, &values, PAGE_BYTES_MAX)).await
}

/// Lists the repeats that a run stopped, those of the latest minute first, with or without their payloads.
pub async fn list_of_run(
    cell: SlotCell<'_>,
    namespace_id: i32,
    run: RunId,
    before: Option<&DuplicatePosition>,
    limit: u16,
    payloads: bool,
) -> Result<ListedDuplicates, ReadError> {
    let before = before.cloned().unwrap_or_default();
    let limit = i64::from(limit);
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&namespace_id];
    values.extend(before.values());
    values.extend([&limit as &(dyn ToSql + Sync), &payloads, run.as_uuid()]);
    let client = cell.reader().await?;
    read_page(client.query_within(OF_RUN, &values, PAGE_BYTES_MAX)).await
}

async fn read_page(
    rows: impl Future<Output = Result<(Vec<Row>, bool), Error>>,
) -> Result<ListedDuplicates, ReadError> {
    let (rows, is_cut) = rows.await?;
    Ok((rows.iter().map(read_view).collect(), is_cut))
}

fn read_view(row: &Row) -> DuplicateView {
    let fingerprint = Fingerprint::from_uuid(row.get(2));
    let arrival = crate::runs::read_json(row, 11).and_then(|text| HeldArrival::read(&text));
    let own = arrival.as_ref().and_then(|it| it.fingerprint);
    DuplicateView {
        subject: row.get(0),
        stopped_by: row.get(1),
        fingerprint,
        payload_fingerprint: own
            .filter(|_| !fingerprint.as_uuid().is_nil())
            .unwrap_or(fingerprint),
        run: RunId::from_uuid(row.get(3)),
        verdict: row.get(4),
        count: row.get(5),
        first_at: row.get(6),
        last_at: row.get(7),
        payload: crate::runs::read_json(row, 8),
        key: row.get(9),
        flow: row.get(10),
        came_as: arrival.map(|it| it.key),
        decision: held::read_decision(row, 12),
        minute: row.get(17),
    }
}
