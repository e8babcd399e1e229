//! Flows, their drafts and releases.

use jiff::Timestamp;
use semel_model::FlowName;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::pause::Pause;
use super::problem::Diagnostic;
use crate::schema;

/// A flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Flow {
    /// Its name.
    pub name: String,
    /// The number of the release that new runs start on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<i32>,
    /// When that release replaced another; absent before the first promotion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_at: Option<Timestamp>,
    /// The number of the latest release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest: Option<i32>,
    /// Whether a rehearsal has proven the live release, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<String>,
    /// Its pause, where it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
    /// When the working copy was pushed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft_at: Option<Timestamp>,
    /// When the latest release was frozen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_at: Option<Timestamp>,
}

/// A flow with its texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlowDetail {
    /// The flow itself.
    #[serde(flatten)]
    pub flow: Flow,
    /// The working copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft: Option<String>,
    /// Its latest releases, newest first.
    pub releases: Vec<Release>,
    /// Where older releases begin, where there are some: the cursor of `GET /v1/flows/{flow}/releases`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub older_releases: Option<String>,
}

/// A frozen copy of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Release {
    /// Its number within the flow.
    pub number: i32,
    /// The digest of its canonical form.
    pub digest: String,
    /// When it was frozen.
    pub published_at: Timestamp,
    /// Its text.
    pub source: String,
    /// Whether a rehearsal has proven it, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<String>,
}

/// Replaces a flow's working copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PushFlow {
    /// The flow's text, YAML.
    pub source: String,
}

/// A flow's working copy was replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Draft {
    /// The flow.
    #[schema(value_type = schema::FlowName)]
    pub flow: FlowName,
    /// What the text means but perhaps should not: warnings only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<Diagnostic>,
}

/// A draft was frozen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Published {
    /// The flow.
    #[schema(value_type = schema::FlowName)]
    pub flow: FlowName,
    /// The number of the release.
    pub release: i32,
    /// The digest of its canonical form.
    pub digest: String,
    /// False when the same text had been frozen before; the number is that of then.
    pub first: bool,
}

/// Makes a release the one that new runs start on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Promote {
    /// Its number.
    pub release: i32,
    /// Why it goes live although no rehearsal has proven it. Needs the right `override`.
    #[serde(rename = "override", default, skip_serializing_if = "Option::is_none")]
    pub override_reason: Option<String>,
}

/// A release is live.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Promoted {
    /// The flow.
    #[schema(value_type = schema::FlowName)]
    pub flow: FlowName,
    /// The number of its live release.
    pub release: i32,
    /// Whether a rehearsal has proven it, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<String>,
}

/// Which release of a flow to draw.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GraphFilter {
    /// Its number; absent: the live release, or the latest where none is live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<i32>,
    /// Whether every step is drawn, however many there are.
    #[serde(default)]
    pub whole: bool,
}

/// Which releases of a flow to compare.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DiffFilter {
    /// The release to compare with; absent: the live one, or the first where none is live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<i32>,
    /// The release to look at; absent: the draft, or the latest where there is no draft.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<i32>,
}

/// What one release of a flow means that another does not. How they are spelled makes no difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlowDiff {
    /// The flow.
    pub flow: String,
    /// What was compared with: `r` and a number.
    pub before: String,
    /// What was looked at: `r` and a number, or `draft`.
    pub after: String,
    /// What differs.
    pub differences: Vec<FlowDifference>,
    /// What the check says of what was looked at, with the connections as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<Diagnostic>,
}

/// One thing that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlowDifference {
    /// What differs, in one word: `guard`, `key`, `effect_added`, …
    pub kind: String,
    /// The step, where it is one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// What it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// What it is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// What follows for deliveries, runs and effects of before, where something does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub means: Option<String>,
}

/// Which releases of a flow to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseFilter {
    /// The most releases of one page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u16>,
    /// Where the page before ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}
