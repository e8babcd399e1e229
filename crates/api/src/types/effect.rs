//! Effects, doubts and the repeats that were stopped.

use jiff::Timestamp;
use semel_model::effect::EffectState;
use semel_model::{DuplicateId, EffectId, FlowName, RunId};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::attended::{Attended, Deniable};
use super::held::HeldDecision;
use crate::schema;

/// One change to the world.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Effect {
    /// The effect.
    #[serde(rename = "effect")]
    #[schema(value_type = schema::EffectId)]
    pub id: EffectId,
    /// Its run.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    /// The step's path.
    pub step: String,
    /// The kind of step.
    pub kind: String,
    /// What makes it safe to repeat.
    pub guard: String,
    /// Where it stands.
    #[schema(value_type = schema::EffectState)]
    pub state: EffectState,
    /// The number of its latest attempt, from 1.
    pub attempt: i32,
    /// When the latest attempt's intent was written.
    pub intended_at: Timestamp,
    /// When its run wrote the intent of the first attempt, where there were several: on a single effect, and on
    /// doubts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_intended_at: Option<Timestamp>,
    /// When its outcome was written; absent while it is in doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<Timestamp>,
    /// The destination's identity for what was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
    /// What was seen, where it did not simply succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Its flow and the key that its run came with, where effects were asked for by either end; on
    /// a single effect, and on doubts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// The key that the destination is sent with every attempt: the effect's own, or that of the
    /// step's business key. On a single effect, on doubts and on the effects of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::EffectId>)]
    pub key_sent: Option<EffectId>,
    /// What was sent, or would be: on a single effect, and on doubts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<Sent>,
    /// Where it is looked up at the destination, by the connection's `find_url`: on a single effect, and on
    /// doubts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub find_url: Option<String>,
    /// From when on an operator may say that it did not happen: on a doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deniable: Option<Deniable>,
    /// What people said of it while they look into it: on a doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attended: Option<Attended>,
    /// What people did about it; on a single effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acts: Vec<Act>,
}

/// What an effect sends, as it was recorded with its intent. Credentials are no part of it, and
/// links that decide an approval are redacted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Sent {
    /// The connection that it uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<String>,
    /// The method and the address, the statement, the command, or whom it goes to.
    pub what: String,
    /// The body, the values, or the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Whether there is more of the body than is shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// What an operator did, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Act {
    /// When.
    pub at: Timestamp,
    /// Who: `token:NAME`, or `link:NAME (unverified)`.
    pub actor: String,
    /// What was done, e.g. `doubt.settle happened`.
    pub action: String,
    /// What it was done to.
    pub subject: String,
    /// Why, in the operator's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Where an effect comes from, as its sender named it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Source {
    /// The flow.
    pub flow: String,
    /// The run's key.
    pub key: String,
    /// The number of the release that the run is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<i32>,
}

/// Which effects to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EffectFilter {
    /// Only in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::EffectState>)]
    pub state: Option<EffectState>,
    /// Only of this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::RunId>)]
    pub run: Option<RunId>,
    /// Only those that the destination knows by this identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
    /// Only of this flow; with `key`, only of the run that it has for the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::FlowName>)]
    pub flow: Option<FlowName>,
    /// The key, with `flow`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Only of the step with this path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Only those whose latest attempt was intended at this time or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Only those whose latest attempt was intended before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The most effects of one page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u16>,
    /// Where the page before ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// An operator's settlement of an effect in doubt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Settle {
    /// What the operator found.
    pub verdict: Verdict,
    /// The destination's identity for what was made; with `happened`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
    /// What later steps read as the step's result; with `happened`. Null says that it gave nothing.
    #[serde(
        default,
        deserialize_with = "given",
        skip_serializing_if = "Option::is_none"
    )]
    pub result: Option<Value>,
    /// The attempt that the operator looked at: where another was made since, nothing is settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<i32>,
    /// Why, for the audit log.
    pub reason: String,
}

/// A member that is there, null included.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Has one done effect of an ended run undone, or performed again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EffectReason {
    /// Why, for the audit log.
    pub reason: String,
}

/// One done effect of an ended run is being undone, or performed again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EffectReopened {
    /// The effect.
    #[schema(value_type = schema::EffectId)]
    pub effect: EffectId,
    /// Its run, which continues and then ends as it had ended.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
}

/// An operator's correction of the result that an operator gave an effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Amend {
    /// What later steps read as the step's result.
    pub result: Value,
    /// The destination's identity for what was made; as before, or as found in the result, when
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
    /// Why, for the audit log.
    pub reason: String,
}

/// An effect's result was corrected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Amended {
    /// The effect.
    #[schema(value_type = schema::EffectId)]
    pub effect: EffectId,
    /// Its run, which continues.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
}

/// What an operator found about an effect in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It happened: the run continues after it.
    Happened,
    /// It happened and must not stand: the run fails, and undoes what it did.
    Undo,
    /// It did not happen: it is performed.
    DidNotHappen,
    /// The run fails here. Whether the effect happened stays unknown: resuming the run brings the
    /// doubt back.
    Fail,
}

impl Verdict {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Happened => "happened",
            Self::Undo => "undo",
            Self::DidNotHappen => "did_not_happen",
            Self::Fail => "fail",
        }
    }
}

/// A doubt was settled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Settled {
    /// The effect.
    #[schema(value_type = schema::EffectId)]
    pub effect: EffectId,
    /// How.
    pub verdict: Verdict,
}

/// Repeats that were stopped at one place with one payload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Duplicate {
    /// What they are known by; absent for what came too late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::DuplicateId>)]
    pub duplicate: Option<DuplicateId>,
    /// The run that answered.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    /// Its flow, while its record is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    /// Its key, while its record is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Where they were stopped: `claim`, `wait`, `replay`, `ledger`, `destination` or `order`.
    pub stopped_by: String,
    /// How they were treated: `repeat`, `mismatch`, `held` or `stale`.
    pub verdict: String,
    /// How many.
    pub count: i64,
    /// When the first came.
    pub first_at: Timestamp,
    /// When the latest came.
    pub last_at: Timestamp,
    /// Their payload's fingerprint, for who may see the payload: a short one could be guessed by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// Their payload, where it differs from the first delivery's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
    /// What came too late, where that is why they were stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Late>,
    /// The key that a held delivery came with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub came_as: Option<String>,
    /// What an operator decided about a held delivery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<HeldDecision>,
}

/// A delivery that was older than what was accepted of its object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Late {
    /// The object.
    pub object: String,
    /// The version that came.
    pub version: String,
    /// The newest version that had been accepted.
    pub newest: String,
}

/// Which duplicates to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DuplicateFilter {
    /// Only those that this run answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::RunId>)]
    pub run: Option<RunId>,
    /// Only those of this key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Only what is held and not decided.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// Only those of this flow; together with `held`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::FlowName>)]
    pub flow: Option<FlowName>,
    /// Leave payloads out, where neither `run` nor `key` is given.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_payloads: bool,
    /// The most of one page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u16>,
    /// Where the page before ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}
