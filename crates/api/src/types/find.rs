//! Everything that is known under one key, and entries of `kv`.

use jiff::Timestamp;
use semel_model::RunId;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::{Approval, ChildRun, Duplicate, Effect, KeyStory, OnceEffect, Run, Wait};
use crate::schema;

/// Everything that is known under one key. Each list has the newest first, up to a limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FoundKey {
    /// The key.
    pub key: String,
    /// What was done under the key, in sentences.
    #[serde(default)]
    pub verdict: Vec<String>,
    /// What was done under the key, by step: in its runs with their branches and items, in items whose key it
    /// is, and by named effects. Where the key is the identifier of an effect, of that effect's step.
    #[serde(default)]
    pub story: KeyStory,
    /// The runs whose key it is, of every flow.
    pub runs: Vec<Run>,
    /// The items of lists whose key it is.
    pub items: Vec<FoundItem>,
    /// Effects of those runs and items, and those that a destination knows by this identifier. Those of branches
    /// and other items are in the story alone.
    pub effects: Vec<Effect>,
    /// The named effects whose key it is: of steps with a `key`, and of `semel once`.
    pub named_effects: Vec<OnceEffect>,
    /// The waits of those runs, and open waits for an event with this value.
    pub waits: Vec<Wait>,
    /// The approvals of those runs.
    pub approvals: Vec<Approval>,
    /// The duplicates that were stopped at those runs, and deliveries of the key that came too late.
    pub duplicates: Vec<Duplicate>,
    /// The entry of `kv` that is called so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<Entry>,
    /// The lists that have more than is shown here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cut: Vec<String>,
}

impl FoundKey {
    /// Whether nothing is known under the key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
            && self.items.is_empty()
            && self.effects.is_empty()
            && self.named_effects.is_empty()
            && self.waits.is_empty()
            && self.approvals.is_empty()
            && self.duplicates.is_empty()
            && self.entry.is_none()
    }
}

/// An item of a list, with the run that has the list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FoundItem {
    /// The run that has the list.
    #[schema(value_type = schema::RunId)]
    pub parent: RunId,
    /// The item.
    #[serde(flatten)]
    pub item: ChildRun,
}

/// An entry of `kv`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Entry {
    /// Its name.
    pub entry: String,
    /// Its value. Lists leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// Grows with every write.
    pub version: i64,
    /// When it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// Which entries of `kv` to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EntryFilter {
    /// Only those whose name begins so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Where the page before ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Which keys to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyFilter {
    /// The most keys of a page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u16>,
    /// Where the page before ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}
