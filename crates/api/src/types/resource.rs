//! Resources: large outputs and uploads that are kept by reference.

use jiff::Timestamp;
use semel_model::{ResourceRef, RunId, Span};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// A large output or an upload that is kept by reference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Resource {
    /// Its name, made from its bytes.
    #[schema(value_type = schema::ResourceRef)]
    pub resource: ResourceRef,
    /// How many bytes it has.
    pub bytes: u64,
    /// Its media type.
    #[serde(rename = "type")]
    pub media_type: String,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The run that kept it first; absent where it was uploaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::RunId>)]
    pub run: Option<RunId>,
    /// The step that kept it first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// When.
    pub created_at: Timestamp,
    /// When it may be removed.
    pub expires_at: Timestamp,
}

/// How an uploaded resource is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UploadResource {
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How long it is kept: a week by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Span>)]
    pub keep: Option<Span>,
}

/// Which resources to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResourceFilter {
    /// The most resources of one page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u16>,
    /// Where the page before ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}
