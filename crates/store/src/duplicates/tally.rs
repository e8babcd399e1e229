//! Counting repeats, and the one task that records the counts.
//!
//! Counts gather in generations. The writer takes a whole generation out, begins the next, and
//! signals when the one that it took is committed. A caller that needs a repeat on disk before it
//! answers waits for the generation that holds it, and needs no connection of its own.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use semel_model::Fingerprint;
use tokio::sync::{Notify, watch};
use tokio_postgres::Error;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::statements::{KNOWN, TALLY, TALLY_AND_RAISE};
use super::{DuplicateVerdict, StoppedRepeat, Subject};
use crate::cell::Cell;
use crate::writer::connection::{ErrorClass, WriterConnection, classify};
use crate::writer::{WriteError, describe};

/// How many differing payloads of one subject are kept; further ones are counted together.
pub const PAYLOADS_MAX: usize = 5;

/// How often counts are recorded.
const FLUSH_EVERY: Duration = Duration::from_millis(200);

/// How long a caller waits for its repeat to be on disk.
const FLUSH_PATIENCE: Duration = Duration::from_secs(10);

/// How long one statement may take before its connection is abandoned.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);

/// How many different repeats may be counted before they are written at once.
const ENTRIES_SOON: usize = 4096;

/// How many different repeats are held during an outage. Further ones are not counted.
const ENTRIES_MAX: usize = 65_536;

/// How many rows one statement writes.
const CHUNK_MAX: usize = 1024;

/// How many bytes of payloads one statement writes, beyond its first row.
const CHUNK_BYTES_MAX: usize = 8 << 20;

#[derive(Clone)]
struct Count {
    last: StoppedRepeat,
    first_at: Timestamp,
    count: i64,
}

impl Count {
    fn of(stopped: StoppedRepeat) -> Self {
        Self {
            first_at: stopped.at,
            last: stopped,
            count: 1,
        }
    }

    /// Takes another count of the same in.
    fn join(&mut self, other: Self) {
        self.count += other.count;
        self.first_at = self.first_at.min(other.first_at);
        if other.last.at >= self.last.at {
            // A payload is kept as it came first.
            let (payload, arrival) = (self.last.payload.take(), self.last.arrival.take());
            let held = [self.last.kind, other.last.kind].contains(&DuplicateVerdict::Held);
            self.last = other.last;
            // What was held stays held, as in the table.
            if held {
                self.last.kind = DuplicateVerdict::Held;
            }
            self.last.payload = payload.or_else(|| self.last.payload.take());
            self.last.arrival = arrival.or_else(|| self.last.arrival.take());
        }
    }

    /// The same as one of the many of its subject that are only counted.
    fn without_payload(mut self) -> Self {
        self.last.fingerprint = Fingerprint::from_uuid(Uuid::nil());
        self.last.payload = None;
        self
    }

    fn bytes(&self) -> usize {
        let bytes = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        bytes(&self.last.payload) + bytes(&self.last.arrival)
    }
}

type Counts = HashMap<(Subject, Fingerprint), Count>;

/// What gathers.
#[derive(Default)]
struct Gathering {
    generation: u64,
    counts: Counts,
    /// How many payloads are held for each subject.
    payloads: HashMap<Subject, usize>,
}

impl Gathering {
    fn add(&mut self, count: Count) {
        let key = (count.last.subject, count.last.fingerprint);
        if let Some(known) = self.counts.get_mut(&key) {
            return known.join(count);
        }
        if count.last.payload.is_some() {
            let held = self.payloads.entry(key.0).or_default();
            if *held >= PAYLOADS_MAX {
                return self.add(count.without_payload());
            }
            *held += 1;
        }
        if self.counts.len() < ENTRIES_MAX {
            self.counts.insert(key, count);
        }
    }
}

/// Counts repeats and records the counts.
#[derive(Clone)]
pub struct Tally {
    gathering: Arc<Mutex<Gathering>>,
    wanted: Arc<Notify>,
    /// The latest generation that is committed with all before it.
    written: Arc<watch::Sender<u64>>,
}

