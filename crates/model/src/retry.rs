//! Retry: how often, how soon, and for how long.

use serde::{Deserialize, Serialize};

use crate::seeded_bug::SeededBug;
use crate::span::Span;

/// Exponential backoff with full jitter, capped in delay, attempts and total time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// The most attempts in all, the first included.
    pub attempts: u32,
    /// The ceiling of the first delay; it doubles with every attempt.
    pub delay: Span,
    /// The ceiling that no delay exceeds.
    pub max_delay: Span,
    /// The most time from the first attempt to the last.
    pub within: Span,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 6,
            delay: Span::from_secs(1),
            max_delay: Span::from_secs(300),
            within: Span::from_secs(86_400),
        }
    }
}

impl RetryPolicy {
    /// How long to rest after attempt number `attempt` (from 1), or nothing when the policy is
    /// exhausted. `jitter` is a fraction from 0 to 1 and makes the jitter: the delay is spread
    /// over the whole range, so that a thousand runs that failed together do not retry together.
    /// `asked` is the destination's `Retry-After`, which is honoured up to the total time.
    pub fn delay(
        &self,
        attempt: u32,
        spent: Span,
        jitter: f64,
        asked: Option<Span>,
    ) -> Option<Span> {
        if attempt >= self.attempts || spent >= self.within {
            return None;
        }
        let asked = asked.filter(|_| !SeededBug::RetryAfterIgnored.is_seeded());
        let doublings = attempt.saturating_sub(1).min(40);
        let doublings = doublings * u32::from(!SeededBug::BackoffConstant.is_seeded());
        let ceiling = self.delay.as_millis().saturating_mul(1 << doublings);
        let ceiling = ceiling.min(self.max_delay.as_millis());
        let jitter = jitter.max(f64::from(u8::from(SeededBug::BackoffNotSpread.is_seeded())));
        let jittered = (ceiling as f64 * jitter.clamp(0.0, 1.0)) as u64;
        let delay = Span::from_millis(jittered.max(asked.unwrap_or_default().as_millis()));
        let left = self.within.as_millis() - spent.as_millis();
        (delay.as_millis() <= left).then_some(delay)
    }
}
