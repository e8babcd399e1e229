//! The silence that ends a command which may be repeated.
//!
//! ```text
//! answered ── 2/3 of the lease ──▶ TERM ── 1/6 of it, at most 5 s ──▶ KILL ──▶ the lease is over
//! ```
//!
//! Both `semel once` and its supervisor go by it, each on its own, so that either may be stopped.
//! Times are milliseconds of `CLOCK_BOOTTIME`, which counts while the machine is suspended, and
//! they are absolute: a supervisor that slept past KILL leaves out TERM.

use std::time::Duration;

/// The longest time between TERM and KILL.
const KILL_AFTER_MAX: Duration = Duration::from_secs(5);

/// The longest silence of the server under which a command runs on.
pub(super) fn silence_max(lease: Duration) -> Duration {
    lease * 2 / 3
}

/// The time between TERM and KILL.
pub(super) fn grace(lease: Duration) -> Duration {
    (lease / 6).min(KILL_AFTER_MAX)
}

/// The lease that a command is started under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) lease_ms: u64,
    /// When the latest request that the server answered was sent.
    pub(super) answered_ms: u64,
}

/// The next thing to do to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    Term,
    Kill,
}

/// The limit of one command.
#[derive(Debug)]
pub(super) struct Limit {
    lease: Duration,
    answered_ms: u64,
    /// Whether the server says that the hold is another's or over.
    lost: bool,
    /// When KILL is due; set together with TERM, and final.
    kill_at_ms: Option<u64>,
}

impl Limit {
    pub(super) fn new(terms: Terms) -> Self {
        Self {
            lease: Duration::from_millis(terms.lease_ms),
            answered_ms: terms.answered_ms,
            lost: false,
            kill_at_ms: None,
        }
    }

    /// The server answered a heartbeat that was sent at this time.
    pub(super) fn answer(&mut self, sent_ms: u64) {
        self.answered_ms = self.answered_ms.max(sent_ms);
    }

    /// The server does not answer, or says that the hold is lost.
    pub(super) fn lose(&mut self) {
        self.lost = true;
    }

    /// Whether the command may run on.
    pub(super) fn holds(&self, now_ms: u64) -> bool {
        !self.lost && self.kill_at_ms.is_none() && now_ms < self.silent_at_ms()
    }

    /// The next thing to do, once each. Once TERM was due, no answer takes it back.
    pub(super) fn due(&mut self, now_ms: u64) -> Due {
        if self.holds(now_ms) {
            return Due::Nothing;
        }
        let begins = self.kill_at_ms.is_none();
        // Counted from the silence and not from now: KILL comes before the lease is over.
        let term_at_ms = now_ms.min(self.silent_at_ms());
        let latest_ms = term_at_ms.saturating_add(millis(grace(self.lease)));
        let kill_at_ms = *self.kill_at_ms.get_or_insert(latest_ms);
        match (now_ms >= kill_at_ms, begins) {
            (true, _) => Due::Kill,
            (false, true) => Due::Term,
            (false, false) => Due::Nothing,
        }
    }

    /// When the silence has lasted as long as it may.
    fn silent_at_ms(&self) -> u64 {
        let silence = millis(silence_max(self.lease));
        self.answered_ms.saturating_add(silence)
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::Due::{Kill, Nothing, Term};
    use super::*;

    fn limit() -> Limit {
        Limit::new(Terms {
            lease_ms: 6_000,
            answered_ms: 10_000,
        })
    }

    #[test]
    fn two_thirds_of_the_lease_in_silence_end_a_command_before_the_lease_is_over() {
        let mut limit = limit();

        let times = [10_000, 13_999, 14_000, 14_100, 14_999, 15_000, 15_100];
        let due = times.map(|now| limit.due(now));

        let expected = [Nothing, Nothing, Term, Nothing, Nothing, Kill, Kill];
        assert_eq!(due, expected);
    }

    #[test]
    fn an_answer_counts_from_its_request_and_comes_too_late_after_term() {
        let mut limit = limit();

        limit.answer(12_000);
        limit.answer(11_000);
        assert!(limit.holds(15_999), "the latest answer counts");
        assert_eq!(limit.due(16_000), Term);
        limit.answer(16_000);

        assert!(!limit.holds(16_001));
        assert_eq!(limit.due(17_000), Kill);
    }

    #[test]
    fn a_supervisor_that_slept_past_the_limit_leaves_out_term() {
        assert_eq!(limit().due(15_000), Kill);
        assert_eq!(limit().due(1_000_000), Kill);

        let mut late = limit();
        assert_eq!(late.due(14_900), Term);
        assert_eq!(late.due(15_000), Kill, "counted from the silence");
    }

    #[test]
    fn a_lost_hold_ends_its_command_at_once() {
        let mut limit = limit();

        limit.lose();

        assert!(!limit.holds(11_000));
        assert_eq!(limit.due(11_000), Term);
        assert_eq!(limit.due(11_999), Nothing);
        assert_eq!(limit.due(12_000), Kill);
    }

    #[test]
    fn a_long_lease_has_five_seconds_between_term_and_kill() {
        let hour = Duration::from_secs(3_600);

        assert_eq!(grace(hour), KILL_AFTER_MAX);
        assert_eq!(silence_max(hour), Duration::from_secs(2_400));
    }
}