impl Tally {
    /// Starts counting; the counts are written a few times a second, over one connection.
    pub fn start(cell: &Cell) -> Self {
        let first = Gathering {
            generation: 1,
            ..Gathering::default()
        };
        let tally = Self {
            gathering: Arc::new(Mutex::new(first)),
            wanted: Arc::new(Notify::new()),
            written: Arc::new(watch::Sender::new(0)),
        };
        tokio::spawn(tally.clone().keep_writing(WriterConnection::new(cell)));
        tally
    }

    /// Counts one repeat.
    pub fn add(&self, stopped: StoppedRepeat) {
        if semel_model::SeededBug::DuplicateNotRecorded.is_seeded() {
            return;
        }
        let mut gathering = self.gathering();
        gathering.add(Count::of(stopped));
        if gathering.counts.len() >= ENTRIES_SOON {
            self.wanted.notify_one();
        }
    }

    /// Waits until everything that was counted so far is committed; for a repeat that must be
    /// recorded before it is answered, and for the end of the process.
    pub async fn flush(&self) -> Result<(), WriteError> {
        let mut written = self.written.subscribe();
        let mine = self.gathering().generation;
        self.wanted.notify_one();
        let committed = written.wait_for(|generation| *generation >= mine);
        match tokio::time::timeout(FLUSH_PATIENCE, committed).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(WriteError::Stopped),
            Err(_) => {
                let reason = "a repeat could not be written down in time";
                Err(WriteError::Unavailable(reason.to_owned()))
            }
        }
    }

    async fn keep_writing(self, mut connection: WriterConnection) {
        loop {
            let _ = tokio::time::timeout(FLUSH_EVERY, self.wanted.notified()).await;
            let (generation, counts) = self.take();
            let left = write_all(&mut connection, counts).await;
            match left.is_empty() {
                true => drop(self.written.send_replace(generation)),
                false => {
                    self.put_back(left);
                    connection.give_up();
                    connection.rest().await;
                }
            }
        }
    }

    /// Takes out what was gathered; what comes from now on belongs to the next generation.
    fn take(&self) -> (u64, Vec<Count>) {
        let mut gathering = self.gathering();
        let generation = gathering.generation;
        gathering.generation += 1;
        gathering.payloads.clear();
        let counts = std::mem::take(&mut gathering.counts);
        (generation, counts.into_values().collect())
    }

    /// Makes counts that could not be written part of the generation that gathers now.
    fn put_back(&self, left: Vec<Count>) {
        let mut gathering = self.gathering();
        left.into_iter().for_each(|count| gathering.add(count));
    }

    fn gathering(&self) -> MutexGuard<'_, Gathering> {
        self.gathering
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes counts in chunks. Gives what could not be written.
async fn write_all(connection: &mut WriterConnection, counts: Vec<Count>) -> Vec<Count> {
    let mut left = counts;
    while !left.is_empty() {
        let mut bytes = 0;
        let fits = left.iter().take(CHUNK_MAX).take_while(|count| {
            bytes += count.bytes();
            bytes <= CHUNK_BYTES_MAX
        });
        let fits = fits.count().max(1);
        let chunk: Vec<Count> = left.drain(..fits).collect();
        match write(connection, chunk.clone()).await {
            Ok(()) => {}
            Err(Unwritten::Refused) => write_one_by_one(connection, chunk, &mut left).await,
            Err(Unwritten::NotNow(reason)) => {
                tracing::warn!(reason, "counts of duplicates wait for the database");
                left.extend(chunk);
                return left;
            }
        }
    }
    left
}

/// One row that the database refuses must not take the others with it, nor be tried for ever.
async fn write_one_by_one(
    connection: &mut WriterConnection,
    chunk: Vec<Count>,
    left: &mut Vec<Count>,
) {
    for count in chunk {
        match write(connection, vec![count.clone()]).await {
            Ok(()) => {}
            Err(Unwritten::Refused) => {
                tracing::error!(run.id = %count.last.run, "a duplicate is not recorded: the database refuses its row");
            }
            Err(Unwritten::NotNow(_)) => left.push(count),
        }
    }
}

