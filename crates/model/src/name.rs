//! Names that authors give: flows, steps, namespaces, and what is kept apart from flows.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The most characters of any name.
pub const NAME_CHARS_MAX: usize = 63;

/// Why a text is no name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a name begins with a letter and has up to 63 of a-z, 0-9 and '{separator}'")]
pub struct NameError {
    /// The one separator that this kind of name may have.
    pub separator: char,
}

/// Why a text is no label.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a name begins with a letter or digit and has up to 63 of A-Z, a-z, 0-9, '_', '-' and '.'")]
pub struct LabelError;

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $error:ident, $is:expr, $wrong:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Box<str>);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = $error;

            fn from_str(text: &str) -> Result<Self, $error> {
                if $is(text) {
                    Ok(Self(text.into()))
                } else {
                    Err($wrong)
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = $error;

            fn try_from(text: String) -> Result<Self, $error> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0.into()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// Who a flow and its runs belong to.
    NamespaceName, NameError, |text| is_name(text, '-'), NameError { separator: '-' }
);
name!(
    /// What an author calls a flow.
    FlowName, NameError, |text| is_name(text, '-'), NameError { separator: '-' }
);
name!(
    /// What an author calls a step, so that expressions can read its result.
    StepId, NameError, |text| is_name(text, '_'), NameError { separator: '_' }
);

name!(
    /// What the owner of a connection or a secret calls it.
    Label, LabelError, is_label, LabelError
);

impl StepId {
    /// The name of the step that undoes this one. No author can write it.
    #[must_use]
    pub fn undo(&self) -> Self {
        Self(format!("{}.undo", self.0).into())
    }
}

fn is_label(text: &str) -> bool {
    text.len() <= NAME_CHARS_MAX
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

fn is_name(text: &str, separator: char) -> bool {
    text.len() <= NAME_CHARS_MAX
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == separator)
}
