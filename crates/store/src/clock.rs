//! The clock. Time is the database's: `moment()` in SQL, [`Clock`] in the process.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::cell::{Cell, ReadError};

pub(crate) const READ: &str = "SELECT moment()";
/// The first part of a statement whose other parts all read one time, as `now` of `present`: what
/// `moment()` says, without a call for each. The same row has the version of what is paused.
pub(crate) const PRESENT: &str = "
    WITH present AS MATERIALIZED (
        SELECT clock_timestamp() + time_offset AS now, pause_version FROM clock)";

const MOVE: &str = "UPDATE clock SET time_offset = time_offset + make_interval(secs => $1)";

pub(crate) const STATEMENTS: &[&str] = &[READ, MOVE];

/// What the database's clock says, carried on by the process between two readings.
///
/// It decides nothing that could go wrong by being a little off: instants that matter (expiry of
/// a lease, being due) are judged by the database itself.
#[derive(Debug)]
pub struct Clock {
    reading: Mutex<(Timestamp, Instant)>,
}

impl Clock {
    /// Reads the database's clock.
    pub async fn start(cell: &Cell) -> Result<Self, ReadError> {
        let now = cell.reader().await?.query_one(READ, &[]).await?.get(0);
        Ok(Self {
            reading: Mutex::new((now, Instant::now())),
        })
    }

    /// Takes over a newer reading that came with some answer.
    pub fn set(&self, now: Timestamp) {
        *self.lock() = (now, Instant::now());
    }

    /// The database's time, as far as the process can tell.
    pub fn now(&self) -> Timestamp {
        let (read, at) = *self.lock();
        read + at.elapsed()
    }

    /// A panic of whoever held it leaves a reading that is whole: the process goes on, and so does its clock.
    fn lock(&self) -> MutexGuard<'_, (Timestamp, Instant)> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Moves the clock ahead, for tests.
pub async fn move_ahead(cell: &Cell, by: Duration) -> Result<(), ReadError> {
    cell.reader()
        .await?
        .execute(MOVE, &[&by.as_secs_f64()])
        .await?;
    Ok(())
}
