//! The `object_versions` and `stale_deliveries` tables: the newest version of each object, and the
//! deliveries that came too late.
//!
//! A version is recorded before its delivery is accepted, in a commit of its own. So a run that the
//! object's gate admits afterwards can see whether something newer was accepted; and a version that
//! was recorded by a process which then died is its own newest when it comes again.

mod stale;

pub use stale::{StaleView, list_stale};

use std::collections::{HashMap, HashSet};

use semel_model::{ClaimId, Fingerprint, GateId, InSlot, Key, SeededBug, Slot, Span, Version};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use crate::cell::{Cell, EveryCell, ReadError, SlotCell};
use crate::writer::connection::WriterConnection;
use crate::writer::{Batch, Writer};

/// Notes versions that are newer than what is known. Looked at before anything is held: most of what
/// comes late changes nothing, and then nothing is committed.
const NOTE: &str = "
    INSERT INTO object_versions AS v (gate_id, kind, rank, shown, claim_id, expires_at)
    SELECT t.gate_id, t.kind, t.rank, t.shown, t.claim_id,
           date_trunc('minute', (SELECT moment()) + make_interval(secs => t.keep_secs + 120))
      FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::uuid[], $6::float8[])
        AS t (gate_id, kind, rank, shown, claim_id, keep_secs)
      LEFT JOIN object_versions k ON k.gate_id = t.gate_id
     WHERE k.gate_id IS NULL OR (k.kind = t.kind AND k.rank < t.rank COLLATE \"C\")
     ORDER BY t.gate_id
        ON CONFLICT (gate_id) DO UPDATE
       SET rank = EXCLUDED.rank, shown = EXCLUDED.shown, claim_id = EXCLUDED.claim_id,
           expires_at = EXCLUDED.expires_at
     WHERE v.kind = EXCLUDED.kind AND v.rank < EXCLUDED.rank";

const READ: &str = "
    SELECT gate_id, kind, rank, shown, claim_id FROM object_versions WHERE gate_id = ANY ($1)";

const RECORD: &str = "
    INSERT INTO stale_deliveries AS s (gate_id, claim_id, namespace_id, flow, key, object, version,
                                       newest, newest_claim, fingerprint, payload, first_at, last_at,
                                       minute, expires_at)
    SELECT t.gate_id, t.claim_id, t.namespace_id, t.flow, t.key, t.object, t.version, t.newest,
           t.newest_claim, t.fingerprint, t.payload::json, p.now, p.now,
           date_trunc('minute', p.now), date_trunc('minute', p.now + make_interval(secs => t.keep_secs + 120))
      FROM unnest($1::uuid[], $2::uuid[], $3::int4[], $4::text[], $5::bytea[], $6::text[],
                  $7::text[], $8::text[], $9::uuid[], $10::uuid[], $11::text[], $12::float8[])
        AS t (gate_id, claim_id, namespace_id, flow, key, object, version, newest, newest_claim,
              fingerprint, payload, keep_secs),
           (SELECT moment() AS now) AS p
     ORDER BY t.gate_id, t.claim_id
        ON CONFLICT (gate_id, claim_id) DO UPDATE
       SET count = s.count + 1, last_at = greatest(s.last_at, EXCLUDED.last_at),
           minute = greatest(s.minute, EXCLUDED.minute), newest = EXCLUDED.newest,
           newest_claim = EXCLUDED.newest_claim, fingerprint = EXCLUDED.fingerprint,
           payload = EXCLUDED.payload, version = EXCLUDED.version,
           expires_at = EXCLUDED.expires_at";

const FORGET: &str = "
    DELETE FROM object_versions
     WHERE gate_id IN (SELECT gate_id FROM object_versions WHERE expires_at < (SELECT moment())
                        ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED)";

const FORGET_STALE: &str = "
    DELETE FROM stale_deliveries
     WHERE (gate_id, claim_id) IN
           (SELECT gate_id, claim_id FROM stale_deliveries WHERE expires_at < (SELECT moment())
             ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED)";

pub(crate) const STATEMENTS: &[&str] = &[
    NOTE,
    READ,
    RECORD,
    stale::ALL,
    stale::OF_KEY,
    stale::BEHIND,
    stale::OF_KEY_BEHIND,
    FORGET,
    FORGET_STALE,
];

/// A delivery with a version, on its way in.
#[derive(Clone, Debug)]
pub struct Versioned {
    /// The gate of its object.
    pub gate: GateId,
    /// Its claim.
    pub claim: ClaimId,
    /// Its version.
    pub version: Version,
    /// How long the flow remembers keys.
    pub keep: Span,
}

/// A delivery that came too late.
#[derive(Clone, Debug)]
pub struct StaleRow {
    /// What it is.
    pub delivery: Versioned,
    /// The namespace that owns it.
    pub namespace_id: i32,
    /// The flow.
    pub flow: String,
    /// The key.
    pub key: Key,
    /// The object.
    pub object: String,
    /// What was accepted before.
    pub newest: NewestVersion,
    /// The payload's fingerprint.
    pub fingerprint: Fingerprint,
    /// The payload, as JSON text.
    pub payload: String,
}

/// The newest version of an object that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewestVersion {
    kind: String,
    rank: String,
    /// The version, as it came.
    pub shown: String,
    /// The claim of its delivery.
    pub claim: ClaimId,
}

