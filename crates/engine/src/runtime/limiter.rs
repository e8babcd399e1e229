//! This process's access to the gates, which admit a limited number of runs of one object.

use std::sync::{Mutex, PoisonError};

use semel_store::Cell;
use semel_store::gate_exits::Departure;
use semel_store::gates::{self, Visiting};
use semel_store::writer::Writer;

/// A process's access to the gates.
pub(crate) struct ConcurrencyLimiter {
    pub(crate) visiting: Writer<Visiting>,
    /// Exits that their gates have processed, and whose rows can be removed.
    told: Mutex<Vec<Departure>>,
}

impl ConcurrencyLimiter {
    pub(crate) fn start(cell: &Cell) -> Self {
        Self {
            visiting: gates::start_visiting(cell),
            told: Mutex::default(),
        }
    }

    pub(crate) fn note_told(&self, departures: impl IntoIterator<Item = Departure>) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.extend(departures);
    }

    pub(crate) fn take_told(&self) -> Vec<Departure> {
        std::mem::take(&mut *self.told.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
