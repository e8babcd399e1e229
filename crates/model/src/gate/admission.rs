//! What a gate decides: who is let in, who waits, who gives way. Pure.
//!
//! A book is opened with the part of a gate's tickets that a visit can concern, the gate held by
//! whoever opened it. It answers visits one after the other and keeps what has to be written down.

mod replace;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;

use super::{GateEntry, Place, Policy, Rate, Rules, Verdict, WakeUp};
use crate::id::RunId;
use crate::seeded_bug::SeededBug;

/// How long before its start a run is called, so that starts close to each other need not wait for
/// each other's turns.
const CALL_AHEAD: Duration = Duration::from_millis(1_500);

/// The starts that are still free, by the clock.
#[derive(Clone, Debug, Default)]
pub struct Shares {
    /// How many runs the gate let in so far.
    pub started: i64,
    /// When those starts happened that the next ones have to keep their distance from, in order;
    /// nothing where there was none. At most [`Shares::LOADED_MAX`] of them.
    pub past: VecDeque<Option<Timestamp>>,
}

impl Shares {
    /// How many are looked at together.
    pub const LOADED_MAX: u32 = 64;
}

/// What one run asks of a gate.
#[derive(Clone, Copy, Debug)]
pub enum Visit {
    /// To be let in, or to be told where it stands.
    Enter {
        /// When its delivery was accepted.
        accepted_at: Timestamp,
        /// The row of its journal after which it comes.
        since: i32,
        /// What its release says.
        rules: Rules,
    },
    /// To be forgotten: it has ended.
    Leave {
        /// The row of its journal by which it ended.
        seq: i32,
    },
}

/// A run that asks to be let in.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The run.
    pub run: RunId,
    /// When its delivery was accepted.
    pub accepted_at: Timestamp,
    /// The row of its journal after which it comes.
    pub since: i32,
    /// What its release says.
    pub rules: Rules,
}

/// A gate, while it is held.
#[derive(Clone, Debug)]
pub struct AdmissionState {
    /// The most runs inside.
    pub concurrency: Option<u32>,
    /// How often runs may be let in.
    pub rate: Option<Rate>,
    /// How many are inside.
    pub inside: u32,
    /// How many are called.
    pub called: u32,
    /// Which starts are free.
    pub shares: Shares,
    /// Everybody known here.
    pub tickets: BTreeMap<RunId, GateEntry>,
    /// Tickets that changed; nothing where one is gone.
    pub changed: BTreeMap<RunId, Option<GateEntry>>,
    /// Starts that happened now.
    pub new_starts: u32,
    now: Timestamp,
    summons: Vec<WakeUp>,
    wanted: Option<RunId>,
}

impl AdmissionState {
    /// A gate that nobody is at.
    pub fn new(now: Timestamp) -> Self {
        Self {
            concurrency: None,
            rate: None,
            inside: 0,
            called: 0,
            shares: Shares::default(),
            tickets: BTreeMap::new(),
            changed: BTreeMap::new(),
            new_starts: 0,
            now,
            summons: Vec::new(),
            wanted: None,
        }
    }

    /// Enters somebody as the store knows them.
    pub fn load(&mut self, ticket: GateEntry) {
        self.tickets.insert(ticket.run, ticket);
    }

    /// Lets a run in, or tells it where it stands.
    pub fn enter(&mut self, arrival: Arrival) -> Verdict {
        let Arrival { run, rules, .. } = arrival;
        self.concurrency = rules.concurrency;
        self.rate = rules.rate;
        let Some(ticket) = self.tickets.get(&run).copied() else {
            return self.arrive(arrival);
        };
        match ticket.place {
            Place::Running => Verdict::In,
            Place::Granted => self.come(ticket),
            Place::Debouncing => match ticket.ready_at {
                Some(at) if self.now < at => wait_until(at),
                Some(_) | None => self.queue_up(ticket),
            },
            Place::Waiting => {
                self.settle();
                if rules.policy == Policy::Replace {
                    self.want_place(&ticket);
                }
                self.look(run)
            }
            Place::Joining => match ticket.behind {
                Some(run) => Verdict::Join {
                    run,
                    ended: ticket.summoned,
                },
                None => self.queue_up(ticket),
            },
            Place::Dropped => Verdict::Dropped {
                by: ticket.behind.unwrap_or(run),
            },
        }
    }

    /// Forgets a run that has ended, and lets the next in.
    pub fn leave(&mut self, run: RunId, seq: i32) {
        // A run that was resumed after that end has come anew.
        let is_over = |ticket: &GateEntry| ticket.since < seq;
        if self.tickets.get(&run).is_some_and(is_over)
            && let Some(ticket) = self.tickets.remove(&run)
        {
            self.changed.insert(run, None);
            match ticket.place {
                Place::Running => self.inside = self.inside.saturating_sub(1),
                Place::Granted => self.called = self.called.saturating_sub(1),
                Place::Waiting | Place::Debouncing | Place::Joining | Place::Dropped => {}
            }
        }
        let joined = |ticket: &&GateEntry| {
            ticket.place == Place::Joining && ticket.behind == Some(run) && !ticket.summoned
        };
        let joined: Vec<GateEntry> = self.tickets.values().filter(joined).copied().collect();
        for ticket in joined {
            self.summon(ticket, self.now);
        }
        self.settle();
    }

    /// Who has to be told something since this was last asked.
    pub fn take_summons(&mut self) -> Vec<WakeUp> {
        std::mem::take(&mut self.summons)
    }

    /// Whose end is wanted since this was last asked.
    pub fn take_wanted(&mut self) -> Option<RunId> {
        self.wanted.take()
    }

