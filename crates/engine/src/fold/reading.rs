//! Reads: what events make of the read that a run stands at.

use jiff::Timestamp;
use semel_model::Fault;

use super::{Current, RunState};

/// A read that did not succeed yet.
#[derive(Clone, Debug)]
pub struct Reading {
    /// How many attempts were made.
    pub attempts: u32,
    /// When the first one was made.
    pub since: Timestamp,
    /// When it is tried again; never, when absent.
    pub retry_at: Option<Timestamp>,
    /// Why it did not succeed.
    pub fault: Fault,
}

impl RunState {
    pub(super) fn read_failed(
        &mut self,
        fault: &Fault,
        retry_at: Option<Timestamp>,
        at: Timestamp,
    ) {
        let (attempts, since) = match &self.current {
            Current::Reading(reading) => (reading.attempts, reading.since),
            Current::Fresh
            | Current::Effect(_)
            | Current::Waiting { .. }
            | Current::Fan(_)
            | Current::Approving(_)
            | Current::Broken(_) => (0, at),
        };
        let fault = fault.clone();
        self.current = Current::Reading(Reading {
            attempts: attempts + u32::from(!fault.is_held_back()),
            since,
            retry_at,
            fault,
        });
    }
}
