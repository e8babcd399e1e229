//! A gate's decisions: which run is admitted, which waits, which gives way. Pure.
//!
//! The caller locks the gate and loads the entries that a visit can concern. [`AdmissionState`]
//! answers visits one after the other and collects the changes to store.

mod replace;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;

use super::{GateEntry, GatePlace, GatePolicy, GateRules, GateVerdict, Rate, WakeUp};
use crate::id::RunId;
use crate::seeded_bug::SeededBug;

/// How long before its start a run is granted its place, so that starts close to each other need
/// not wait for each other's turns.
const CALL_AHEAD: Duration = Duration::from_millis(1_500);

/// The starts that the rate still allows.
#[derive(Clone, Debug, Default)]
pub struct FreeStarts {
    /// How many runs the gate admitted so far.
    pub started: i64,
    /// The earlier starts that limit when the next ones may happen, in order; `None` where there
    /// was none. At most [`FreeStarts::LOADED_MAX`] of them.
    pub past: VecDeque<Option<Timestamp>>,
}

impl FreeStarts {
    /// How many are loaded together.
    pub const LOADED_MAX: u32 = 64;
}

/// What one run asks of a gate.
#[derive(Clone, Copy, Debug)]
pub enum GateOperation {
    /// To be admitted, or to learn its place.
    Enter {
        /// When its delivery was accepted.
        accepted_at: Timestamp,
        /// The row of its journal after which it comes.
        since: i32,
        /// What its release says.
        rules: GateRules,
    },
    /// To be removed: it has ended.
    Leave {
        /// The row of its journal by which it ended.
        seq: i32,
    },
}

/// A run that asks to be admitted.
#[derive(Clone, Copy, Debug)]
pub struct EntryRequest {
    /// The run.
    pub run: RunId,
    /// When its delivery was accepted.
    pub accepted_at: Timestamp,
    /// The row of its journal after which it comes.
    pub since: i32,
    /// What its release says.
    pub rules: GateRules,
}

/// A gate, while it is locked.
#[derive(Clone, Debug)]
pub struct AdmissionState {
    /// The most runs at a time.
    pub concurrency: Option<u32>,
    /// How often runs may be admitted.
    pub rate: Option<Rate>,
    /// How many are running.
    pub running: u32,
    /// How many are granted a place and have not come yet.
    pub granted: u32,
    /// The starts that the rate still allows.
    pub free_starts: FreeStarts,
    /// The entries that were loaded or added.
    pub entries: BTreeMap<RunId, GateEntry>,
    /// Entries that changed; `None` for one that was removed.
    pub changed: BTreeMap<RunId, Option<GateEntry>>,
    /// Starts that happened now.
    pub new_starts: u32,
    now: Timestamp,
    wake_ups: Vec<WakeUp>,
    wanted: Option<RunId>,
}

impl AdmissionState {
    /// A gate without entries.
    pub fn new(now: Timestamp) -> Self {
        Self {
            concurrency: None,
            rate: None,
            running: 0,
            granted: 0,
            free_starts: FreeStarts::default(),
            entries: BTreeMap::new(),
            changed: BTreeMap::new(),
            new_starts: 0,
            now,
            wake_ups: Vec::new(),
            wanted: None,
        }
    }

    /// Adds an entry as the store has it.
    pub fn load(&mut self, ticket: GateEntry) {
        self.entries.insert(ticket.run, ticket);
    }

    /// Admits a run, or returns its place.
    pub fn enter(&mut self, arrival: EntryRequest) -> GateVerdict {
        let EntryRequest { run, rules, .. } = arrival;
        self.concurrency = rules.concurrency;
        self.rate = rules.rate;
        let Some(ticket) = self.entries.get(&run).copied() else {
            return self.arrive(arrival);
        };
        match ticket.place {
            GatePlace::Running => GateVerdict::In,
            GatePlace::Granted => self.come(ticket),
            GatePlace::Debouncing => match ticket.ready_at {
                Some(at) if self.now < at => wait_until(at),
                Some(_) | None => self.queue_up(ticket),
            },
            GatePlace::Waiting => {
                self.settle();
                if rules.policy == GatePolicy::Replace {
                    self.want_place(&ticket);
                }
                self.look(run)
            }
            GatePlace::Joining => match ticket.related_run {
                Some(run) => GateVerdict::Join {
                    run,
                    ended: ticket.needs_wake_up,
                },
                None => self.queue_up(ticket),
            },
            GatePlace::Dropped => GateVerdict::Dropped {
                by: ticket.related_run.unwrap_or(run),
            },
        }
    }