/// How a version stands to the newest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Age {
    /// Nothing newer was accepted.
    Newest,
    /// Something newer was.
    Stale(NewestVersion),
    /// The two cannot be compared.
    Mixed(NewestVersion),
}

impl NewestVersion {
    /// How a version stands to this one.
    fn judge(self, version: &Version) -> Age {
        if self.kind != version.kind().as_str() {
            return Age::Mixed(self);
        }
        match self.rank.as_str() > version.rank() && !SeededBug::StaleVersionAdmitted.is_seeded() {
            true => Age::Stale(self),
            false => Age::Newest,
        }
    }
}

/// What the writer of versions is asked.
#[derive(Clone, Debug)]
pub enum VersionRequest {
    /// To note a version, and to say how it stands.
    Note(Versioned),
    /// To record a delivery that came too late.
    Record(Box<StaleRow>),
}

impl VersionRequest {
    fn delivery(&self) -> &Versioned {
        match self {
            Self::Note(delivery) => delivery,
            Self::Record(stale) => &stale.delivery,
        }
    }
}

/// The batch of one commit of versions.
pub struct VersionBatch;

/// Starts the writer that all versions of a process go through.
pub fn start_noting(cell: &Cell) -> Writer<VersionBatch> {
    Writer::start(cell, || VersionBatch)
}

impl Batch for VersionBatch {
    type Item = VersionRequest;
    type Answer = Age;
    type Gathered = HashSet<GateId>;

    const LANES: usize = 1;

    fn slot(item: &VersionRequest) -> Slot {
        item.delivery().gate.slot()
    }

    /// An object is noted once per commit.
    fn admit(gathered: &mut HashSet<GateId>, next: &VersionRequest) -> bool {
        gathered.insert(next.delivery().gate)
    }

    async fn write(
        &mut self,
        connection: &mut WriterConnection,
        items: &mut Vec<VersionRequest>,
    ) -> Result<Vec<Age>, Error> {
        let mut notes: Vec<&Versioned> = Vec::new();
        let mut records: Vec<&StaleRow> = Vec::new();
        for item in items.iter() {
            match item {
                VersionRequest::Note(delivery) => notes.push(delivery),
                VersionRequest::Record(stale) => records.push(stale),
            }
        }
        let newest = note(connection, &notes).await?;
        record(connection, &records).await?;
        let judge = |item: &VersionRequest| match item {
            VersionRequest::Note(delivery) => match newest.get(delivery.gate.as_uuid()) {
                Some(newest) => newest.clone().judge(&delivery.version),
                None => Age::Newest,
            },
            VersionRequest::Record(_) => Age::Newest,
        };
        Ok(items.iter().map(judge).collect())
    }
}

