//! What a replay would do, as the API's document describes it.

use serde_json::Value;
use utoipa::ToSchema;

use super::{EffectId, RunId};

/// What the next run of a key would do, if an operator replayed its last one now.
#[derive(ToSchema)]
pub struct ReplayPreview {
    /// The run that is replayed.
    pub run: RunId,
    /// Its flow.
    pub flow: String,
    /// Its key.
    pub key: String,
    /// The release that it is on.
    pub last_release: i32,
    /// The release that the next run would be on.
    pub release: i32,
    /// The first step whose read or function is made again; absent where all keep their results.
    pub from: Option<String>,
    /// The fingerprint of the input that it would have; absent without the right `payload`.
    pub input: Option<String>,
    /// The steps that keep the results of reads, functions and timers.
    pub kept: Option<Vec<String>>,
    /// What it would do at each step that asks for something outside of the run, in order.
    pub steps: Vec<StepForecast>,
    /// What else an operator should know, in sentences.
    pub notes: Option<Vec<String>>,
    /// Why it is not carried out as it is; absent where it can be.
    pub obstacles: Option<Vec<ReplayObstacle>>,
    /// The fingerprint of all of the above: a replay is carried out only while it is the same.
    pub digest: String,
}

/// What a replay would do at one step.
#[derive(ToSchema)]
pub struct StepForecast {
    /// The step's path.
    pub step: String,
    /// The kind of step, e.g. http.
    pub kind: String,
    /// What would happen: `skipped`, `changed`, `differs`, `performed`, `in_doubt`, `unknown`, `read`,
    /// `waits`, `asks`, `items`, `not_run` or `fails`.
    pub forecast: String,
    /// The effect, where there is one.
    pub effect: Option<EffectId>,
    /// The run that performed it, where it is done.
    pub run: Option<RunId>,
    /// The destination's identity for what was made.
    pub external_id: Option<String>,
    /// What differs from the request that was sent, where it is `changed`.
    pub fields: Option<Vec<ChangedField>>,
    /// Whether the operator accepts the difference.
    pub accepted: Option<bool>,
    /// The fingerprint of what is sent, where it is `performed`; absent without the right `payload`.
    pub request: Option<String>,
    /// The step whose result is not known yet, where it is `unknown`.
    pub before: Option<String>,
    /// How many items of the last run are done.
    pub done: Option<u64>,
    /// How many items of the last run are not; absent where the last run did not come to it.
    pub left: Option<u64>,
    /// The code of the fault, where it `fails`.
    pub code: Option<String>,
    /// Why it fails.
    pub message: Option<String>,
}

/// One member of a request that differs.
#[derive(ToSchema)]
pub struct ChangedField {
    /// Where it is in the request, as a JSON pointer (RFC 6901).
    pub path: String,
    /// What was sent; absent where it was not there.
    pub old: Option<Value>,
    /// What would be sent now; absent where it is not there.
    pub new: Option<Value>,
}

/// Why a replay is not carried out as it is.
#[derive(ToSchema)]
pub struct ReplayObstacle {
    /// The stable word for it.
    pub code: String,
    /// What is in the way, and what to do.
    pub message: String,
}
