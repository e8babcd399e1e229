//! Runs and the keys that made them.

use jiff::Timestamp;
use semel_model::gate::GateKind;
use semel_model::{ClaimId, FlowName, RunId, TriggerKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::child_run::ChildRunProgress;
use super::effect::{Act, Effect};
use super::pause::Pause;
use super::run_status::RunStatus;
use super::story::KeyStory;
use super::wait::Wait;
use crate::schema;

/// Asks for a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartRun {
    /// What the flow's expressions read as `input`.
    #[serde(default)]
    pub input: Value,
    /// The run's key, any text, where the trigger has no `key`. A trigger that has one names its
    /// runs itself, and refuses another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// `manual` when a person asks; `api` otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::TriggerKind>)]
    pub trigger: Option<TriggerKind>,
}

/// The answer to a delivery: the run that answers for its key, first or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Started {
    /// The run.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    /// Its key.
    pub key: String,
    /// Its flow.
    pub flow: String,
    /// Its state.
    pub state: RunStatus,
    /// When its delivery was accepted.
    pub accepted_at: Timestamp,
    /// Its result, once it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// What was wrong, where it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Value>,
    /// Whether this delivery brought another payload and is held for an operator.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Run {
    /// The run.
    #[serde(rename = "run")]
    #[schema(value_type = schema::RunId)]
    pub id: RunId,
    /// Its flow.
    pub flow: String,
    /// The number of its release.
    pub release: i32,
    /// Its key.
    pub key: String,
    /// Its state.
    pub state: RunStatus,
    /// When its delivery was accepted.
    pub accepted_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// When it is due again; absent when only an operator or a callback wakes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Timestamp>,
    /// Its result, once it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// What was wrong, where it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Value>,
    /// Whether an operator asked for its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancelling: bool,
    /// Its parent run, where it is an item or a branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::RunId>)]
    pub parent: Option<RunId>,
    /// When its payloads were erased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erased_at: Option<Timestamp>,
    /// When it was archived: it is shown as it was then, and cannot be changed any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived_at: Option<Timestamp>,
}

/// A run with all that happened to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunDetail {
    /// The run itself.
    #[serde(flatten)]
    pub run: Run,
    /// Where it waits before its first step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<AtGate>,
    /// The pause that it sleeps for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
    /// The business key that it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for_key: Option<BehindKey>,
    /// Its changes to the world, in the order of their intents.
    pub effects: Vec<Effect>,
    /// Its pauses that a callback can end.
    pub waits: Vec<Wait>,
    /// The progress of its items and branches, by step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub child_runs: Vec<ChildRunProgress>,
    /// What operators did to it, its effects, waits and key, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acts: Vec<Act>,
    /// What was done under its key, by all runs of the key with their branches and items; of an item or a
    /// branch, what was done at its place. Absent for an archived run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub under_key: Option<KeyStory>,
    /// What happened, in order.
    // Keep this the last field: `server/runs/detail.rs` writes the lines in before the closing brace.
    pub journal: Vec<JournalLine>,
}

/// A run that waits until another holder of its step's business key is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BehindKey {
    /// The step's path.
    pub step: String,
    /// Where the key counts.
    pub scope: String,
    /// The key.
    pub key: String,
    /// The run that has it; absent where a script has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::RunId>)]
    pub behind: Option<RunId>,
    /// The state of that run: where it is stopped, an operator has to act on it first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind_state: Option<RunStatus>,
    /// The script that has it, by host and process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// Whether the effect is in doubt there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_doubt: bool,
}

/// A run that waits at a gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AtGate {
    /// What holds it up: `order`, `overlap` or `limit`.
    #[schema(value_type = schema::GateKind)]
    pub gate: GateKind,
    /// Its place there: `waiting`, `debouncing`, `granted`, `joining` or `dropped`.
    pub place: String,
    /// The run that holds the gate, or that it joined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::RunId>)]
    pub behind: Option<RunId>,
    /// How many are before it in line; a thousand stand for more.
    pub ahead: i64,
    /// When it may start, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// What happened to a run in one commit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JournalLine {
    /// Its number, from 1 and without a gap.
    pub seq: i32,
    /// When.
    pub at: Timestamp,
    /// The events.
    pub events: Vec<JournalEvent>,
}

/// One event of a run's journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JournalEvent {
    /// What happened, in one sentence for people.
    #[serde(default)]
    pub summary: String,
    /// What happened, for programs: the event's name under `event`, and what belongs to it.
    #[serde(flatten)]
    #[schema(value_type = schema::AnyObject)]
    pub event: Value,
}

/// Which runs to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunFilter {
    /// Only of this flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::FlowName>)]
    pub flow: Option<FlowName>,
    /// Only those in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<RunStatus>,
    /// Only those of this key, in any flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Only those on the release of this number, with `flow`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<i32>,
    /// Only those that were accepted at this time or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Only those that were accepted before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Only those whose fault has this code: of failed runs, where `state` names no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Only the items and branches of this run that have begun, in their order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::RunId>)]
    pub parent: Option<RunId>,
    /// Only those with an effect that the destination knows by this identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
    /// Only these runs, by their identities with commas between, 500 at most, in this order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ids: Option<String>,
    /// The most runs of one page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u16>,
    /// Where the page before ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Resumes a run that failed or needs review.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Resume {
    /// Why, for the audit log.
    pub reason: String,
    /// Whether people who rejected an approval are asked again; otherwise a run that failed by a
    /// rejection is not resumed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ask_again: bool,
}

/// A run was resumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Resumed {
    /// The run.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    /// Always true.
    pub resumed: bool,
}

/// Asks for a run's end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Cancel {
    /// Why, for the audit log.
    pub reason: String,
}

/// A run's end was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cancelled {
    /// The run; it ends at its next commit.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    /// Always true.
    pub cancelling: bool,
}

/// What is known of a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct KeyInfo {
    /// The flow whose key it is.
    #[schema(value_type = schema::FlowName)]
    pub flow: FlowName,
    /// The key.
    pub key: String,
    /// Semel's hold on it.
    #[schema(value_type = schema::ClaimId)]
    pub claim: ClaimId,
    /// The run that answers for it.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    /// The state of that run, while its record is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<RunStatus>,
    /// The fingerprint of the first delivery's payload, for who may see payloads: a short one could be
    /// guessed by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// When the key may expire.
    pub expires_at: Timestamp,
    /// What was done under the key, in sentences. Lists leave it out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verdict: Vec<String>,
}

/// Erases what was said in the runs of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EraseRun {
    /// Why, for the audit log.
    pub reason: String,
}

/// What was said in the runs of a key was erased.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErasedRuns {
    /// The run that was named.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    /// How many runs of its key were erased, with child runs.
    pub runs: u64,
    /// How many resources were removed.
    pub resources: u64,
    /// The runs of other keys that they started, which keep what they were given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<schema::RunId>)]
    pub started: Vec<RunId>,
    /// What may still have copies, in words.
    pub not_reached: Vec<String>,
}

/// Frees a key, so that the next delivery makes a new run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DropKey {
    /// Why, for the audit log.
    pub reason: String,
    /// Whether the key is a new intent from now on: what its runs did may be done again, under new
    /// keys.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub new_intent: bool,
}

/// A key was freed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Dropped {
    /// The flow whose key it was.
    #[schema(value_type = schema::FlowName)]
    pub flow: FlowName,
    /// The key.
    pub key: String,
    /// The run that answered for it.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
}
