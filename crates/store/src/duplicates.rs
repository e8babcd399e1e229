//! The `duplicates` table: every repeat that was stopped is on record.
//!
//! A storm of repeats costs a row. Repeats are counted in memory and written by a [`Tally`] a few
//! times a second, so that an answer never waits for a commit of its own. A process that is killed
//! loses the counts of its last moment, and nothing else.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use semel_model::{ClaimId, Fingerprint, RunId, WaitId};
use tokio::sync::Notify;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use crate::cell::{Cell, ReadError};
use crate::link::Link;

const TALLY: &str = "
    INSERT INTO duplicates AS d (subject, place, fingerprint, namespace_id, run_id, verdict, count,
                                 first_at, last_at, payload)
    SELECT t.subject, t.place, t.fingerprint, t.namespace_id, t.run_id, t.verdict, t.count,
           t.first_at, t.last_at, t.payload::json
      FROM unnest($1::uuid[], $2::text[], $3::uuid[], $4::int4[], $5::uuid[], $6::text[],
                  $7::int8[], $8::timestamptz[], $9::timestamptz[], $10::text[])
        AS t (subject, place, fingerprint, namespace_id, run_id, verdict, count, first_at, last_at,
              payload)
     ORDER BY t.subject, t.place, t.fingerprint
        ON CONFLICT (subject, place, fingerprint) DO UPDATE
       SET count = d.count + EXCLUDED.count, run_id = EXCLUDED.run_id,
           verdict = EXCLUDED.verdict,
           first_at = least(d.first_at, EXCLUDED.first_at),
           last_at = greatest(d.last_at, EXCLUDED.last_at)";

const LIST: &str = "
    SELECT d.subject, d.place, d.fingerprint, d.run_id, d.verdict, d.count, d.first_at, d.last_at,
           d.payload, r.key, f.name
      FROM duplicates d
      LEFT JOIN runs r ON r.id = d.run_id
      LEFT JOIN releases l ON l.id = r.release_id
      LEFT JOIN flows f ON f.id = l.flow_id
     WHERE d.namespace_id = $1 AND ($2::uuid IS NULL OR d.run_id = $2)
     ORDER BY d.last_at DESC
     LIMIT $3";

pub(crate) const STATEMENTS: &[&str] = &[TALLY, LIST];

/// How often counts are written down.
const FLUSH_EVERY: Duration = Duration::from_millis(200);

/// How many different repeats may be counted before they are written at once.
const ENTRIES_MAX: usize = 4096;

/// How many rows one statement writes.
const CHUNK_MAX: usize = 1024;

/// What stopped a repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// The claim of its key.
    Claim(ClaimId),
    /// The wait that had been answered.
    Wait(WaitId),
    /// The claim under which the same signed body came first.
    Replay(ClaimId),
}

impl Subject {
    fn uuid(&self) -> Uuid {
        match self {
            Self::Claim(claim) | Self::Replay(claim) => *claim.as_uuid(),
            Self::Wait(wait) => *wait.as_uuid(),
        }
    }

    fn place(&self) -> &'static str {
        match self {
            Self::Claim(_) => "claim",
            Self::Wait(_) => "wait",
            Self::Replay(_) => "replay",
        }
    }
}

/// What became of a repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The same payload: answered as the first.
    Repeat,
    /// Another payload: refused, or answered as a repeat, as the trigger says.
    Mismatch,
    /// Another payload, or a signed body under another key: kept for a person.
    Quarantined,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Repeat => "repeat",
            Self::Mismatch => "mismatch",
            Self::Quarantined => "quarantined",
        }
    }
}

/// A repeat that was stopped.
#[derive(Clone, Debug)]
pub struct Stopped {
    /// By what.
    pub subject: Subject,
    /// Whose it is.
    pub namespace_id: i32,
    /// The run that answered.
    pub run: RunId,
    /// Its payload's fingerprint.
    pub fingerprint: Fingerprint,
    /// What became of it.
    pub kind: Kind,
    /// Its payload as JSON text, where it differs from the first's.
    pub payload: Option<String>,
    /// When it came.
    pub at: Timestamp,
}

struct Count {
    last: Stopped,
    first_at: Timestamp,
    count: i64,
}

type Counts = HashMap<(Subject, Fingerprint), Count>;

/// Counts repeats and writes the counts down.
#[derive(Clone)]
pub struct Tally {
    counts: Arc<Mutex<Counts>>,
    full: Arc<Notify>,
    cell: Cell,
}

impl Tally {
    /// Starts counting; the counts are written a few times a second.
    pub fn start(cell: &Cell) -> Self {
        let tally = Self {
            counts: Arc::default(),
            full: Arc::new(Notify::new()),
            cell: cell.clone(),
        };
        tokio::spawn(tally.clone().keep_flushing());
        tally
    }

    /// Counts one repeat.
    pub fn add(&self, stopped: Stopped) {
        let Ok(mut counts) = self.counts.lock() else {
            return;
        };
        let entry = counts.entry((stopped.subject, stopped.fingerprint));
        let count = entry.or_insert_with(|| Count {
            first_at: stopped.at,
            last: stopped.clone(),
            count: 0,
        });
        count.count += 1;
        count.last = stopped;
        if counts.len() >= ENTRIES_MAX {
            self.full.notify_one();
        }
    }