    /// Removes a run that has ended, and admits the next.
    pub fn leave(&mut self, run: RunId, seq: i32) {
        // A run that was resumed after that end entered the gate again.
        let is_over = |ticket: &GateEntry| ticket.after_seq < seq;
        if self.entries.get(&run).is_some_and(is_over)
            && let Some(ticket) = self.entries.remove(&run)
        {
            self.changed.insert(run, None);
            match ticket.place {
                GatePlace::Running => self.running = self.running.saturating_sub(1),
                GatePlace::Granted => self.granted = self.granted.saturating_sub(1),
                GatePlace::Waiting
                | GatePlace::Debouncing
                | GatePlace::Joining
                | GatePlace::Dropped => {}
            }
        }
        let joined = |ticket: &&GateEntry| {
            ticket.place == GatePlace::Joining
                && ticket.related_run == Some(run)
                && !ticket.needs_wake_up
        };
        let joined: Vec<GateEntry> = self.entries.values().filter(joined).copied().collect();
        for ticket in joined {
            self.summon(ticket, self.now);
        }
        self.settle();
    }

    /// Takes the runs to wake since the last call.
    pub fn take_summons(&mut self) -> Vec<WakeUp> {
        std::mem::take(&mut self.wake_ups)
    }

    /// Takes the run that has to end since the last call.
    pub fn take_wanted(&mut self) -> Option<RunId> {
        self.wanted.take()
    }

    /// Whether no run counts: none is running, granted or in line.
    pub fn is_empty(&self) -> bool {
        self.running == 0 && self.granted == 0 && !self.has_line()
    }

    /// Whether a loaded run is in line.
    pub fn has_line(&self) -> bool {
        self.first_in_line().is_some()
    }

    /// Whether there is room for another run.
    pub fn has_room(&self) -> bool {
        self.concurrency
            .map(|most| most + u32::from(SeededBug::GateOneTooMany.is_seeded()))
            .is_none_or(|most| self.running + self.granted < most)
    }

    /// A run's first visit.
    fn arrive(&mut self, arrival: EntryRequest) -> GateVerdict {
        let EntryRequest {
            run,
            accepted_at,
            since,
            rules,
        } = arrival;
        let ticket = GateEntry {
            run,
            place: GatePlace::Waiting,
            accepted_at,
            after_seq: since,
            related_run: None,
            ready_at: None,
            needs_wake_up: false,
        };
        if let Some(quiet) = rules.debounce {
            if let Some(by) = self.drop_older(&ticket) {
                return GateVerdict::Dropped { by };
            }
            let ready_at = accepted_at + quiet.to_duration();
            if ready_at > self.now {
                let resting = GateEntry {
                    place: GatePlace::Debouncing,
                    ready_at: Some(ready_at),
                    ..ticket
                };
                self.put(resting);
                return wait_until(ready_at);
            }
        }
        match (rules.policy, self.holder()) {
            (GatePolicy::Queue, _) | (_, None) => self.queue_up(ticket),
            (GatePolicy::Skip, Some(holder)) => GateVerdict::Skip { by: holder.run },
            (GatePolicy::Join, Some(holder)) => {
                let (place, behind) = (GatePlace::Joining, Some(holder.run));
                self.put(GateEntry {
                    place,
                    related_run: behind,
                    ..ticket
                });
                GateVerdict::Join {
                    run: holder.run,
                    ended: false,
                }
            }
            (GatePolicy::Replace, Some(_)) => self.replace(ticket),
        }
    }

