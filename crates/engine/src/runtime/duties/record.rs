//! The record of a service of this process: its passes, and the marks that they leave.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use semel_store::duties::DutyNote;
use tokio::sync::{Notify, watch};

use super::lock;
use crate::runtime::Roster;

/// The capacity in which a server made a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PassBy {
    /// As a holder of the duty, or of a service that every server runs for itself.
    Holder,
    /// As the server that took a duty because it was late.
    Substitute,
    /// As a server that something woke. The holders are still responsible, so that this leaves no mark.
    Woken,
}

/// The record of one service.
pub(crate) struct ServiceRecord {
    pub(super) name: &'static str,
    /// How many servers hold the duty; none where every server does it for itself.
    holders: Option<usize>,
    /// How long nobody may have finished a pass before the service is late.
    pub(super) late_after: Duration,
    /// Somebody asked for a pass.
    asked: Notify,
    passes: watch::Sender<PassCount>,
    said: Mutex<Said>,
}

/// How many passes were begun, and the number of the last one that was finished.
#[derive(Clone, Copy, Debug, Default)]
struct PassCount {
    begun: u64,
    finished: u64,
}

/// The marks of the last passes.
pub(super) struct Said {
    /// When the service began.
    since: Instant,
    /// When this process last finished a pass.
    pub(super) finished: Option<Instant>,
    /// When a pass last failed here, and why.
    pub(super) failed: Option<(Instant, String)>,
    unwritten: Unwritten,
}

/// Marks that are not in the table yet.
#[derive(Default)]
struct Unwritten {
    finished: Option<Instant>,
    covered: Option<Instant>,
    failed: Option<(Instant, String)>,
}

impl ServiceRecord {
    pub(crate) fn new(name: &'static str, holders: Option<usize>, late_after: Duration) -> Self {
        Self {
            name,
            holders,
            late_after,
            asked: Notify::new(),
            passes: watch::Sender::default(),
            said: Mutex::new(Said {
                since: Instant::now(),
                finished: None,
                failed: None,
                unwritten: Unwritten::default(),
            }),
        }
    }

    /// Whether one server or a few do it for all.
    pub(super) fn is_duty(&self) -> bool {
        self.holders.is_some()
    }

    /// Whether this server does it.
    pub(super) fn is_held(&self, roster: &Roster) -> bool {
        let holders = self.holders;
        holders.is_none_or(|holders| roster.holds(self.name, holders))
    }

    /// Completes when somebody asks for a pass.
    pub(crate) async fn asked(&self) {
        self.asked.notified().await;
    }

    /// A pass begins.
    pub(crate) fn begin(&self) {
        self.passes.send_modify(|passes| passes.begun += 1);
    }

    /// The pass that began last is finished.
    pub(crate) fn finish(&self, by: PassBy) {
        let now = Instant::now();
        {
            let mut said = lock(&self.said);
            said.finished = Some(now);
            match by {
                PassBy::Holder => said.unwritten.finished = Some(now),
                PassBy::Substitute => said.unwritten.covered = Some(now),
                PassBy::Woken => {}
            }
        }
        self.passes
            .send_modify(|passes| passes.finished = passes.begun);
    }

    /// The pass that began last failed.
    pub(crate) fn fail(&self, by: PassBy, error: &str) {
        let failed = (Instant::now(), error.to_owned());
        let mut said = lock(&self.said);
        if by != PassBy::Woken {
            said.unwritten.failed = Some(failed.clone());
        }
        said.failed = Some(failed);
    }

    /// For how long this process has finished no pass.
    pub(super) fn own_silence(&self) -> Duration {
        let said = lock(&self.said);
        said.finished.unwrap_or(said.since).elapsed()
    }

    /// The number of the last pass that was finished.
    pub(crate) fn last_finished(&self) -> u64 {
        self.passes.borrow().finished
    }

    /// Reads the marks of the last passes.
    pub(super) fn read<T>(&self, read: impl FnOnce(&Said) -> T) -> T {
        read(&lock(&self.said))
    }

    /// Takes the marks that are not in the table yet; none where there is nothing new.
    pub(super) fn take_note(&self) -> Option<DutyNote> {
        if !self.is_duty() {
            return None;
        }
        let Unwritten {
            finished,
            covered,
            failed,
        } = std::mem::take(&mut lock(&self.said).unwritten);
        let is_anything = finished.is_some() || covered.is_some() || failed.is_some();
        is_anything.then(|| DutyNote {
            duty: self.name,
            finished: finished.map(|at| at.elapsed()),
            covered: covered.map(|at| at.elapsed()),
            failed: failed.map(|(at, error)| (at.elapsed(), error)),
            late_after: self.late_after,
        })
    }

    /// Puts marks back that could not be written, `age` after they were taken. Newer ones stay.
    pub(super) fn put_back(&self, note: DutyNote, age: Duration) {
        let at = |before: Duration| Instant::now().checked_sub(before + age);
        let mut said = lock(&self.said);
        let unwritten = &mut said.unwritten;
        unwritten.finished = unwritten.finished.or(note.finished.and_then(at));
        unwritten.covered = unwritten.covered.or(note.covered.and_then(at));
        if unwritten.failed.is_none() {
            let failed = note.failed;
            unwritten.failed = failed.and_then(|(before, error)| Some((at(before)?, error)));
        }
    }

    /// Asks for a pass, and waits until one is finished that began after this call.
    pub(crate) async fn whole_pass(&self) -> bool {
        let mut passes = self.passes.subscribe();
        let begun = passes.borrow().begun;
        self.asked.notify_one();
        let finished = passes.wait_for(|passes| passes.finished > begun);
        finished.await.is_ok()
    }
}
