//! A corrected result.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An operator corrects the result that an operator gave a settled effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultAmendment {
    /// The step's path.
    pub step: String,
    /// The destination's identity for what was made; as it was, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
    /// The step's result.
    #[serde(default)]
    pub result: Value,
}
