//! This process's access to the gates, which admit a limited number of runs of one object.

use std::sync::{Mutex, MutexGuard, PoisonError};

use semel_store::Cell;
use semel_store::gate_exits::GateExit;
use semel_store::gates::{self, AdmissionBatch};
use semel_store::writer::Writer;

/// A process's access to the gates.
pub(crate) struct ConcurrencyLimiter {
    pub(crate) visiting: Writer<AdmissionBatch>,
    /// Exits that their gates have recorded, and whose rows can be removed.
    recorded_exits: Mutex<Vec<GateExit>>,
}

impl ConcurrencyLimiter {
    pub(crate) fn start(cell: &Cell) -> Self {
        Self {
            visiting: gates::start_visiting(cell),
            recorded_exits: Mutex::default(),
        }
    }

    /// Notes exits that their gates have recorded.
    pub(crate) fn note_recorded_exits(&self, exits: impl IntoIterator<Item = GateExit>) {
        self.recorded_exits().extend(exits);
    }

    /// The exits noted since the last call.
    pub(crate) fn take_recorded_exits(&self) -> Vec<GateExit> {
        std::mem::take(&mut *self.recorded_exits())
    }

    fn recorded_exits(&self) -> MutexGuard<'_, Vec<GateExit>> {
        self.recorded_exits
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
