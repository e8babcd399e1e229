//! Counts of repeats that gather until they are written, and the callers that wait for theirs.

use std::collections::HashMap;

use jiff::Timestamp;
use semel_model::Fingerprint;
use tokio::sync::oneshot;
use uuid::Uuid;

use super::{DuplicateVerdict, StoppedRepeat, Subject};
use crate::writer::WriteError;

/// How many differing payloads of one subject are kept; further ones are counted together.
pub const PAYLOADS_MAX: usize = 5;

/// How many different repeats are held during an outage. Further ones are not counted.
const ENTRIES_MAX: usize = 65_536;

/// The word that a caller gets about its repeat.
pub(super) type Recorded = Result<(), WriteError>;

/// How often a repeat came.
#[derive(Clone)]
pub(super) struct Count {
    pub(super) last: StoppedRepeat,
    pub(super) first_at: Timestamp,
    pub(super) count: i64,
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
    pub(super) fn join(&mut self, other: Self) {
        self.count += other.count;
        self.first_at = self.first_at.min(other.first_at);
        if other.last.at >= self.last.at {
            // A payload is kept as it came first.
            let (payload, arrival) = (self.last.payload.take(), self.last.arrival.take());
            let held = [self.last.kind, other.last.kind].contains(&DuplicateVerdict::Held);
            self.last = other.last;
            // A held one stays held, as in the table.
            if held {
                self.last.kind = DuplicateVerdict::Held;
            }
            self.last.payload = payload.or_else(|| self.last.payload.take());
            self.last.arrival = arrival.or_else(|| self.last.arrival.take());
        }
    }

    /// The same as one of the many of its subject that are only counted.
    pub(super) fn without_payload(mut self) -> Self {
        self.last.fingerprint = Fingerprint::from_uuid(Uuid::nil());
        self.last.payload = None;
        self
    }

    pub(super) fn bytes(&self) -> usize {
        let payload = self.last.payload.as_ref().map_or(0, String::len);
        let arrival = self.last.arrival.as_ref();
        payload + arrival.map_or(0, |arrival| arrival.text.len())
    }
}

/// A count, and the callers that wait until it is on disk.
pub(super) struct Entry {
    pub(super) count: Count,
    callers: Vec<oneshot::Sender<Recorded>>,
}

impl Entry {
    /// A repeat that nobody waits for.
    pub(super) fn of(stopped: StoppedRepeat) -> Self {
        Self {
            count: Count::of(stopped),
            callers: Vec::new(),
        }
    }

    /// A repeat whose caller waits.
    pub(super) fn awaited(stopped: StoppedRepeat, caller: oneshot::Sender<Recorded>) -> Self {
        Self {
            count: Count::of(stopped),
            callers: vec![caller],
        }
    }

    fn join(&mut self, other: Self) {
        self.count.join(other.count);
        self.callers.extend(other.callers);
    }

    /// Tells its callers what became of it.
    pub(super) fn tell(self, recorded: &Recorded) {
        for caller in self.callers {
            // One that no longer waits has lost nothing.
            let _ = caller.send(recorded.clone());
        }
    }
}

/// The repeats of one generation, until they are taken out.
#[derive(Default)]
pub(super) struct Gathering {
    pub(super) generation: u64,
    entries: HashMap<(Subject, Fingerprint), Entry>,
    /// How many payloads are held for each subject.
    payloads: HashMap<Subject, usize>,
}

impl Gathering {
    /// The first generation.
    pub(super) fn first() -> Self {
        Self {
            generation: 1,
            ..Self::default()
        }
    }

    pub(super) fn add(&mut self, mut entry: Entry) {
        let subject = entry.count.last.subject;
        let is_known = |print| self.entries.contains_key(&(subject, print));
        if entry.count.last.payload.is_some() && !is_known(entry.count.last.fingerprint) {
            let held = self.payloads.entry(subject).or_default();
            match *held >= PAYLOADS_MAX {
                true => entry.count = entry.count.without_payload(),
                false => *held += 1,
            }
        }
        let key = (subject, entry.count.last.fingerprint);
        if let Some(known) = self.entries.get_mut(&key) {
            return known.join(entry);
        }
        if self.entries.len() < ENTRIES_MAX {
            self.entries.insert(key, entry);
            return;
        }
        let reason = "too many repeats wait to be written down";
        entry.tell(&Err(WriteError::Unavailable(reason.to_owned())));
    }

    /// How many different repeats there are.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Takes out what was gathered; what comes from now on belongs to the next generation.
    pub(super) fn take(&mut self) -> (u64, Vec<Entry>) {
        let generation = self.generation;
        self.generation += 1;
        self.payloads.clear();
        let entries = std::mem::take(&mut self.entries);
        (generation, entries.into_values().collect())
    }
}
