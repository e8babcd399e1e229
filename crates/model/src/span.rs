//! Spans: how long something lasts, as authors write it (`500ms`, `5m`, `1d12h`).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The longest span: ten years. Nothing in a flow waits longer.
pub const SPAN_MAX: Span = Span(10 * 366 * 86_400_000);

const UNITS: [(&str, u64); 6] = [
    ("w", 604_800_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// A length of time in whole milliseconds, zero to [`SPAN_MAX`].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub struct Span(u64);

/// The text is no span.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a span such as 500ms, 30s, 5m, 2h, 30d or 1d12h, up to ten years")]
pub struct SpanError;

impl Span {
    /// A span of so many milliseconds, capped at [`SPAN_MAX`].
    pub fn from_millis(millis: u64) -> Self {
        Self(millis.min(SPAN_MAX.0))
    }

    /// A span of so many seconds, for constants: below ten years.
    pub const fn from_const_secs(secs: u64) -> Self {
        Self(secs * 1_000)
    }

    /// A span of so many seconds, capped at [`SPAN_MAX`].
    pub fn from_secs(secs: u64) -> Self {
        Self::from_millis(secs.saturating_mul(1_000))
    }

    /// The span in milliseconds.
    pub fn as_millis(self) -> u64 {
        self.0
    }

    /// In seconds, as `make_interval(secs => …)` takes it.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.to_duration().as_secs_f64()
    }

    /// The span as the standard library's duration.
    pub fn to_duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl FromStr for Span {
    type Err = SpanError;

    fn from_str(text: &str) -> Result<Self, SpanError> {
        let mut rest = text;
        let mut total: u64 = 0;
        let mut ceiling = u64::MAX;
        while !rest.is_empty() {
            let (part, unit, tail) = first_part(rest)?;
            // Units fall from left to right, so that `1h1h` is a mistake and not two hours.
            if unit >= ceiling {
                return Err(SpanError);
            }
            ceiling = unit;
            total = part
                .checked_mul(unit)
                .and_then(|ms| ms.checked_add(total))
                .ok_or(SpanError)?;
            rest = tail;
        }
        if text.is_empty() || total > SPAN_MAX.0 {
            Err(SpanError)
        } else {
            Ok(Self(total))
        }
    }
}

/// Reads one number and its unit: the number, the unit in milliseconds, the rest.
fn first_part(text: &str) -> Result<(u64, u64, &str), SpanError> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number = text[..digits].parse().map_err(|_| SpanError)?;
    let after = &text[digits..];
    let letters = after.bytes().take_while(u8::is_ascii_lowercase).count();
    let unit = UNITS
        .iter()
        .find(|(name, _)| *name == &after[..letters])
        .map(|(_, millis)| *millis)
        .ok_or(SpanError)?;
    Ok((number, unit, &after[letters..]))
}

impl TryFrom<String> for Span {
    type Error = SpanError;

    fn try_from(text: String) -> Result<Self, SpanError> {
        text.parse()
    }
}

impl From<Span> for String {
    fn from(span: Span) -> String {
        span.to_string()
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        let mut rest = self.0;
        for (name, millis) in &UNITS[1..] {
            if rest >= *millis {
                write!(f, "{}{name}", rest / millis)?;
                rest %= millis;
            }
        }
        Ok(())
    }
}
