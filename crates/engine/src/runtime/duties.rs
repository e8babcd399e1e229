//! Duties: the passes of each background service of this process, and those of all servers' duties, as the database has
//! them.
//!
//! A service that every server runs for itself is known here alone. A duty is done for all by one server or a few, and
//! the table `duties` says when. A duty is *late* once nobody has finished a pass of it for so long: then more servers
//! hold it, until one of its holders finishes a pass. It is *covered* while only the others do.
//!
//! Nothing here is on the path of a run: a pass leaves its mark in memory, and one statement every few seconds writes
//! the marks of all duties that this server holds.

mod record;
mod view;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use semel_store::duties::{DutyMark, DutyNote};

use super::Runtime;

pub(crate) use record::{PassBy, ServiceRecord};
pub use view::{PassFailure, ServiceView, Timeliness};

/// How many more servers hold a duty that not even the first of them finishes.
const MORE_HOLDERS_MAX: usize = 3;

/// The services of this process, and what is known of the duties of all servers.
#[derive(Default)]
pub(crate) struct Duties {
    services: Mutex<BTreeMap<&'static str, Arc<ServiceRecord>>>,
    marks: Mutex<Marks>,
}

/// The table as it was read last.
#[derive(Default)]
struct Marks {
    by_duty: BTreeMap<String, DutyMark>,
    /// Since when it has been read without a gap: nobody is blamed for silence that nobody could break.
    watched_since: Option<Timestamp>,
}

impl Duties {
    /// Adds a service of this process.
    pub(crate) fn register(
        &self,
        name: &'static str,
        holders: Option<usize>,
        late_after: Duration,
    ) -> Arc<ServiceRecord> {
        let record = Arc::new(ServiceRecord::new(name, holders, late_after));
        lock(&self.services).insert(name, record.clone());
        record
    }

    fn find(&self, name: &str) -> Option<Arc<ServiceRecord>> {
        lock(&self.services).get(name).cloned()
    }

    fn list_records(&self) -> Vec<Arc<ServiceRecord>> {
        lock(&self.services).values().cloned().collect()
    }

    /// Takes the marks that are not in the table yet.
    pub(crate) fn take_notes(&self) -> Vec<DutyNote> {
        let records = self.list_records();
        records.iter().filter_map(|it| it.take_note()).collect()
    }

    /// Puts marks back that could not be written, `age` after they were taken.
    pub(crate) fn put_back(&self, notes: Vec<DutyNote>, age: Duration) {
        for note in notes {
            if let Some(record) = self.find(note.duty) {
                record.put_back(note, age);
            }
        }
    }

    /// Takes over the table as it is now.
    pub(crate) fn follow(&self, now: Timestamp, marks: Vec<DutyMark>) {
        let mut known = lock(&self.marks);
        // The clock may have been set back.
        let since = known.watched_since.filter(|since| *since <= now);
        known.watched_since = since.or(Some(now));
        let marks = marks.into_iter().map(|mark| (mark.duty.clone(), mark));
        known.by_duty = marks.collect();
    }

    /// The table could not be read: from the next time on, it is watched anew.
    pub(crate) fn lose_sight(&self) {
        lock(&self.marks).watched_since = None;
    }

    /// The duties that are late, each with how many servers hold it besides its holders.
    pub(crate) fn list_more_holders(&self, now: Timestamp) -> BTreeMap<&'static str, usize> {
        let marks = lock(&self.marks);
        let more = |record: &Arc<ServiceRecord>| {
            let silence = marks.silence_of(record.name, now);
            let more = more_holders(silence, record.late_after);
            (record.is_duty() && more > 0).then_some((record.name, more))
        };
        self.list_records().iter().filter_map(more).collect()
    }
}

/// For how long no pass of a duty was finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Silence {
    /// By its holders.
    of_holders: Duration,
    /// By any server.
    of_all: Duration,
}

impl Marks {
    /// None before the table is watched, so that a server that starts takes nothing from others.
    fn silence_of(&self, duty: &str, now: Timestamp) -> Silence {
        let Some(since) = self.watched_since else {
            return Silence::default();
        };
        let (finished, covered) = self.last_passes(duty);
        let until_now = |at: Option<Timestamp>| between(at.map_or(since, |at| at.max(since)), now);
        Silence {
            of_holders: until_now(finished),
            of_all: until_now(finished.max(covered)),
        }
    }

    /// When a holder, and when another server, last finished a pass.
    fn last_passes(&self, duty: &str) -> (Option<Timestamp>, Option<Timestamp>) {
        let mark = self.by_duty.get(duty);
        let finished = mark.and_then(|mark| mark.finished.as_ref());
        let covered = mark.and_then(|mark| mark.covered.as_ref());
        (finished.map(|it| it.at), covered.map(|it| it.at))
    }
}

/// The next server in rank takes a duty that is late; a few more, where that one finishes nothing either.
fn more_holders(silence: Silence, late_after: Duration) -> usize {
    if silence.of_holders <= late_after {
        0
    } else if silence.of_all > late_after * 2 {
        MORE_HOLDERS_MAX
    } else {
        1
    }
}

impl Runtime {
    /// Lists the background services of this process; duties as any server did them last.
    pub fn list_services(&self) -> Vec<ServiceView> {
        let (now, roster) = (self.clock.now(), self.roster.borrow().clone());
        let marks = lock(&self.duties.marks);
        let records = self.duties.list_records();
        records
            .iter()
            .map(|record| match record.is_duty() {
                true => ServiceView::of_duty(record, &marks, now, &roster),
                false => ServiceView::of_own(record, now, &self.options.process),
            })
            .collect()
    }

    /// How many background services are late, as far as this process knows. Cheap: strangers may ask for it.
    pub fn count_late_services(&self) -> usize {
        let (now, marks) = (self.clock.now(), lock(&self.duties.marks));
        let silence = |record: &ServiceRecord| match record.is_duty() {
            true => marks.silence_of(record.name, now).of_all,
            false => record.own_silence(),
        };
        let records = self.duties.list_records();
        let late = records.iter().filter(|it| silence(it) > it.late_after);
        late.count()
    }

    /// Has a service of this process make a pass now, and waits until a pass is finished that began after this call.
    /// False where there is no such service. For tests: what two passes left alone, the service leaves alone.
    pub async fn whole_pass(&self, service: &str) -> bool {
        match self.duties.find(service) {
            Some(record) => record.whole_pass().await,
            None => false,
        }
    }
}

fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

fn before(now: Timestamp, at: Instant) -> Timestamp {
    now.checked_sub(at.elapsed()).unwrap_or(now)
}

fn lock<T>(known: &Mutex<T>) -> MutexGuard<'_, T> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
