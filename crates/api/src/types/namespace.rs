//! Namespaces: who owns flows, runs and tokens.

use jiff::Timestamp;
use semel_model::{NamespaceName, Span};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::token::CreatedToken;
use crate::schema;

/// A namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Namespace {
    /// Its name.
    pub name: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// Its share where servers are short of room: of two namespaces with due runs, one of weight 2 has
    /// twice as many started as one of weight 1.
    pub weight: i32,
    /// How many of its runs may be due and wait for a server before new deliveries are refused; absent
    /// where as many as come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog_max: Option<i32>,
    /// How long its ended runs are kept whose flow does not say; absent where as long as the server says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Span>)]
    pub history: Option<Span>,
}

/// Changes a namespace; what is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetNamespace {
    /// Its share where servers are short of room, from 1 to 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
    /// How many of its runs may be due and wait for a server before new deliveries are refused. Zero
    /// removes the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog_max: Option<i32>,
    /// How long its ended runs are kept whose flow does not say. Zero leaves that to the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Span>)]
    pub history: Option<Span>,
}

/// Which namespaces to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NamespaceFilter {
    /// How many at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u16>,
    /// Where the page before ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Creates a namespace and its first token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateNamespace {
    /// Its name. It enters into the identity of every run, and never changes.
    #[schema(value_type = schema::NamespaceName)]
    pub name: NamespaceName,
    /// What the holder of its first token is called. That token may do everything in the namespace.
    pub admin: String,
    /// How long that token works; 90 days by default, at most 365.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Span>)]
    pub lifetime: Option<Span>,
}

/// A namespace was created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreatedNamespace {
    /// The namespace.
    pub namespace: Namespace,
    /// Its first token.
    pub admin: CreatedToken,
}
