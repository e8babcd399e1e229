//! Reconcile passes: what a source lists, compared with the runs of a flow.

use jiff::Timestamp;
use semel_model::{FlowName, RunId, Span};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// Asks for a pass that starts now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AskReconcile {
    /// How far back it looks; absent: as the flow says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Span>)]
    pub since: Option<Span>,
    /// Whether it only reports what it would start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// A pass was opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AskedReconcile {
    /// The flow.
    #[schema(value_type = schema::FlowName)]
    pub flow: FlowName,
    /// The pass, by its instant.
    pub nominal: Timestamp,
    /// Whether it only reports.
    pub dry_run: bool,
}

/// Which passes to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PassFilter {
    /// The most passes, or items of a pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u16>,
}

/// A pass, as far as it came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReconcilePass {
    /// The flow.
    pub flow: String,
    /// The instant of its recurrence, or when an operator asked for it.
    pub nominal: Timestamp,
    /// `open`, `done` or `failed`.
    pub state: String,
    /// Older items start nothing.
    pub window_start: Timestamp,
    /// Whether it only reports what it would start.
    pub dry_run: bool,
    /// The operator who asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_by: Option<String>,
    /// How many pages are compared.
    pub pages: i32,
    /// How many items the source listed.
    pub listed: i64,
    /// How many of them had a run.
    pub known: i64,
    /// How many started one; in a dry run, would have.
    pub started: i64,
    /// How many of the known ones differ from the result of their run.
    pub differing: i64,
    /// How many have no usable key, time or input.
    pub unreadable: i64,
    /// How many are too young, older than the window, or excluded.
    pub left_out: i64,
    /// What went wrong last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// A pass with the items that are more than known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReconcilePassDetail {
    /// The pass.
    #[serde(flatten)]
    pub pass: ReconcilePass,
    /// Its items, in the order of the list; there may be more than are kept.
    pub items: Vec<PassItem>,
}

/// An item that is more than known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PassItem {
    /// `started`, `would_start`, `differing` or `unreadable`.
    pub verdict: String,
    /// Its key, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Its run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::RunId>)]
    pub run: Option<RunId>,
    /// What was wrong with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}
