//! How much work something is, judged by other work of the same run.
//!
//! Processor time is counted and not the time that passes: a machine that stands still adds nothing. It is that of
//! the whole process, because files are checked on a thread of their own, so that other tests in the process add to
//! it. The least of some tries counts.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// How often something is tried before it counts as too much.
const TRIES: usize = 5;

/// What a thread and its stack may cost.
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

/// The processor time of this process until now.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let (secs, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(secs.unwrap_or_default(), nanos.unwrap_or_default())
}

#[test]
fn work_is_counted_where_the_system_tells() {
    let before = processor_time();
    let mut sum = 0_u64;
    while processor_time() == before {
        sum = std::hint::black_box(sum.wrapping_add(1));
    }

    assert!(processor_time() > before);
}
