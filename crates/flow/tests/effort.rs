//! How much work something is, judged by other work of the same run.
//!
//! Processor time is counted and not the time that passes: a machine that stands still adds nothing. It is that of
//! the whole process, because files are checked on a thread of their own, so that other tests in the process add to
//! it. The least of some tries counts.

use std::fs;
use std::time::Duration;

/// How often something is tried before it counts as too much.
const TRIES: usize = 5;

/// A tick of the clock that counts processor time.
const TICK: Duration = Duration::from_millis(10);

/// What the clock cannot tell apart, and what a thread and its stack may cost.
const GRAIN: Duration = Duration::from_millis(100);

/// The least processor time that something takes.
pub(crate) fn least(mut work: impl FnMut()) -> Duration {
    let tries = (0..3).map(|_| measure(&mut work).1);
    tries.min().unwrap_or_default()
}

/// What some work comes to, or the least processor time that it took where that is always more than `most`.
pub(crate) fn within<T>(most: Duration, mut work: impl FnMut() -> T) -> Result<T, Duration> {
    let mut least = Duration::MAX;
    for _ in 0..TRIES {
        let (done, taken) = measure(&mut work);
        if taken <= most + GRAIN {
            return Ok(done);
        }
        least = least.min(taken);
    }
    Err(least)
}

/// Fails where twice as much to do is always more than three times the work.
#[track_caller]
pub(crate) fn assert_grows_evenly(what: &str, mut once: impl FnMut(), mut twice: impl FnMut()) {
    let (mut small, mut large) = (Duration::MAX, Duration::MAX);
    for _ in 0..TRIES {
        small = small.min(measure(&mut once).1);
        large = large.min(measure(&mut twice).1);
        if large <= small * 3 + GRAIN {
            return;
        }
    }
    panic!("{what} takes {small:?}, and twice as much of it {large:?}");
}

fn measure<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let before = processor_time();
    let done = work();
    (done, processor_time().saturating_sub(before))
}

/// The processor time of this process until now, where the system tells.
fn processor_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program, in brackets, may hold spaces.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks = ticks.filter_map(|ticks| ticks.parse::<u32>().ok());
    ticks.map(|ticks| TICK * ticks).sum()
}

#[test]
fn work_is_counted_where_the_system_tells() {
    if !fs::exists("/proc/self/stat").is_ok_and(|tells| tells) {
        return;
    }

    let before = processor_time();
    let mut sum = 0_u64;
    while processor_time() == before {
        sum = std::hint::black_box(sum.wrapping_add(1));
    }

    assert!(processor_time() > before);
}
