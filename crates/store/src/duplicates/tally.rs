//! Counting repeats, and the one task that records the counts.
//!
//! Counts gather in generations. The writer takes a whole generation out, begins the next, and
//! signals when the one that it took is through. A caller that needs a repeat on disk before it
//! answers is told what became of its own row, and needs no connection of its own.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use semel_model::Fingerprint;
use tokio::sync::{Notify, oneshot, watch};
use tokio_postgres::Error;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::gathering::{Count, Entry, Gathering, PAYLOADS_MAX};
use super::statements::{KNOWN, TALLY, TALLY_AND_RAISE};
use super::{DuplicateVerdict, StoppedRepeat, Subject};
use crate::cell::Cell;
use crate::writer::connection::{ErrorClass, WriterConnection, classify};
use crate::writer::{WriteError, describe};

/// How often counts are recorded.
const FLUSH_EVERY: Duration = Duration::from_millis(200);

/// How long a caller waits for its repeat to be on disk.
const FLUSH_PATIENCE: Duration = Duration::from_secs(10);

/// How long one statement may take before its connection is abandoned.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);

/// How many different repeats may be counted before they are written at once.
const ENTRIES_SOON: usize = 4096;

/// How many rows one statement writes.
const CHUNK_MAX: usize = 1024;

/// How many bytes of payloads one statement writes, beyond its first row.
const CHUNK_BYTES_MAX: usize = 8 << 20;

/// Counts repeats and records the counts.
#[derive(Clone)]
pub struct Tally {
    gathering: Arc<Mutex<Gathering>>,
    wanted: Arc<Notify>,
    /// The latest generation that is through with all before it: committed, or refused row by row.
    written: Arc<watch::Sender<u64>>,
}

impl Tally {
    /// Starts counting; the counts are written a few times a second, over one connection.
    pub fn start(cell: &Cell) -> Self {
        let tally = Self {
            gathering: Arc::new(Mutex::new(Gathering::first())),
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
        gathering.add(Entry::of(stopped));
        if gathering.len() >= ENTRIES_SOON {
            self.wanted.notify_one();
        }
    }

    /// Counts one repeat, and waits until it is on disk: the answer promises that it is recorded.
    ///
    /// # Errors
    ///
    /// If the database refuses it or does not answer in time, or too many others wait: it is not
    /// recorded, or not known to be.
    pub async fn record(&self, stopped: StoppedRepeat) -> Result<(), WriteError> {
        if semel_model::SeededBug::DuplicateNotRecorded.is_seeded() {
            return Ok(());
        }
        let (caller, told) = oneshot::channel();
        self.gathering().add(Entry::awaited(stopped, caller));
        self.wanted.notify_one();
        match tokio::time::timeout(FLUSH_PATIENCE, told).await {
            Ok(Ok(recorded)) => recorded,
            Ok(Err(_)) => Err(WriteError::Stopped),
            Err(_) => Err(too_late()),
        }
    }

    /// Waits until everything that was counted so far is committed or refused: for lists, and for
    /// the end of the process. [`record`](Self::record) says what became of one repeat.
    pub async fn flush(&self) -> Result<(), WriteError> {
        let mut written = self.written.subscribe();
        let mine = self.gathering().generation;
        self.wanted.notify_one();
        let committed = written.wait_for(|generation| *generation >= mine);
        match tokio::time::timeout(FLUSH_PATIENCE, committed).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(WriteError::Stopped),
            Err(_) => Err(too_late()),
        }
    }

    async fn keep_writing(self, mut connection: WriterConnection) {
        loop {
            let _ = tokio::time::timeout(FLUSH_EVERY, self.wanted.notified()).await;
            let (generation, entries) = self.gathering().take();
            let left = write_all(&mut connection, entries).await;
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

    /// Makes counts that could not be written part of the generation that gathers now.
    fn put_back(&self, left: Vec<Entry>) {
        let mut gathering = self.gathering();
        left.into_iter().for_each(|entry| gathering.add(entry));
    }

    fn gathering(&self) -> MutexGuard<'_, Gathering> {
        self.gathering
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn too_late() -> WriteError {
    WriteError::Unavailable("a repeat could not be written down in time".to_owned())
}

/// Writes counts in chunks, and tells the callers that wait. Gives what could not be written now.
async fn write_all(connection: &mut WriterConnection, entries: Vec<Entry>) -> Vec<Entry> {
    let mut left = entries;
    while !left.is_empty() {
        let mut bytes = 0;
        let fits = left.iter().take(CHUNK_MAX).take_while(|entry| {
            bytes += entry.count.bytes();
            bytes <= CHUNK_BYTES_MAX
        });
        let fits = fits.count().max(1);
        let chunk: Vec<Entry> = left.drain(..fits).collect();
        match write(connection, &chunk).await {
            Ok(()) => chunk.into_iter().for_each(|entry| entry.tell(&Ok(()))),
            Err(Unwritten::Refused(_)) => write_one_by_one(connection, chunk, &mut left).await,
            Err(Unwritten::NotNow(reason)) => {
                tracing::warn!(reason, "counts of duplicates wait for the database");
                left.extend(chunk);
                return left;
            }
        }
    }
    left
}

/// One row that the database refuses must not take the others with it, nor be tried for ever. A
/// caller that waits for it learns that it is not recorded.
async fn write_one_by_one(
    connection: &mut WriterConnection,
    chunk: Vec<Entry>,
    left: &mut Vec<Entry>,
) {
    for entry in chunk {
        match write(connection, std::slice::from_ref(&entry)).await {
            Ok(()) => entry.tell(&Ok(())),
            Err(Unwritten::Refused(reason)) => {
                let run = entry.count.last.run;
                tracing::error!(run.id = %run, reason, "a duplicate is not recorded: the database refuses its row");
                entry.tell(&Err(WriteError::Refused(reason)));
            }
            Err(Unwritten::NotNow(_)) => left.push(entry),
        }
    }
}

/// Why counts are not written.
enum Unwritten {
    /// The database will never have them.
    Refused(String),
    /// The database does not answer, or asks to come again.
    NotNow(String),
}

async fn write(connection: &mut WriterConnection, chunk: &[Entry]) -> Result<(), Unwritten> {
    let counts = chunk.iter().map(|entry| entry.count.clone()).collect();
    match tokio::time::timeout(WRITE_PATIENCE, try_write(connection, counts)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(match classify(&error) {
            ErrorClass::Refused | ErrorClass::Fenced => {
                let reason = describe(&error);
                tracing::warn!(reason, "counts of duplicates are refused");
                Unwritten::Refused(reason)
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
    let arrivals = || last().map(|stopped| stopped.arrival.as_ref());
    let texts: Vec<Option<&str>> = arrivals().map(|it| it.map(|it| it.text.as_str())).collect();
    let flows: Vec<Option<&str>> = arrivals().map(|it| it.map(|it| it.flow.as_str())).collect();
    let values: [&(dyn ToSql + Sync); 12] = [
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
        &texts,
        &flows,
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
    let mut capped: HashMap<(Subject, Fingerprint), Count> = HashMap::with_capacity(chunk.len());
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
