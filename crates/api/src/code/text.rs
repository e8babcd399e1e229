//! Codes as words.

use std::fmt;
use std::str::FromStr;

use super::Code;

/// The text is no code of this list.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an error code")]
pub struct CodeError;

impl FromStr for Code {
    type Err = CodeError;

    fn from_str(text: &str) -> Result<Self, CodeError> {
        Self::ALL
            .iter()
            .copied()
            .find(|code| code.as_str() == text)
            .ok_or(CodeError)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
