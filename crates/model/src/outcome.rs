//! Outcomes: an attempt is *done*, *failed* or *in doubt*, and nothing else.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::resource::Resource;
use crate::span::Span;

/// The outcome of one attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It happened, and the destination said so.
    Done(Receipt),
    /// It is known not to have happened.
    Failed(Fault),
    /// Bytes may have left and no final answer came back: whether it happened is unknown.
    InDoubt(Doubt),
}

/// What the destination answered to an effect that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Receipt {
    /// The answer as expressions see it: for HTTP `{status, headers, json, text}`.
    pub response: Value,
    /// The HTTP status, where there is one.
    pub status: Option<u16>,
    /// What was too large for the journal and is kept by reference.
    pub kept: Vec<Resource>,
    /// Memory for the answer, where it is large.
    pub reserved: Reserved,
}

/// Memory that is reserved for as long as this or a clone of it is there; none by default. It says nothing of what it
/// is reserved for, so that two are always equal.
#[derive(Clone, Default)]
pub struct Reserved {
    _memory: Option<Arc<dyn Any + Send + Sync>>,
}

impl Reserved {
    /// Memory that is free again once `memory` is dropped.
    pub fn holding(memory: impl Any + Send + Sync) -> Self {
        Self {
            _memory: Some(Arc::new(memory)),
        }
    }
}

impl fmt::Debug for Reserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reserved")
    }
}

impl PartialEq for Reserved {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Receipt {
    /// An answer of which nothing had to be kept apart.
    pub fn new(response: Value, status: Option<u16>) -> Self {
        Self {
            response,
            status,
            kept: Vec::new(),
            reserved: Reserved::default(),
        }
    }

    /// The same answer, and the memory that it takes.
    #[must_use]
    pub fn with_memory(self, reserved: Reserved) -> Self {
        Self { reserved, ..self }
    }
}

/// What decisions may depend on. A code is for people and may hold a destination's or a worker's
/// own word, so no decision reads it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// Nothing that a decision depends on.
    #[default]
    Other,
    /// The limits of the connection held the attempt back: nothing was tried.
    HeldBack,
    /// A fault on Semel's side: it says nothing about the destination.
    Ours,
    /// The destination answered with this HTTP status.
    Http(u16),
    /// No worker had taken the task.
    Untaken,
    /// The destination looked for the command's marker, and there is none.
    MarkerAbsent,
    /// The command was begun before and still runs.
    StillRunning,
    /// The connection is of a kind that the call cannot use.
    Unfit,
    /// The work is done, and its answer cannot be stored.
    Unstorable,
    /// People rejected an approval, or did not decide in time, which counts as a rejection.
    Rejected,
    /// An operator failed the effect while it was in doubt: it may have happened.
    GivenUp,
}

impl FaultKind {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
    fn is_other(&self) -> bool {
        *self == Self::Other
    }
}

/// Why something is known not to have happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// A stable word for the kind of failure, e.g. `refused` or `http-404`.
    pub code: String,
    /// What decisions depend on.
    #[serde(default, skip_serializing_if = "FaultKind::is_other")]
    pub kind: FaultKind,
    /// What happened, for people.
    pub message: String,
    /// Whether trying again may help.
    pub retryable: bool,
    /// How long the destination asked Semel to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Span>,
    /// What the destination had looked at when it refused.
    #[serde(default, skip_serializing_if = "Looked::is_at_nothing")]
    pub looked: Looked,
}

/// What a destination had looked at when it refused: only one that looked at the marker can speak
/// for an earlier attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Looked {
    /// Nothing, or Semel cannot know: the refusal is about this attempt alone.
    #[default]
    AtNothing,
    /// The effect's marker, which was absent: no earlier attempt was committed.
    AtMarker,
}

impl Looked {
    fn is_at_nothing(&self) -> bool {
        *self == Self::AtNothing
    }
}

