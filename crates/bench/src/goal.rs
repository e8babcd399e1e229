//! The goals: what is measured, against what, and how good is good enough.

use std::str::FromStr;

/// One line of the table of goals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Goal {
    F1,
    F2,
    F3,
    F4,
    F4q,
    F4s,
    F5,
    F6,
    F7,
    F8,
    F9,
}

/// What makes a value good.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// It is at least this.
    AtLeast(f64),
    /// It is at most this.
    AtMost(f64),
}

impl Bound {
    /// Whether a value is good.
    pub(crate) fn holds(self, value: f64) -> bool {
        match self {
            Self::AtLeast(bound) => value >= bound,
            Self::AtMost(bound) => value <= bound,
        }
    }
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtLeast(bound) => write!(f, "≥ {bound}"),
            Self::AtMost(bound) => write!(f, "≤ {bound}"),
        }
    }
}

impl Goal {
    /// All, in order.
    pub(crate) const ALL: [Self; 11] = [
        Self::F1,
        Self::F2,
        Self::F3,
        Self::F4,
        Self::F4q,
        Self::F4s,
        Self::F5,
        Self::F6,
        Self::F7,
        Self::F8,
        Self::F9,
    ];

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::F1 => "F1",
            Self::F2 => "F2",
            Self::F3 => "F3",
            Self::F4 => "F4",
            Self::F4q => "F4q",
            Self::F4s => "F4s",
            Self::F5 => "F5",
            Self::F6 => "F6",
            Self::F7 => "F7",
            Self::F8 => "F8",
            Self::F9 => "F9",
        }
    }

    /// What is measured.
    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::F1 => "accepts by webhook, unique keys, 32 connections",
            Self::F2 => "duplicates answered, 32 connections",
            Self::F3 => "runs of three kv effects, 32 in flight",
            Self::F4 => "runs of three kv effects, 256 in flight",
            Self::F4q => "F4 after a quiet VACUUM and ANALYZE, beside F4",
            Self::F4s => "F4 beside 10,000 sleepers, beside F4",
            Self::F5 => "p50 from delivery to finish, one in flight",
            Self::F6 => "commits per run, 256 in flight",
            Self::F7 => "processor time per run, 256 in flight",
            Self::F8 => "taking a ready run beside 1,000,000 sleepers",
            Self::F9 => "runs of three http effects, 256 in flight",
        }
    }

    /// The unit of both columns.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::F1 | Self::F2 | Self::F3 | Self::F4 | Self::F4q | Self::F4s | Self::F9 => "per s",
            Self::F5 => "ms",
            Self::F6 => "commits",
            Self::F7 | Self::F8 => "µs",
        }
    }

    /// What is good enough beside bare PostgreSQL: on the ratio of the two columns; for F6 on the value itself.
    pub(crate) fn bound(self) -> Option<Bound> {
        match self {
            Self::F1 | Self::F7 | Self::F9 => None,
            Self::F2 => Some(Bound::AtLeast(0.8)),
            Self::F3 => Some(Bound::AtLeast(0.55)),
            Self::F4 => Some(Bound::AtLeast(0.65)),
            Self::F4q | Self::F4s => Some(Bound::AtLeast(0.95)),
            Self::F5 => Some(Bound::AtMost(2.5)),
            Self::F6 => Some(Bound::AtMost(0.1)),
            Self::F8 => Some(Bound::AtMost(1.2)),
        }
    }

    /// What is good enough beside a small writer of the same rows.
    pub(crate) fn bound_of_same(self) -> Option<Bound> {
        match self {
            Self::F1 => Some(Bound::AtLeast(0.75)),
            Self::F3 => Some(Bound::AtLeast(0.8)),
            Self::F4 => Some(Bound::AtLeast(0.85)),
            Self::F7 => Some(Bound::AtMost(1.7)),
            Self::F9 => Some(Bound::AtLeast(0.6)),
            Self::F2 | Self::F4q | Self::F4s | Self::F5 | Self::F6 | Self::F8 => None,
        }
    }
}

/// The text names no goal.
#[derive(Debug)]
pub(crate) struct UnknownGoal(String);

impl std::fmt::Display for UnknownGoal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} is no goal: name some of F1 to F9, F4q and F4s",
            self.0
        )
    }
}

impl std::error::Error for UnknownGoal {}

impl FromStr for Goal {
    type Err = UnknownGoal;

    fn from_str(text: &str) -> Result<Self, UnknownGoal> {
        let named = |goal: &Self| goal.name().eq_ignore_ascii_case(text);
        let found = Self::ALL.into_iter().find(named);
        found.ok_or_else(|| UnknownGoal(text.to_owned()))
    }
}