    /// Whether nobody is at the gate, as far as anybody has to be counted.
    pub fn is_empty(&self) -> bool {
        self.inside == 0 && self.called == 0 && !self.has_line()
    }

    /// Whether somebody known here is in line.
    pub fn has_line(&self) -> bool {
        self.first_in_line().is_some()
    }

    /// Whether another one could be inside.
    pub fn has_room(&self) -> bool {
        self.concurrency
            .map(|most| most + u32::from(SeededBug::GateOneTooMany.is_seeded()))
            .is_none_or(|most| self.inside + self.called < most)
    }

    /// A run's first visit.
    fn arrive(&mut self, arrival: Arrival) -> Verdict {
        let Arrival {
            run,
            accepted_at,
            since,
            rules,
        } = arrival;
        let ticket = GateEntry {
            run,
            place: Place::Waiting,
            accepted_at,
            since,
            behind: None,
            ready_at: None,
            summoned: false,
        };
        if let Some(quiet) = rules.debounce {
            if let Some(by) = self.drop_older(&ticket) {
                return Verdict::Dropped { by };
            }
            let ready_at = accepted_at + quiet.to_duration();
            if ready_at > self.now {
                let resting = GateEntry {
                    place: Place::Debouncing,
                    ready_at: Some(ready_at),
                    ..ticket
                };
                self.put(resting);
                return wait_until(ready_at);
            }
        }
        match (rules.policy, self.holder()) {
            (Policy::Queue, _) | (_, None) => self.queue_up(ticket),
            (Policy::Skip, Some(holder)) => Verdict::Skip { by: holder.run },
            (Policy::Join, Some(holder)) => {
                let (place, behind) = (Place::Joining, Some(holder.run));
                self.put(GateEntry {
                    place,
                    behind,
                    ..ticket
                });
                Verdict::Join {
                    run: holder.run,
                    ended: false,
                }
            }
            (Policy::Replace, Some(_)) => self.replace(ticket),
        }
    }

    /// Somebody who is inside, or as good as.
    fn holder(&self) -> Option<GateEntry> {
        let of = |place: Place| self.tickets.values().find(|ticket| ticket.place == place);
        of(Place::Running).or_else(|| of(Place::Granted)).copied()
    }

    fn queue_up(&mut self, ticket: GateEntry) -> Verdict {
        self.put(GateEntry {
            place: Place::Waiting,
            ready_at: None,
            ..ticket
        });
        self.settle();
        self.look(ticket.run)
    }

    /// Where a run stands that is in line or was called from it.
    fn look(&mut self, run: RunId) -> Verdict {
        match self.tickets.get(&run).copied() {
            Some(ticket) if ticket.place == Place::Granted => self.come(ticket),
            Some(_) | None => Verdict::Wait {
                behind: self.holder().map(|holder| holder.run),
                until: None,
            },
        }
    }

    /// A run that was called has come.
    fn come(&mut self, ticket: GateEntry) -> Verdict {
        match self.share(0) {
            Some(at) if at <= self.now => {
                self.called = self.called.saturating_sub(1);
                self.inside += 1;
                self.start();
                // Whoever has come need not be told.
                self.summons.retain(|summons| summons.run != ticket.run);
                self.put(GateEntry {
                    place: Place::Running,
                    ready_at: None,
                    summoned: false,
                    ..ticket
                });
                self.settle();
                Verdict::In
            }
            later => {
                let at = later.unwrap_or(self.now + CALL_AHEAD);
                self.summons.retain(|summons| summons.run != ticket.run);
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
        self.shares.started += 1;
        self.shares.past.pop_front();
        // The start of now is the one to keep away from after so many others.
        if rate.most <= Shares::LOADED_MAX {
            self.shares.past.push_back(Some(self.now));
        }
    }

    /// When the start after so many others is free; nothing where that is not known here.
    fn share(&self, index: u32) -> Option<Timestamp> {
        let Some(rate) = self.rate else {
            return Some(self.now);
        };
        let past = self.shares.past.get(index as usize)?;
        Some(past.map_or(self.now, |at| at + rate.per.to_duration()))
    }

    /// Calls whoever is first in line, for as long as there is room.
    fn settle(&mut self) {
        while self.has_room() {
            let Some(ready_at) = self.share(self.called) else {
                return;
            };
            let soon = self.now + CALL_AHEAD;
            if self.rate.is_some() && self.called > 0 && ready_at > soon {
                return;
            }
            let Some(first) = self.first_in_line() else {
                return;
            };
            self.called += 1;
            let called = GateEntry {
                place: Place::Granted,
                ready_at: Some(ready_at),
                ..first
            };
            self.summon(called, ready_at.max(self.now));
        }
    }

    fn first_in_line(&self) -> Option<GateEntry> {
        let waiting = |ticket: &&GateEntry| ticket.place == Place::Waiting;
        let first = self.tickets.values().filter(waiting);
        first
            .min_by_key(|ticket| (ticket.accepted_at, ticket.run))
            .copied()
    }

    fn summon(&mut self, ticket: GateEntry, at: Timestamp) {
        let run = ticket.run;
        self.summons.push(WakeUp { run, at });
        self.put(GateEntry {
            summoned: true,
            ..ticket
        });
    }

    fn put(&mut self, ticket: GateEntry) {
        self.tickets.insert(ticket.run, ticket);
        self.changed.insert(ticket.run, Some(ticket));
    }
}

const fn wait_until(at: Timestamp) -> Verdict {
    Verdict::Wait {
        behind: None,
        until: Some(at),
    }
}

#[cfg(test)]
mod tests;