/// Why it is unknown whether something happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubt {
    /// A stable word for the kind of doubt, e.g. `no-answer` or `http-503`.
    pub code: String,
    /// What decisions depend on.
    #[serde(default, skip_serializing_if = "FaultKind::is_other")]
    pub kind: FaultKind,
    /// What was seen, for people.
    pub message: String,
    /// How long the destination asked Semel to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Span>,
    /// Who settles it.
    #[serde(default, skip_serializing_if = "SettledBy::is_guard")]
    pub settled_by: SettledBy,
}

/// Who settles a doubt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SettledBy {
    /// The effect's guard.
    #[default]
    Guard,
    /// An operator, whatever the guard: performing it again would end in the same doubt.
    Operator,
}

impl SettledBy {
    fn is_guard(&self) -> bool {
        *self == Self::Guard
    }
}

impl Fault {
    /// A failure that a retry will not fix.
    pub fn permanent(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            kind: FaultKind::Other,
            message: message.into(),
            retryable: false,
            retry_after: None,
            looked: Looked::AtNothing,
        }
    }

    /// A failure that may pass.
    pub fn passing(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            kind: FaultKind::Other,
            message: message.into(),
            retryable: true,
            retry_after: None,
            looked: Looked::AtNothing,
        }
    }
}

impl Fault {
    /// The same fault, of a kind that decisions depend on.
    #[must_use]
    pub fn of(self, kind: FaultKind) -> Self {
        Self { kind, ..self }
    }

    /// Whether the destination's own limits held it back: nothing was tried, and no attempt is used
    /// up.
    #[must_use]
    pub fn is_held_back(&self) -> bool {
        self.kind == FaultKind::HeldBack
    }

    /// The same failure, found after the effect's marker was seen to be absent.
    #[must_use]
    pub fn after_marker(self) -> Self {
        Self {
            looked: Looked::AtMarker,
            ..self
        }
    }

    /// The same in doubt: an attempt before it may have happened.
    #[must_use]
    pub fn to_doubt(&self) -> Doubt {
        Doubt {
            code: self.code.clone(),
            kind: self.kind,
            message: self.message.clone(),
            retry_after: self.retry_after,
            settled_by: SettledBy::Guard,
        }
    }

    /// The HTTP status that the destination refused with, where it did.
    #[must_use]
    pub fn http_status(&self) -> Option<u16> {
        match self.kind {
            FaultKind::Http(status) => Some(status),
            FaultKind::Other
            | FaultKind::HeldBack
            | FaultKind::Ours
            | FaultKind::Untaken
            | FaultKind::MarkerAbsent
            | FaultKind::StillRunning
            | FaultKind::Unfit
            | FaultKind::Unstorable
            | FaultKind::Rejected
            | FaultKind::GivenUp => None,
        }
    }

    /// The same fault as a run's record keeps it: of its kind, what is decided by the record.
    #[must_use]
    pub fn for_record(&self) -> Self {
        let kind = match self.kind {
            FaultKind::Rejected | FaultKind::GivenUp => self.kind,
            FaultKind::Other
            | FaultKind::HeldBack
            | FaultKind::Ours
            | FaultKind::Http(_)
            | FaultKind::Untaken
            | FaultKind::MarkerAbsent
            | FaultKind::StillRunning
            | FaultKind::Unfit
            | FaultKind::Unstorable => FaultKind::Other,
        };
        self.clone().of(kind)
    }
}

impl Doubt {
    /// A doubt of this kind.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            kind: FaultKind::Other,
            message: message.into(),
            retry_after: None,
            settled_by: SettledBy::Guard,
        }
    }

    /// The same doubt, of a kind that decisions depend on.
    #[must_use]
    pub fn of(self, kind: FaultKind) -> Self {
        Self { kind, ..self }
    }

    /// A doubt of this kind that only an operator settles.
    pub fn for_operator(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            settled_by: SettledBy::Operator,
            ..Self::new(code, message)
        }
    }
}
