//! Searches of runs that people saved.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A search that was saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SavedSearch {
    /// What it is called.
    pub name: String,
    /// What is searched for, as in the console's search box.
    pub query: String,
    /// Whether everybody in the namespace has it.
    pub shared: bool,
    /// Who saved it.
    pub by: String,
    /// When.
    pub saved_at: Timestamp,
}

/// Saves a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SaveSearch {
    /// What is searched for, as in the console's search box; at most 500 characters.
    pub query: String,
    /// Whether everybody in the namespace gets it, which needs the right `operate`.
    #[serde(default)]
    pub shared: bool,
}

/// A search is saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeptSearch {
    /// What it is called.
    pub name: String,
    /// What is searched for.
    pub query: String,
    /// Whether everybody in the namespace has it.
    pub shared: bool,
}

/// Whose search is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchScope {
    /// The one that everybody has, and not one's own.
    #[serde(default)]
    pub shared: bool,
}

/// What removing a search came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ForgottenSearch {
    /// What it was called.
    pub name: String,
    /// Whether there was one.
    pub forgotten: bool,
}
