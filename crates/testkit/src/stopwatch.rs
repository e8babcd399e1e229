//! How long something took, without the time in which the machine stood still.
//!
//! A machine that others share may stop all processes for a second or two. What a test demands of time
//! it demands of the product, so a thread that does nothing but sleep is the witness: as much as it
//! oversleeps, the machine stood still.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long the witness sleeps at a time.
const TICK: Duration = Duration::from_millis(10);

/// What it oversleeps at most while the machine is busy, with what is tested or with anything else.
const OVERSLEEP_MAX: Duration = Duration::from_millis(250);

/// Measures from its start on, until it is dropped.
pub struct Stopwatch {
    begun: Instant,
    stood_still_ms: Arc<AtomicU64>,
}

impl Stopwatch {
    /// Begins to measure.
    #[must_use]
    pub fn start() -> Self {
        let begun = Instant::now();
        let stood_still_ms = Arc::new(AtomicU64::new(0));
        let noted = Arc::downgrade(&stood_still_ms);
        thread::spawn(move || {
            loop {
                let asleep_since = Instant::now();
                thread::sleep(TICK);
                let late = asleep_since.elapsed().saturating_sub(TICK);
                let Some(noted) = noted.upgrade() else {
                    return;
                };
                if late > OVERSLEEP_MAX {
                    let late = u64::try_from(late.as_millis()).unwrap_or(u64::MAX);
                    noted.fetch_add(late, Ordering::Relaxed);
                }
            }
        });
        Self {
            begun,
            stood_still_ms,
        }
    }

    /// How long it took until now.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        let stood_still = Duration::from_millis(self.stood_still_ms.load(Ordering::Relaxed));
        self.begun.elapsed().saturating_sub(stood_still)
    }
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
        thread::sleep(TICK);

        assert!(ended.is_ok_and(|status| status.success()));
        assert!(begun.elapsed() >= Duration::from_secs(2));
        assert!(stopwatch.elapsed() < Duration::from_secs(1));
    }
}
