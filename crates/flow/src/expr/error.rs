//! What can go wrong in an evaluation, distinguished by what to do about it.

/// Why an expression could not be evaluated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}")]
pub struct EvalError {
    /// The byte of the source at which the part stands that could not be evaluated.
    pub offset: usize,
    /// What happened there.
    pub kind: EvalErrorKind,
}

impl EvalError {
    /// The stable name of this kind of error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        self.kind.code()
    }
}

/// What stopped an evaluation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalErrorKind {
    /// A field that is not there.
    #[error("`{path}` has no `{field}`{}", listed(has))]
    Missing {
        /// What was looked into.
        path: String,
        /// What was looked for.
        field: String,
        /// The first few fields that are there, as text. In one piece: faults stay small, because
        /// evaluating is recursive.
        has: Box<str>,
    },
    /// A value of another type than the operation takes.
    #[error("{operation} needs {expected}, not {found}")]
    Type {
        /// The operator or function.
        operation: &'static str,
        /// What it takes.
        expected: &'static str,
        /// The type it was given.
        found: &'static str,
    },
    /// A whole number beyond 64 bits.
    #[error("{0} leaves the range of whole numbers")]
    Overflow(&'static str),
    /// A number divided by zero.
    #[error("division by zero")]
    DivisionByZero,
    /// An index beyond the end of a list.
    #[error("index {index} is outside of a list of {len}")]
    Index {
        /// The index that was asked for.
        index: i64,
        /// How long the list is.
        len: usize,
    },
    /// A limit of `expr::limits`.
    #[error("the expression met its limit of {0}")]
    Limit(&'static str),
    /// A value that cannot be used as asked.
    #[error("{0}")]
    Invalid(String),
}

/// How many fields are named where one is missing.
const NAMED_MAX: usize = 12;

/// How many characters of each name are shown.
const NAME_CHARS_SHOWN: usize = 40;

/// Names of fields for a message: a few, short, and safe to show.
pub(super) fn named<'n>(names: impl IntoIterator<Item = &'n str>) -> Box<str> {
    let mut text = String::new();
    for (place, name) in names.into_iter().take(NAMED_MAX + 1).enumerate() {
        text.push_str(if place == 0 { "" } else { ", " });
        match place < NAMED_MAX {
            true => text.extend(name.escape_debug().take(NAME_CHARS_SHOWN)),
            false => text.push('…'),
        }
    }
    text.into_boxed_str()
}

fn listed(has: &str) -> String {
    match has {
        "" => String::new(),
        names => format!("; it has: {names}"),
    }
}

impl EvalErrorKind {
    /// The codes of all faults, each of which has a page.
    pub const CODES: [&'static str; 5] = [
        "value-missing",
        "value-type",
        "value-range",
        "value-limit",
        "value-invalid",
    ];

    /// The stable name of this kind of fault.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "value-missing",
            Self::Type { .. } => "value-type",
            Self::Overflow(_) | Self::DivisionByZero | Self::Index { .. } => "value-range",
            Self::Limit(_) => "value-limit",
            Self::Invalid(_) => "value-invalid",
        }
    }

    pub(crate) const fn at(self, offset: usize) -> EvalError {
        EvalError { offset, kind: self }
    }
}
