//! Resources: large outputs, kept by reference and named by their content.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::slot::{InSlot, Slot};

/// The most bytes of an output that a journal holds itself. What is longer becomes a resource.
pub const INLINE_BYTES_MAX: usize = 64 * 1024;

/// A resource's name: `res://` and the SHA-256 of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ResourceRef([u8; 32]);

/// The text names no resource.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected res:// followed by 64 hex digits")]
pub struct ResourceRefError;

impl ResourceRef {
    /// The resource whose bytes have this SHA-256.
    #[must_use]
    pub const fn from_digest(digest: [u8; 32]) -> Self {
        Self(digest)
    }

    /// The SHA-256 of its bytes.
    #[must_use]
    pub const fn digest(&self) -> &[u8; 32] {
        &self.0
    }
}

impl InSlot for ResourceRef {
    fn slot(&self) -> Slot {
        Slot::of_digest(&self.0)
    }
}

impl fmt::Display for ResourceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "res://{}", hex::encode(self.0))
    }
}

impl FromStr for ResourceRef {
    type Err = ResourceRefError;

    fn from_str(text: &str) -> Result<Self, ResourceRefError> {
        let digits = text.strip_prefix("res://").ok_or(ResourceRefError)?;
        let bytes = hex::decode(digits).map_err(|_| ResourceRefError)?;
        bytes.try_into().map(Self).map_err(|_| ResourceRefError)
    }
}

impl TryFrom<String> for ResourceRef {
    type Error = ResourceRefError;

    fn try_from(text: String) -> Result<Self, ResourceRefError> {
        text.parse()
    }
}

impl From<ResourceRef> for String {
    fn from(resource: ResourceRef) -> String {
        resource.to_string()
    }
}

/// A resource as expressions and the API see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resource {
    /// Its name.
    pub resource: ResourceRef,
    /// How many bytes it has.
    pub bytes: u64,
    /// Its media type.
    #[serde(rename = "type")]
    pub media_type: String,
}
