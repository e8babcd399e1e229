//! The next run of a key whose last run an operator replays.
//!
//! One statement moves the claim from the last run to the next and makes what belongs to it. The
//! claim keeps the fingerprint of its first delivery, so that a repeat of that delivery is still a
//! repeat. Two requests at once make one run: the second finds that the claim names another.

use semel_model::{ClaimId, DeliveryId, Key, RunId, Span};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::audit::{self, AuditEntry};
use crate::cell::{ReadError, SlotCell};

/// The last run has ended, or ends in the transaction that this is part of. The claim is locked
/// before the run, as when a key is freed.
macro_rules! make {
    ($answer:literal) => {
        concat!(
            "
    WITH present AS MATERIALIZED (SELECT moment() AS now),
    arrived AS MATERIALIZED (
        SELECT *
          FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::int4[], $5::int4[], $6::int4[],
                      $7::bytea[], $8::uuid[], $9::float8[], $10::text[])
            AS t (claim_id, last_run, run_id, run_number, namespace_id, release_id, key,
                  delivery_id, keep_secs, events)),
    judged AS MATERIALIZED (
        SELECT c.id
          FROM arrived t
          JOIN claims c ON c.id = t.claim_id AND c.run_id = t.last_run
          JOIN runs r ON r.id = t.last_run
         WHERE coalesce(c.run_number, 0) = t.run_number - 1 AND c.dropped_at IS NULL
           AND r.state IN ('succeeded', 'failed', 'cancelled', 'superseded') AND r.closed_at IS NULL
         ORDER BY c.id
           FOR UPDATE OF c FOR SHARE OF r),
    held AS (
        UPDATE claims c
           SET run_id = t.run_id, run_number = t.run_number, counted_from = NULL,
               expires_at = date_trunc('minute', p.now + make_interval(secs => t.keep_secs + 60))
          FROM arrived t, present p
         WHERE c.id = t.claim_id AND (c.id IN (SELECT id FROM judged)) IS TRUE
     RETURNING c.id),
    fresh AS MATERIALIZED (
        SELECT t.*, p.now, (p.now AT TIME ZONE 'UTC')::date AS partition_date
          FROM arrived t, present p
         WHERE (t.claim_id IN (SELECT id FROM held)) IS TRUE),
    made AS (
        INSERT INTO runs (id, claim_id, namespace_id, release_id, key, delivery_id, accepted_at,
                          partition_date)
        SELECT run_id, claim_id, namespace_id, release_id, key, delivery_id, now, partition_date
          FROM fresh),
    queued AS (
        INSERT INTO queue (run_id, due_at, epoch, seq, partition_date, namespace_id)
        SELECT run_id, now, 1, 1, partition_date, namespace_id FROM fresh),
    written AS (
        INSERT INTO journal (partition_date, run_id, seq, epoch, at, events)
        SELECT partition_date, run_id, 1, 1, now, events::json FROM fresh)
    ",
            $answer
        )
    };
}

/// Alone: says how many were made.
pub(super) const MAKE: &str = make!("SELECT count(*) FROM held");

/// Behind the end of the last run, in its transaction: all, or nothing of it is written.
pub(crate) const MAKE_OR_NOTHING: &str =
    make!("SELECT all_or_nothing(count(*), cardinality($1::uuid[])) FROM held");

pub(super) const OF_RUN: &str = "
    SELECT c.id, c.run_id, coalesce(c.run_number, 0), coalesce(c.intent, 0),
           c.dropped_at IS NOT NULL, n.delivery_id
      FROM runs r
      JOIN claims c ON c.id = r.claim_id
      LEFT JOIN runs n ON n.id = c.run_id
     WHERE r.id = $1 AND r.namespace_id = $2";

