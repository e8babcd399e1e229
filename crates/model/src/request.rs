//! Calls: what an attempt sends, pinned when the intent is written.
//!
//! A retry sends the very bytes of the first try. They are kept with the intent, so no later
//! change of a flow, a worker or a library can alter what goes out under the same key.

use serde::{Deserialize, Serialize};

use crate::kv::Operation;
use crate::span::Span;

/// What a step asks of the world.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// One HTTP request.
    Http(HttpRequest),
    /// One operation on the namespace's own key-value table.
    Kv(Operation),
}

/// One HTTP request, rendered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpRequest {
    /// The method, in capitals.
    pub method: String,
    /// The absolute address.
    pub url: String,
    /// Names and values, in the order in which they are sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// The body, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// How long the whole exchange may take.
    pub timeout: Span,
}
