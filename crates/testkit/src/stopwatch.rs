//! How long something took, without the time in which the machine stood still.
//!
//! A machine that others share may stop all processes for a second or two. What a test demands of time
//! it demands of the product, so a thread does nothing but sleep: as much as it
//! oversleeps, the machine stood still.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long the sleeper sleeps at a time.
const TICK: Duration = Duration::from_millis(10);

/// What it oversleeps at most while the machine is busy, with what is tested or with anything else.
const OVERSLEEP_MAX: Duration = Duration::from_millis(250);

/// Measures from its start on, until it is dropped.
pub struct Stopwatch {
    begun: Instant,
    sleeper: Arc<Mutex<Sleeper>>,
}

/// What the thread that only sleeps has seen.
struct Sleeper {
    asleep_since: Instant,
    stood_still: Duration,
}

impl Stopwatch {
    /// Begins to measure.
    #[must_use]
    pub fn start() -> Self {
        let begun = Instant::now();
        let sleeper = Arc::new(Mutex::new(Sleeper {
            asleep_since: begun,
            stood_still: Duration::ZERO,
        }));
        let watched = Arc::downgrade(&sleeper);
        thread::spawn(move || {
            while let Some(sleeper) = watched.upgrade() {
                lock(&sleeper).wake();
                drop(sleeper);
                thread::sleep(TICK);
            }
        });
        Self { begun, sleeper }
    }

    /// How long it took until now.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        let sleeper = lock(&self.sleeper);
        // The machine may go on a moment before the sleeper does.
        let stood_still = sleeper.stood_still + sleeper.overslept();
        self.begun.elapsed().saturating_sub(stood_still)
    }
}

impl Sleeper {
    fn wake(&mut self) {
        self.stood_still += self.overslept();
        self.asleep_since = Instant::now();
    }

    /// By how much it has overslept, where that is more than a busy machine makes it.
    fn overslept(&self) -> Duration {
        let late = self.asleep_since.elapsed().saturating_sub(TICK);
        match late > OVERSLEEP_MAX {
            true => late,
            false => Duration::ZERO,
        }
    }
}

fn lock(sleeper: &Mutex<Sleeper>) -> MutexGuard<'_, Sleeper> {
    sleeper.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn what_is_waited_for_counts() {
        let stopwatch = Stopwatch::start();

        thread::sleep(Duration::from_millis(200));

        assert!(stopwatch.elapsed() >= Duration::from_millis(100));
    }

    #[test]
    fn standing_still_does_not_count() {
        let (stopwatch, begun) = (Stopwatch::start(), Instant::now());
        let pid = std::process::id();

        // Every thread of this process, for two seconds.
        let stop = format!("kill -STOP {pid}; sleep 2; kill -CONT {pid}");
        let ended = Command::new("sh").args(["-c", &stop]).status();

        assert!(ended.is_ok_and(|status| status.success()));
        assert!(begun.elapsed() >= Duration::from_secs(2));
        assert!(stopwatch.elapsed() < Duration::from_secs(1));
    }
}
