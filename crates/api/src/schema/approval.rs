//! What people decided, as the API's document describes it.

use jiff::Timestamp;
use utoipa::ToSchema;

/// A decision.
#[derive(ToSchema)]
pub struct ApprovalDecision {
    /// Yes or no.
    pub approved: bool,
    /// Who decided: the name of a token; or, by link, the name that was claimed, which Semel does not
    /// verify.
    pub by: String,
    /// What they said about it.
    pub comment: Option<String>,
    /// When.
    pub at: Timestamp,
}
