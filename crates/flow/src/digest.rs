//! The name of a release by its content.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// SHA-256 over a flow's canonical form. Reads as 64 hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ReleaseDigest([u8; 32]);

/// The text is no digest.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected 64 hex digits")]
pub struct DigestError;

/// Goes into every digest, so that a change of the language's meaning changes them all.
const LANGUAGE: &str = "semel flow 1\n";

impl ReleaseDigest {
    pub(crate) fn of(canonical: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update(LANGUAGE);
        hash.update(canonical);
        Self(hash.finalize().into())
    }

    /// The digest as the store keeps it.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for ReleaseDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl FromStr for ReleaseDigest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| DigestError)?;
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for ReleaseDigest {
    type Error = DigestError;

    fn try_from(text: String) -> Result<Self, DigestError> {
        text.parse()
    }
}

impl From<ReleaseDigest> for String {
    fn from(digest: ReleaseDigest) -> Self {
        digest.to_string()
    }
}