/// Notes versions, and reads what is the newest of each object after that.
async fn note(
    connection: &mut WriterConnection,
    notes: &[&Versioned],
) -> Result<HashMap<Uuid, NewestVersion>, Error> {
    if notes.is_empty() {
        return Ok(HashMap::new());
    }
    let gates: Vec<Uuid> = notes.iter().map(|it| *it.gate.as_uuid()).collect();
    let kinds: Vec<&str> = notes.iter().map(|it| it.version.kind().as_str()).collect();
    let ranks: Vec<&str> = notes.iter().map(|it| it.version.rank()).collect();
    let shown: Vec<&str> = notes.iter().map(|it| it.version.shown()).collect();
    let claims: Vec<Uuid> = notes.iter().map(|it| *it.claim.as_uuid()).collect();
    let keeps: Vec<f64> = notes.iter().map(|it| it.keep.as_secs_f64()).collect();
    let ready = connection.prepare(&[NOTE, READ]).await?;
    let values: [&(dyn ToSql + Sync); 6] = [&gates, &kinds, &ranks, &shown, &claims, &keeps];
    let (_, rows) = futures_util::future::try_join(
        ready.client.execute(ready.statement(NOTE), &values),
        ready.client.query(ready.statement(READ), &[&gates]),
    )
    .await?;
    Ok(rows.iter().map(read_newest).collect())
}

async fn record(connection: &mut WriterConnection, records: &[&StaleRow]) -> Result<(), Error> {
    if records.is_empty() {
        return Ok(());
    }
    let of = |value: fn(&StaleRow) -> Uuid| -> Vec<Uuid> {
        records.iter().map(|stale| value(stale)).collect()
    };
    let gates = of(|it| *it.delivery.gate.as_uuid());
    let claims = of(|it| *it.delivery.claim.as_uuid());
    let newest_claims = of(|it| *it.newest.claim.as_uuid());
    let prints = of(|it| *it.fingerprint.as_uuid());
    let namespaces: Vec<i32> = records.iter().map(|it| it.namespace_id).collect();
    let flows: Vec<&str> = records.iter().map(|it| it.flow.as_str()).collect();
    let keys: Vec<&[u8]> = records.iter().map(|it| it.key.as_bytes()).collect();
    let objects: Vec<&str> = records.iter().map(|it| it.object.as_str()).collect();
    let versions: Vec<&str> = records
        .iter()
        .map(|it| it.delivery.version.shown())
        .collect();
    let newest: Vec<&str> = records.iter().map(|it| it.newest.shown.as_str()).collect();
    let payloads: Vec<&str> = records.iter().map(|it| it.payload.as_str()).collect();
    let keeps: Vec<f64> = records
        .iter()
        .map(|it| it.delivery.keep.as_secs_f64())
        .collect();
    let values: [&(dyn ToSql + Sync); 12] = [
        &gates,
        &claims,
        &namespaces,
        &flows,
        &keys,
        &objects,
        &versions,
        &newest,
        &newest_claims,
        &prints,
        &payloads,
        &keeps,
    ];
    let ready = connection.prepare(&[RECORD]).await?;
    ready
        .client
        .execute(ready.statement(RECORD), &values)
        .await?;
    Ok(())
}

fn read_newest(row: &Row) -> (Uuid, NewestVersion) {
    let newest = NewestVersion {
        kind: row.get(1),
        rank: row.get(2),
        shown: row.get(3),
        claim: ClaimId::from_uuid(row.get(4)),
    };
    (row.get(0), newest)
}

/// How a version stands to the newest of its object that was accepted.
pub async fn judge(cell: SlotCell<'_>, gate: GateId, version: &Version) -> Result<Age, ReadError> {
    let client = cell.reader().await?;
    let rows = client.query(READ, &[&vec![*gate.as_uuid()]]).await?;
    Ok(match rows.first().map(read_newest) {
        Some((_, newest)) => newest.judge(version),
        None => Age::Newest,
    })
}

/// Forgets some versions and stale deliveries whose time is over, and says how many.
pub(crate) async fn forget(cell: EveryCell<'_>, most: i64) -> Result<u64, ReadError> {
    let client = cell.reader().await?;
    let versions = client.execute(FORGET, &[&most]).await?;
    Ok(versions + client.execute(FORGET_STALE, &[&most]).await?)
}