    /// A run that is running, or was granted its place.
    fn holder(&self) -> Option<GateEntry> {
        let of = |place: GatePlace| self.entries.values().find(|ticket| ticket.place == place);
        of(GatePlace::Running)
            .or_else(|| of(GatePlace::Granted))
            .copied()
    }

    fn queue_up(&mut self, ticket: GateEntry) -> GateVerdict {
        self.put(GateEntry {
            place: GatePlace::Waiting,
            ready_at: None,
            ..ticket
        });
        self.settle();
        self.look(ticket.run)
    }

    /// The place of a run that is in line or was granted its place.
    fn look(&mut self, run: RunId) -> GateVerdict {
        match self.entries.get(&run).copied() {
            Some(ticket) if ticket.place == GatePlace::Granted => self.come(ticket),
            Some(_) | None => GateVerdict::Wait {
                behind: self.holder().map(|holder| holder.run),
                until: None,
            },
        }
    }

    /// A granted run has come.
    fn come(&mut self, ticket: GateEntry) -> GateVerdict {
        match self.share(0) {
            Some(at) if at <= self.now => {
                self.granted = self.granted.saturating_sub(1);
                self.running += 1;
                self.start();
                // The run has come, so it need not be woken.
                self.wake_ups.retain(|summons| summons.run != ticket.run);
                self.put(GateEntry {
                    place: GatePlace::Running,
                    ready_at: None,
                    needs_wake_up: false,
                    ..ticket
                });
                self.settle();
                GateVerdict::In
            }
            later => {
                let at = later.unwrap_or(self.now + CALL_AHEAD);
                self.wake_ups.retain(|summons| summons.run != ticket.run);
                let ready_at = Some(at);
                self.put(GateEntry { ready_at, ..ticket });
                wait_until(at)
            }
        }
    }

    fn start(&mut self) {
        let Some(rate) = self.rate else {
            return;
        };
        self.new_starts += 1;
        self.free_starts.started += 1;
        self.free_starts.past.pop_front();
        // The start of now limits the start that comes `rate.most` later.
        if rate.most <= FreeStarts::LOADED_MAX {
            self.free_starts.past.push_back(Some(self.now));
        }
    }

    /// When the start after `index` others is allowed; nothing where that was not loaded.
    fn share(&self, index: u32) -> Option<Timestamp> {
        let Some(rate) = self.rate else {
            return Some(self.now);
        };
        let past = self.free_starts.past.get(index as usize)?;
        Some(past.map_or(self.now, |at| at + rate.per.to_duration()))
    }

    /// Grants places to the runs that are first in line, for as long as there is room.
    fn settle(&mut self) {
        while self.has_room() {
            let Some(ready_at) = self.share(self.granted) else {
                return;
            };
            let soon = self.now + CALL_AHEAD;
            if self.rate.is_some() && self.granted > 0 && ready_at > soon {
                return;
            }
            let Some(first) = self.first_in_line() else {
                return;
            };
            self.granted += 1;
            let called = GateEntry {
                place: GatePlace::Granted,
                ready_at: Some(ready_at),
                ..first
            };
            self.summon(called, ready_at.max(self.now));
        }
    }

    fn first_in_line(&self) -> Option<GateEntry> {
        let waiting = |ticket: &&GateEntry| ticket.place == GatePlace::Waiting;
        let first = self.entries.values().filter(waiting);
        first
            .min_by_key(|ticket| (ticket.accepted_at, ticket.run))
            .copied()
    }

    fn summon(&mut self, ticket: GateEntry, at: Timestamp) {
        let run = ticket.run;
        self.wake_ups.push(WakeUp { run, at });
        self.put(GateEntry {
            needs_wake_up: true,
            ..ticket
        });
    }

    fn put(&mut self, ticket: GateEntry) {
        self.entries.insert(ticket.run, ticket);
        self.changed.insert(ticket.run, Some(ticket));
    }
}

const fn wait_until(at: Timestamp) -> GateVerdict {
    GateVerdict::Wait {
        behind: None,
        until: Some(at),
    }
}

#[cfg(test)]
mod tests;