/// Why counts are not written.
enum Unwritten {
    /// The database will never have them.
    Refused,
    /// The database does not answer, or asks to come again.
    NotNow(String),
}

async fn write(connection: &mut WriterConnection, chunk: Vec<Count>) -> Result<(), Unwritten> {
    match tokio::time::timeout(WRITE_PATIENCE, try_write(connection, chunk)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(match classify(&error) {
            ErrorClass::Refused | ErrorClass::Fenced => {
                tracing::warn!(
                    reason = describe(&error),
                    "counts of duplicates are refused"
                );
                Unwritten::Refused
            }
            ErrorClass::Again | ErrorClass::Unknown | ErrorClass::Unfit => {
                Unwritten::NotNow(describe(&error))
            }
        }),
        Err(_) => {
            connection.give_up();
            Err(Unwritten::NotNow("no answer in time".to_owned()))
        }
    }
}

async fn try_write(connection: &mut WriterConnection, chunk: Vec<Count>) -> Result<(), Error> {
    let chunk = cap(connection, chunk).await?;
    let differs = |count: &Count| count.last.kind != DuplicateVerdict::Repeat;
    let text = match chunk.iter().any(differs) {
        true => TALLY_AND_RAISE,
        false => TALLY,
    };
    let ready = connection.prepare(&[text]).await?;
    let last = || chunk.iter().map(|count| &count.last);
    let subjects: Vec<Uuid> = last().map(|stopped| stopped.subject.uuid()).collect();
    let places: Vec<&str> = last().map(|stopped| stopped.subject.stopped_by()).collect();
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
    let arrivals: Vec<Option<&str>> = last().map(|stopped| stopped.arrival.as_deref()).collect();
    let values: [&(dyn ToSql + Sync); 11] = [
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
        &arrivals,
    ];
    ready.client.execute(ready.statement(text), &values).await?;
    Ok(())
}

/// Counts together what would be one payload too many of its subject. Two servers may each keep
/// their first few.
async fn cap(connection: &mut WriterConnection, chunk: Vec<Count>) -> Result<Vec<Count>, Error> {
    let (mut subjects, mut places) = (Vec::new(), Vec::new());
    let differing = chunk.iter().filter(|count| count.last.payload.is_some());
    let differing: HashSet<Subject> = differing.map(|count| count.last.subject).collect();
    for subject in &differing {
        subjects.push(subject.uuid());
        places.push(subject.stopped_by());
    }
    if subjects.is_empty() {
        return Ok(chunk);
    }
    let ready = connection.prepare(&[KNOWN]).await?;
    let limit = PAYLOADS_MAX as i64;
    let rows = ready
        .client
        .query(ready.statement(KNOWN), &[&subjects, &places, &limit])
        .await?;
    let mut known: HashMap<(Uuid, &str), HashSet<Uuid>> = HashMap::new();
    for row in &rows {
        let of_subject = known.entry((row.get(0), row.get(1))).or_default();
        of_subject.insert(row.get(2));
    }
    let mut capped: Counts = HashMap::with_capacity(chunk.len());
    for count in chunk {
        let count = match count.last.payload.is_some() {
            false => count,
            true => {
                let subject = count.last.subject;
                let kept = known
                    .entry((subject.uuid(), subject.stopped_by()))
                    .or_default();
                let print = *count.last.fingerprint.as_uuid();
                match kept.contains(&print) || kept.len() < PAYLOADS_MAX {
                    true => {
                        kept.insert(print);
                        count
                    }
                    false => count.without_payload(),
                }
            }
        };
        let key = (count.last.subject, count.last.fingerprint);
        match capped.get_mut(&key) {
            Some(same) => same.join(count),
            None => drop(capped.insert(key, count)),
        }
    }
    Ok(capped.into_values().collect())
}