    /// Writes down what was counted so far; for a repeat that must be on record before it is
    /// answered, and for the end of the process.
    pub async fn flush(&self) -> Result<(), Error> {
        let mut link = Link::new(&self.cell);
        self.flush_through(&mut link).await
    }

    async fn keep_flushing(self) {
        let mut link = Link::new(&self.cell);
        loop {
            let _ = tokio::time::timeout(FLUSH_EVERY, self.full.notified()).await;
            if let Err(error) = self.flush_through(&mut link).await {
                tracing::warn!(error = %crate::writer::describe(&error),
                    "counts of duplicates wait for the database");
                link.give_up();
                link.rest().await;
            }
        }
    }

    async fn flush_through(&self, link: &mut Link) -> Result<(), Error> {
        loop {
            let chunk = self.take_chunk();
            if chunk.is_empty() {
                return Ok(());
            }
            if let Err(error) = write(link, &chunk).await {
                self.put_back(chunk);
                return Err(error);
            }
        }
    }

    fn take_chunk(&self) -> Vec<Count> {
        let Ok(mut counts) = self.counts.lock() else {
            return Vec::new();
        };
        if counts.len() <= CHUNK_MAX {
            return counts.drain().map(|(_, count)| count).collect();
        }
        let keys: Vec<_> = counts.keys().take(CHUNK_MAX).copied().collect();
        keys.iter().filter_map(|key| counts.remove(key)).collect()
    }

    fn put_back(&self, chunk: Vec<Count>) {
        let Ok(mut counts) = self.counts.lock() else {
            return;
        };
        for old in chunk {
            let key = (old.last.subject, old.last.fingerprint);
            match counts.get_mut(&key) {
                Some(count) => {
                    count.count += old.count;
                    count.first_at = old.first_at;
                }
                None => {
                    counts.insert(key, old);
                }
            }
        }
    }
}

async fn write(link: &mut Link, chunk: &[Count]) -> Result<(), Error> {
    let ready = link.prepare(&[TALLY]).await?;
    let last = || chunk.iter().map(|count| &count.last);
    let subjects: Vec<Uuid> = last().map(|stopped| stopped.subject.uuid()).collect();
    let places: Vec<&str> = last().map(|stopped| stopped.subject.place()).collect();
    let prints: Vec<Uuid> = last()
        .map(|stopped| *stopped.fingerprint.as_uuid())
        .collect();
    let namespaces: Vec<i32> = last().map(|stopped| stopped.namespace_id).collect();
    let runs: Vec<Uuid> = last().map(|stopped| *stopped.run.as_uuid()).collect();
    let kinds: Vec<&str> = last().map(|stopped| stopped.kind.as_str()).collect();
    let counts: Vec<i64> = chunk.iter().map(|count| count.count).collect();
    let firsts: Vec<Timestamp> = chunk.iter().map(|count| count.first_at).collect();
    let lasts: Vec<Timestamp> = last().map(|stopped| stopped.at).collect();
    let payloads: Vec<Option<&str>> = last().map(|stopped| stopped.payload.as_deref()).collect();
    let values: [&(dyn ToSql + Sync); 10] = [
        &subjects,
        &places,
        &prints,
        &namespaces,
        &runs,
        &kinds,
        &counts,
        &firsts,
        &lasts,
        &payloads,
    ];
    ready
        .client
        .execute(ready.statement(TALLY), &values)
        .await?;
    Ok(())
}

/// A stopped repeat as people see it.
#[derive(Clone, Debug)]
pub struct DuplicateView {
    /// The claim or wait that stopped it.
    pub subject: Uuid,
    /// Where it was stopped: `claim`, `wait` or `replay`.
    pub place: String,
    /// Its payload's fingerprint.
    pub fingerprint: Fingerprint,
    /// The run that answered.
    pub run: RunId,
    /// What became of it.
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
}

/// Lists stopped repeats, latest first.
pub async fn list(
    cell: &Cell,
    namespace_id: i32,
    run: Option<RunId>,
    limit: u16,
) -> Result<Vec<DuplicateView>, ReadError> {
    let run = run.map(|run| *run.as_uuid());
    let limit = i64::from(limit);
    let client = cell.reader().await?;
    let rows = client.query(LIST, &[&namespace_id, &run, &limit]).await?;
    Ok(rows.iter().map(read_view).collect())
}

fn read_view(row: &Row) -> DuplicateView {
    DuplicateView {
        subject: row.get(0),
        place: row.get(1),
        fingerprint: Fingerprint::from_uuid(row.get(2)),
        run: RunId::from_uuid(row.get(3)),
        verdict: row.get(4),
        count: row.get(5),
        first_at: row.get(6),
        last_at: row.get(7),
        payload: crate::runs::read_json(row, 8),
        key: row.get(9),
        flow: row.get(10),
    }
}