/// The run that follows the last one of its key because an operator replays it.
#[derive(Clone, Debug)]
pub struct NextRun {
    /// The claim of the key.
    pub claim: ClaimId,
    /// The run before it, which has ended, or ends in the same commit.
    pub last: RunId,
    /// Its number among the runs of the key.
    pub number: u32,
    /// The namespace that owns it.
    pub namespace_id: i32,
    /// The release that it is on.
    pub release_id: i32,
    /// The key.
    pub key: Key,
    /// How long the key is remembered.
    pub keep: Span,
    /// What asked for it: the same for a repeat of the request.
    pub delivery: DeliveryId,
    /// The first row of its journal, as JSON.
    pub events: String,
}

impl NextRun {
    /// The run.
    pub fn run(&self) -> RunId {
        RunId::derive(self.claim, self.number)
    }
}

/// Next runs, one array per column.
#[derive(Default)]
pub(crate) struct Rows<'a> {
    claims: Vec<Uuid>,
    lasts: Vec<Uuid>,
    runs: Vec<Uuid>,
    numbers: Vec<i32>,
    namespaces: Vec<i32>,
    releases: Vec<i32>,
    keys: Vec<&'a [u8]>,
    deliveries: Vec<Uuid>,
    keeps: Vec<f64>,
    events: Vec<&'a str>,
}

impl<'a> Rows<'a> {
    pub(crate) fn push(&mut self, next: &'a NextRun) {
        self.claims.push(*next.claim.as_uuid());
        self.lasts.push(*next.last.as_uuid());
        self.runs.push(*next.run().as_uuid());
        self.numbers.push(next.number.cast_signed());
        self.namespaces.push(next.namespace_id);
        self.releases.push(next.release_id);
        self.keys.push(next.key.as_bytes());
        self.deliveries.push(*next.delivery.as_uuid());
        self.keeps.push(next.keep.as_secs_f64());
        self.events.push(&next.events);
    }

    /// The values of the statement; nothing where no run is made.
    pub(crate) fn values(&self) -> Option<Vec<&(dyn ToSql + Sync)>> {
        if self.claims.is_empty() {
            return None;
        }
        Some(vec![
            &self.claims,
            &self.lasts,
            &self.runs,
            &self.numbers,
            &self.namespaces,
            &self.releases,
            &self.keys,
            &self.deliveries,
            &self.keeps,
            &self.events,
        ])
    }
}

/// Makes the next run of a key whose last run has ended, with the record of the operator who asked
/// for it. False where the claim names another run by now, or the last one was resumed.
pub async fn make_next_run(
    cell: SlotCell<'_>,
    next: &NextRun,
    act: Option<&AuditEntry>,
) -> Result<bool, ReadError> {
    let mut rows = Rows::default();
    rows.push(next);
    let values = rows.values().unwrap_or_default();
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    let made = tx.query_one(MAKE, &values).await?.get::<_, i64>(0) == 1;
    if let (true, Some(act)) = (made, act) {
        audit::append(&tx, act).await?;
    }
    tx.commit().await?;
    Ok(made)
}

/// The claim that made a run, whatever run it names now.
#[derive(Clone, Debug)]
pub struct HeldKey {
    /// The claim.
    pub claim: ClaimId,
    /// The run that it names.
    pub run: RunId,
    /// The number of that run.
    pub number: u32,
    /// How many times the key came back as a new intent.
    pub intent: u32,
    /// Whether an operator dropped the key, and no delivery of it came since.
    pub is_dropped: bool,
    /// What asked for that run, while its record is kept.
    pub delivery: Option<DeliveryId>,
}

/// Looks up the claim that made a run.
pub async fn find_of_run(
    cell: SlotCell<'_>,
    namespace_id: i32,
    run: RunId,
) -> Result<Option<HeldKey>, ReadError> {
    let client = cell.reader().await?;
    let row = client
        .query_opt(OF_RUN, &[run.as_uuid(), &namespace_id])
        .await?;
    Ok(row.map(|row| HeldKey {
        claim: ClaimId::from_uuid(row.get(0)),
        run: RunId::from_uuid(row.get(1)),
        number: row.get::<_, i32>(2).unsigned_abs(),
        intent: row.get::<_, i32>(3).unsigned_abs(),
        is_dropped: row.get(4),
        delivery: row.get::<_, Option<Uuid>>(5).map(DeliveryId::from_uuid),
    }))
}
