//! Waiting for a condition. No test sleeps by itself: a fixed time is too short on a busy machine and
//! too long on a quiet one.
//!
//! Every wait has the same [`patience`], so a slow machine fails no test, and names its subject: a
//! test that gives up says what it waited for and what it saw last.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::patience;

/// The time between the first looks at a condition, and the most between two.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(100));

/// A wait, from its first look.
struct Wait<'a> {
    what: &'a str,
    begun: Instant,
}

impl<'a> Wait<'a> {
    fn begin(what: &'a str) -> Self {
        Self {
            what,
            begun: Instant::now(),
        }
    }

    /// What a look saw, or the error that ends the wait.
    fn see<T>(&self, look: Result<T>) -> Result<T> {
        look.with_context(|| format!("while waiting for {}", self.what))
    }

    /// How long to pause before the next look: the longer the wait, the longer, because each look costs the servers
    /// that are waited for. `saw` says what was seen instead, where this look was the last.
    fn pause(&self, saw: impl FnOnce() -> String) -> Result<Duration> {
        let waited = self.begun.elapsed();
        if waited > patience() {
            bail!("waited {:?} for {}; saw {}", patience(), self.what, saw());
        }
        Ok((waited / 8).clamp(PAUSES.0, PAUSES.1))
    }
}

/// Waits until a value that `look` reads satisfies `is_reached`, and returns it.
///
/// `what` completes the sentence "waited for …". An error of `look` ends the wait: a look that may
/// fail on the way, for instance while a server starts again, turns its error into a value.
pub async fn until<T: Debug>(
    what: &str,
    mut look: impl AsyncFnMut() -> Result<T>,
    mut is_reached: impl FnMut(&T) -> bool,
) -> Result<T> {
    let wait = Wait::begin(what);
    loop {
        let seen = wait.see(look().await)?;
        if is_reached(&seen) {
            return Ok(seen);
        }
        tokio::time::sleep(wait.pause(|| format!("{seen:?}"))?).await;
    }
}

/// Waits until `look` finds something, and returns it. Prefer [`until`], which can say what it saw
/// instead.
pub async fn until_some<T>(
    what: &str,
    mut look: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let wait = Wait::begin(what);
    loop {
        if let Some(seen) = wait.see(look().await)? {
            return Ok(seen);
        }
        tokio::time::sleep(wait.pause(|| "none".to_owned())?).await;
    }
}

/// [`until`] on a thread that has no runtime, such as one that drives a browser.
pub fn until_blocking<T: Debug>(
    what: &str,
    mut look: impl FnMut() -> Result<T>,
    mut is_reached: impl FnMut(&T) -> bool,
) -> Result<T> {
    let wait = Wait::begin(what);
    loop {
        let seen = wait.see(look())?;
        if is_reached(&seen) {
            return Ok(seen);
        }
        std::thread::sleep(wait.pause(|| format!("{seen:?}"))?);
    }
}

/// The rhythm of a storm: the time between two kills, two deliveries, two clicks. Nothing may be
/// expected to have happened when it is over.
pub async fn pace(pause: Duration) {
    tokio::time::sleep(pause).await;
}

/// Lets real time pass where no clock can be moved and no condition exists, because time is kept by a
/// program that is not ours or by the promise itself, such as a lease. `because` says which.
pub async fn let_pass(time: Duration, because: &str) {
    assert!(!because.is_empty(), "a reason to let time pass");
    tokio::time::sleep(time).await;
}

/// [`let_pass`] on a thread that has no runtime.
pub fn let_pass_blocking(time: Duration, because: &str) {
    assert!(!because.is_empty(), "a reason to let time pass");
    std::thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_condition_that_holds_ends_the_wait() {
        let mut looks = 0;
        let look = async || {
            looks += 1;
            Ok(looks)
        };

        let seen = until("three looks", look, |looks| *looks == 3)
            .await
            .unwrap();

        assert_eq!(seen, 3);
    }

    #[tokio::test]
    async fn an_error_ends_the_wait_and_names_it() {
        let look = async || -> Result<u8> { bail!("refused") };

        let error = until("an answer", look, |_| true).await.unwrap_err();

        assert_eq!(format!("{error:#}"), "while waiting for an answer: refused");
    }
}
