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

/// How many bytes of payloads are held during an outage. Of further repeats that nobody waits for, only the count and the
/// fingerprint are kept; one whose caller waits is refused, since the caller counts on its payload.
const GATHERED_BYTES_MAX: usize = 32 << 20;

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

    /// Tells its callers that it is not recorded, and why.
    fn refuse(self, reason: &str) {
        self.tell(&Err(WriteError::Unavailable(reason.to_owned())));
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
    /// How many bytes the payloads have, with everything else that a run of its own needs.
    bytes: usize,
}

impl Gathering {
    /// The first generation.
    pub(super) fn first() -> Self {
        Self {
            generation: 1,
            ..Self::default()
        }
    }

    pub(super) fn add(&mut self, entry: Entry) {
        self.add_within(entry, GATHERED_BYTES_MAX);
    }

    fn add_within(&mut self, mut entry: Entry, bytes_max: usize) {
        let subject = entry.count.last.subject;
        let known = self.entries.get(&(subject, entry.count.last.fingerprint));
        // A known repeat has its payload, which came first.
        let grows = known.is_none_or(|known| known.count.bytes() == 0);
        if grows && self.bytes + entry.count.bytes() > bytes_max && entry.count.bytes() > 0 {
            if !entry.callers.is_empty() {
                return entry.refuse("too many payloads of repeats wait to be written down");
            }
            entry.count.last.payload = None;
        }
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
            self.bytes -= known.count.bytes();
            known.join(entry);
            self.bytes += known.count.bytes();
            return;
        }
        if self.entries.len() < ENTRIES_MAX {
            self.bytes += entry.count.bytes();
            self.entries.insert(key, entry);
            return;
        }
        entry.refuse("too many repeats wait to be written down");
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
        self.bytes = 0;
        let entries = std::mem::take(&mut self.entries);
        (generation, entries.into_values().collect())
    }
}

#[cfg(test)]
mod tests {
    use semel_model::{ClaimId, RunId};

    use super::*;

    fn repeat(number: u128) -> StoppedRepeat {
        let id = Uuid::from_u128(number);
        StoppedRepeat {
            subject: Subject::Claim(ClaimId::from_uuid(id)),
            namespace_id: 1,
            run: RunId::from_uuid(id),
            fingerprint: Fingerprint::from_uuid(id),
            kind: DuplicateVerdict::Mismatch,
            payload: Some("x".repeat(100)),
            arrival: None,
            at: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn payloads_are_bounded_by_bytes_and_every_repeat_is_counted_all_the_same() {
        let mut gathering = Gathering::first();
        let (caller, mut told) = oneshot::channel();
        let (known, mut waits) = oneshot::channel();

        for number in [1, 2, 3, 1, 3] {
            gathering.add_within(Entry::of(repeat(number)), 250);
        }
        gathering.add_within(Entry::awaited(repeat(4), caller), 250);
        gathering.add_within(Entry::awaited(repeat(1), known), 250);
        let bytes = gathering.bytes;
        let (_, mut entries) = gathering.take();
        entries.sort_by_key(|entry| entry.count.last.fingerprint.as_uuid().as_u128());

        let counted: Vec<(i64, bool)> = entries
            .iter()
            .map(|entry| (entry.count.count, entry.count.last.payload.is_some()))
            .collect();
        assert_eq!(counted, [(3, true), (1, true), (2, false)]);
        assert_eq!((bytes, gathering.bytes), (200, 0));
        assert!(
            matches!(told.try_recv(), Ok(Err(_))),
            "it counts on its payload"
        );
        assert!(waits.try_recv().is_err(), "its payload is there");
    }
}
