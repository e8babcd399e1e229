//! The clock that a lease is measured with: it keeps running while the machine is suspended.
//!
//! `Instant` and the runtime's timers stop during suspend, so a worker that measured its lease with
//! them would wake up believing that no time had passed.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Time since the machine was started, suspended time included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Boottime(Duration);

impl Boottime {
    /// Now.
    pub fn now() -> Self {
        let time = clock_gettime(ClockId::Boottime);
        let secs = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
        Self(Duration::new(secs, nanos))
    }

    /// Milliseconds since the start of the machine.
    pub fn as_millis(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }
}
