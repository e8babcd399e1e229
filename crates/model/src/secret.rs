//! Secrets: text that is used and never shown.

use serde::{Deserialize, Deserializer};
use zeroize::Zeroizing;

/// The fewest characters at which a secret is looked for by value: a shorter one would be found in
/// everything.
pub const SCANNED_CHARS_MIN: usize = 8;

/// A secret's text. It cannot be printed or serialised, and is wiped when it is dropped.
///
/// ```compile_fail
/// fn a_secret_is_not_printed(secret: &semel_model::SecretText) -> String { format!("{secret:?}") }
/// ```
/// ```compile_fail
/// fn a_secret_is_not_serialised(secret: &semel_model::SecretText) -> String { serde_json::to_string(secret).unwrap() }
/// ```
#[derive(Clone)]
pub struct SecretText(Zeroizing<String>);

impl SecretText {
    /// Takes a text over.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// The text, for the code that sends it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// Secrets come in, and never go out.
impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}
