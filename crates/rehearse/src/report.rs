//! The report of a rehearsal: every case, and what it shows.

mod junit;
mod text;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::fault::{FaultClass, RehearsedFault};

/// What a rehearsal shows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The flow.
    pub flow: String,
    /// The digest of what was rehearsed.
    pub digest: String,
    /// What the order of the cases was made from.
    pub seed: u64,
    /// Whether no case violates a promise.
    pub passed: bool,
    /// The examples, in the order of the flow.
    pub examples: Vec<String>,
    /// Every case.
    pub cases: Vec<CaseReport>,
    /// What happened in each example when nothing went wrong, where only that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timelines: Vec<Timeline>,
    /// What was assumed or could not be played.
    pub notes: Vec<String>,
    /// How long it took.
    pub took_ms: u64,
}

/// What happened in an example, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    /// The example.
    pub example: String,
    /// What happened.
    pub lines: Vec<TimelineLine>,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimelineLine {
    /// When, by the rehearsal's own clock.
    pub at: Timestamp,
    /// What, in a sentence.
    pub text: String,
}

/// What a case shows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CaseReport {
    /// The example.
    pub example: String,
    /// The fault: class and place.
    pub fault: String,
    /// The class of the fault.
    pub class: FaultClass,
    /// The place of the fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// How it went.
    pub verdict: CaseVerdict,
    /// Which effects are in doubt, as their guards say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_doubt: Vec<String>,
    /// What must not happen, and did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<Violation>,
    /// The command that repeats exactly this case, where it shows a violation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<String>,
}

/// How a case went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaseVerdict {
    /// Everything happened once.
    Passed,
    /// An effect is in doubt, as its guard says.
    InDoubt,
    /// Something happened twice, or not at all.
    Violated,
}

/// Something that must not happen, and did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// A stable word for the kind.
    pub code: String,
    /// The step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// What happened, and what to do.
    pub message: String,
}

impl CaseReport {
    pub(crate) fn new(
        example: &str,
        fault: &RehearsedFault,
        in_doubt: Vec<String>,
        violations: Vec<Violation>,
    ) -> Self {
        let verdict = match (violations.is_empty(), in_doubt.is_empty()) {
            (false, _) => CaseVerdict::Violated,
            (true, false) => CaseVerdict::InDoubt,
            (true, true) => CaseVerdict::Passed,
        };
        Self {
            example: example.to_owned(),
            fault: fault.to_string(),
            class: fault.class,
            at: fault.at.as_ref().map(ToString::to_string),
            verdict,
            in_doubt,
            violations,
            repeat: None,
        }
    }
}

impl Report {
    /// How many cases went like this.
    #[must_use]
    pub fn count(&self, verdict: CaseVerdict) -> usize {
        self.cases
            .iter()
            .filter(|case| case.verdict == verdict)
            .count()
    }

    /// For people: the matrix, notes, doubts, violations, and a last line.
    #[must_use]
    pub fn to_text(&self) -> String {
        text::render(self)
    }

    /// For CI: one suite, one test per case.
    #[must_use]
    pub fn to_junit(&self) -> String {
        junit::render(self)
    }
}
