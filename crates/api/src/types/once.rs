//! Named effects of scripts: performed once under a key that people choose.

use jiff::Timestamp;
use semel_model::named_effect::OnDoubt;
use semel_model::{EffectId, HolderId, Label, NamedEffectId, NamedEffectState, RunId, Span};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::schema;

/// Asks for the right to perform an effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BeginOnce {
    /// The scope's name; the key is shared by the whole namespace where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Label>)]
    pub scope: Option<Label>,
    /// The key, 1 to 1024 bytes.
    pub key: String,
    /// What the process calls itself, made anew by each. A repeat under it gets the same token.
    #[schema(value_type = schema::HolderId)]
    pub holder: HolderId,
    /// Host and process, for people.
    pub holder_name: String,
    /// What the process would do, or a digest of it: under one key it is always the same.
    #[serde(default)]
    pub request: Value,
    /// How long the process may be silent; 60 s by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Span>)]
    pub lease: Option<Span>,
    /// What it agrees to if it is lost; `ask` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::OnDoubt>)]
    pub on_doubt: Option<OnDoubt>,
    /// How long the effect is remembered once it is done or failed; a year by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Span>)]
    pub keep: Option<Span>,
}

/// The right to perform an effect, or what is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BegunOnce {
    /// Whether the effect is this process's to perform. Otherwise `effect` says what is there.
    pub first: bool,
    /// The hold, where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<OnceHold>,
    /// What is there: done, pending or in doubt; failed where this process itself reported that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<OnceEffect>,
}

/// A process's hold on an effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OnceHold {
    /// What every report has to carry.
    pub token: i64,
    /// The key to pass on to the destination.
    #[schema(value_type = schema::EffectId)]
    pub effect_key: EffectId,
    /// How many intents the name had before.
    pub generation: u32,
    /// How long the process may be silent.
    #[schema(value_type = schema::Span)]
    pub lease: Span,
    /// When it counts as lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<Timestamp>,
}

/// Says that the process still performs the effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatOnce {
    /// The scope's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Label>)]
    pub scope: Option<Label>,
    /// The key.
    pub key: String,
    /// The token of the hold.
    pub token: i64,
}

/// The process may continue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RenewedOnce {
    /// When it counts as lost.
    pub lease_until: Timestamp,
}

/// It happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FinishOnce {
    /// The scope's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Label>)]
    pub scope: Option<Label>,
    /// The key.
    pub key: String,
    /// The token of the hold.
    pub token: i64,
    /// What every repeat gets, up to 256 KiB of JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// What the destination calls the thing that was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
}

/// It did not happen, or the process cannot say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FailOnce {
    /// The scope's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Label>)]
    pub scope: Option<Label>,
    /// The key.
    pub key: String,
    /// The token of the hold.
    pub token: i64,
    /// A stable word for the kind of failure; `failed` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What happened, for people.
    #[serde(default)]
    pub message: String,
    /// Whether it may have happened: then an operator settles it.
    #[serde(default)]
    pub in_doubt: bool,
}

/// A report is recorded, now or before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReportedOnce {
    /// Always true.
    pub accepted: bool,
}

/// Asks for an effect by its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GetOnce {
    /// The scope's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Label>)]
    pub scope: Option<Label>,
    /// The key.
    pub key: String,
}

/// Records what an operator found at the destination of an effect in doubt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SettleOnce {
    /// The scope's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Label>)]
    pub scope: Option<Label>,
    /// The key.
    pub key: String,
    /// The token of the effect as the operator saw it: if there was another holder since, nothing is
    /// settled.
    pub token: i64,
    /// Whether it happened.
    pub happened: bool,
    /// What every repeat gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// What the destination calls the thing that was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
    /// The reason, for the audit log.
    pub reason: String,
}

/// Lets a done effect be performed again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RedoOnce {
    /// The scope's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Label>)]
    pub scope: Option<Label>,
    /// The key.
    pub key: String,
    /// The token of the effect as the operator saw it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<i64>,
    /// The key that the destination was sent, as the operator saw it: needed where there is no token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::EffectId>)]
    pub effect_key: Option<EffectId>,
    /// The reason, for the audit log.
    pub reason: String,
}

/// Takes a key from a quarantined run that holds it: the effect is in doubt then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FreeOnce {
    /// The key that the destination was sent.
    #[schema(value_type = schema::EffectId)]
    pub effect_key: EffectId,
    /// The reason, for the audit log.
    pub reason: String,
}

/// A named effect as people see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OnceEffect {
    /// The effect.
    #[schema(value_type = schema::NamedEffectId)]
    pub id: NamedEffectId,
    /// Its scope: `shared`, `once/NAME`, `flow/NAME` or `flow/NAME/STEP`.
    pub scope: String,
    /// Its key.
    pub key: String,
    /// Its state.
    #[schema(value_type = schema::NamedEffectState)]
    pub state: NamedEffectState,
    /// The key that the destination is sent.
    #[schema(value_type = schema::EffectId)]
    pub effect_key: EffectId,
    /// How many intents the name had before.
    pub generation: u32,
    /// The token of its latest holder, where that is a process, for who may settle or redo it: nothing
    /// but the holder itself reports under it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<i64>,
    /// Its latest holder: host and process of a script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder_name: Option<String>,
    /// Its latest holder, where that is a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::RunId>)]
    pub run: Option<RunId>,
    /// The step of that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// What its latest holder agreed to if it is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::OnDoubt>)]
    pub on_doubt: Option<OnDoubt>,
    /// How long its latest holder may be silent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Span>)]
    pub lease: Option<Span>,
    /// When its holder counts as lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<Timestamp>,
    /// When its latest holder began it.
    pub begun_at: Timestamp,
    /// When its latest holder was last heard of.
    pub heartbeat_at: Timestamp,
    /// When another process may perform it, where its holder was lost and both agreed to `retry`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
    /// When it became done or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<Timestamp>,
    /// The operator who settled its doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_by: Option<String>,
    /// When it is forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Its result; for a command `{exit_code, stdout}`. Lists leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// What the destination calls the thing that was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
    /// Why it failed, or why it is in doubt: `{code, message}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Value>,
    /// What a holder reported too late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Which named effects to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OnceFilter {
    /// Only of this scope, by the name that scripts give it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Label>)]
    pub scope: Option<Label>,
    /// Only in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::NamedEffectState>)]
    pub state: Option<NamedEffectState>,
    /// Only doubts at which no run stands, of every scope, the oldest first: they are settled by the key
    /// that was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubts: Option<bool>,
    /// Where the page before ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// The most effects of the page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u16>,
}
