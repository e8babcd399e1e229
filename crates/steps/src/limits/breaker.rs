//! The breaker: a destination that only fails is left alone, then tried once.

use std::time::Duration;

use semel_model::{FaultKind, Outcome, connection};
use tokio::time::Instant;

/// What an exchange says about whether a destination is well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    /// It answered, if only to refuse.
    Well,
    /// It did not answer, or asked to be left alone.
    Ill,
    /// There was no answer to judge by.
    Unknown,
}

impl Health {
    pub(super) fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Done(_) => Self::Well,
            Outcome::InDoubt(_) => Self::Ill,
            Outcome::Failed(fault)
                if matches!(fault.kind, FaultKind::HeldBack | FaultKind::Ours) =>
            {
                Self::Unknown
            }
            Outcome::Failed(fault) if fault.retryable => Self::Ill,
            Outcome::Failed(_) => Self::Well,
        }
    }
}

/// How an exchange was let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    /// As one of many.
    Usual,
    /// As the one that tries whether the destination is well again.
    Trial,
}

enum State {
    Closed { failures: u32 },
    Open { until: Instant },
    Trial,
}

/// One destination's breaker.
pub(super) struct Breaker {
    state: State,
    after: u32,
    pause: Duration,
}

impl Breaker {
    pub(super) fn new(limits: &connection::ConnectionLimits) -> Self {
        Self {
            state: State::Closed { failures: 0 },
            after: limits.open_after.max(1),
            pause: limits.open_for.to_duration(),
        }
    }

    /// Whether something may be sent now; otherwise how long to stay away.
    pub(super) fn look(&self, now: Instant) -> Result<Pass, Duration> {
        match self.state {
            State::Closed { .. } => Ok(Pass::Usual),
            State::Open { until } if now < until => Err(until - now),
            State::Open { .. } => Ok(Pass::Trial),
            State::Trial => Err(self.pause),
        }
    }

    /// Lets one exchange through, the only one where it is a trial.
    pub(super) fn enter(&mut self, now: Instant) -> Result<Pass, Duration> {
        let pass = self.look(now)?;
        if pass == Pass::Trial {
            self.state = State::Trial;
        }
        Ok(pass)
    }

    /// Hears what an exchange came to.
    pub(super) fn report(&mut self, pass: Pass, health: Health, now: Instant) {
        let until = now + self.pause;
        match (&mut self.state, pass, health) {
            (State::Trial, Pass::Trial, Health::Well) => self.state = State::Closed { failures: 0 },
            (State::Trial, Pass::Trial, Health::Ill) => self.state = State::Open { until },
            // The trial was abandoned: the next one is the trial.
            (State::Trial, Pass::Trial, Health::Unknown) => self.state = State::Open { until: now },
            (State::Closed { failures }, _, Health::Well) => *failures = 0,
            (State::Closed { failures }, _, Health::Ill) => {
                *failures += 1;
                if *failures >= self.after {
                    self.state = State::Open { until };
                }
            }
            (State::Closed { .. }, _, Health::Unknown) => {}
            // Exchanges that began before the break end after it: the trial decides, not they.
            (State::Open { .. }, Pass::Usual | Pass::Trial, _) | (State::Trial, Pass::Usual, _) => {
            }
        }
    }
}
