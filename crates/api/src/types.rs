//! What goes over the wire. JSON, members in `snake_case`, identities and spans as text, times as
//! RFC 3339 in UTC.
//!
//! An identity has the same member name everywhere: `run`, `effect`, `wait`, `task`, `approval`.
//! Answers may gain members: a reader ignores what it does not know. Requests are read strictly: an
//! unknown member is refused instead of being dropped in silence.

mod alert;
mod approval;
mod attended;
mod audit;
mod audit_record;
mod child_run;
mod connection;
mod doubt;
mod effect;
mod event;
mod find;
mod flow;
mod held;
mod member;
mod namespace;
mod once;
mod pause;
mod problem;
mod reconcile;
mod rehearsal;
mod replay;
mod replay_plan;
mod resource;
mod run;
mod run_job;
mod run_status;
mod schedule;
mod search;
mod secret;
mod server;
mod sign_in;
mod story;
mod subscription;
mod tally;
mod task;
mod token;
mod wait;

pub use alert::{
    AlertGroup, AlertMessage, AlertSetting, Alerts, AlertsSet, AlertsUnset, SetAlerts, TestedAlerts,
};
pub use approval::{Approval, ApprovalFilter, Decide, DecidedApproval};
pub use attended::{AssignDoubt, Attended, AttendedEffect, Deniable, NoteDoubt, SnoozeDoubt};
pub use audit::{
    Differing, DifferingField, KeyAudit, LateKey, LateKeys, SharedPayload, SharedPayloads,
};
pub use audit_record::{
    AuditFilter, AuditRecord, ChainFilter, RemovedFilter, RemovedStretch, read_digest,
};
pub use child_run::{ChildRun, ChildRunFilter, ChildRunProgress, ChildRunState};
pub use connection::{
    Change, Connection, DeletedConnection, KeptConnection, PutConnection, Tried, UnprovenFlow,
};
pub use doubt::{DoubtFilter, GroupedDoubt, GroupedDoubts, SettleGroup};
pub use effect::{
    Act, Amend, Amended, Duplicate, DuplicateFilter, Effect, EffectFilter, EffectReason,
    EffectReopened, Late, Sent, Settle, Settled, Source, Verdict,
};
pub use event::{EmittedEvent, EventDelivery, EventDetail, EventFilter, EventTaker};
pub use find::{Entry, EntryFilter, FoundItem, FoundKey, KeyFilter};
pub use flow::{
    DiffFilter, Draft, Flow, FlowDetail, FlowDiff, FlowDifference, GraphFilter, Promote, Promoted,
    Published, PushFlow, Release, ReleaseFilter,
};
pub use held::{
    AcceptAsNew, DecidedHeld, HeldDecision, HeldReason, RefusedDelivery, RefusedFilter,
};
pub use member::{
    ChangePerson, GroupRole, MapGroup, Person, PersonFilter, RevokedPerson, UnmapGroup,
};
pub use namespace::{CreateNamespace, CreatedNamespace, Namespace, NamespaceFilter, SetNamespace};
pub use once::{
    BeginOnce, BegunOnce, FailOnce, FinishOnce, FreeOnce, GetOnce, HeartbeatOnce, OnceEffect,
    OnceFilter, OnceHold, RedoOnce, RenewedOnce, ReportedOnce, SettleOnce,
};
pub use pause::{AskPause, AskResume, Pause, PauseChange};
pub use problem::{Diagnostic, Problem};
pub use reconcile::{
    AskReconcile, AskedReconcile, PassFilter, PassItem, ReconcilePass, ReconcilePassDetail,
};
pub use rehearsal::{AskRehearsal, Rehearsal, RehearsalFilter};
pub use replay::{
    ChangedField, Forecast, PreviewReplay, Replay, ReplayObstacle, ReplayPreview, Replayed,
    StepForecast,
};
pub use replay_plan::{
    ChangePlan, PlanReplay, PlanSummary, PlannedRun, PlannedRunFilter, ReplayPlan, ReplayPlanFilter,
};
pub use resource::{Resource, ResourceFilter, UploadResource};
pub use run::{
    AtGate, BehindKey, Cancel, Cancelled, DropKey, Dropped, EraseRun, ErasedRuns, JournalEvent,
    JournalLine, KeyInfo, Resume, Resumed, Run, RunDetail, RunFilter, StartRun, Started,
};
pub use run_job::{
    AskRunJob, RefusedRun, RunJob, RunJobFilter, RunJobPlan, RunJobStateCount, RunJobVerb,
    StopRunJob,
};
pub use run_status::{RunStatus, RunStatusError};
pub use schedule::{
    FireSchedule, FiredSchedule, Instant, InstantFilter, PauseSchedule, PausedSchedule, Schedule,
    ScheduleDetail, Tick, TickFilter, TickVerdict,
};
pub use search::{ForgottenSearch, KeptSearch, SaveSearch, SavedSearch, SearchScope};
pub use secret::{DeletedSecret, Rotated, Secret, SecretSet, SetSecret};
pub use server::{
    QueueDepth, Server, ServerState, Servers, ServiceFailures, ServiceState, ServiceStatus,
};
pub use sign_in::SignInCode;
pub use story::{KeyStory, NameStory, StepStory, StoryCounts};
pub use subscription::{
    DeletedSubscription, Delivery, DeliveryFilter, DeliveryState, KeptSubscription,
    PutSubscription, RetriedDelivery, Subscription,
};
pub use tally::{
    NamespaceHealth, Overview, SeriesFilter, Tallies, TallyCount, TallyFilter, TallyPoint,
    TallySeries, WaitingCount,
};
pub use task::{
    AnsweredTask, ClaimTasks, ClaimedTask, ClaimedTasks, CompleteTask, FailTask, RenewTask,
    RenewedTask, Task, TaskFilter,
};
pub use token::{
    CreateToken, CreatedToken, RevokeDerivedTokens, RevokeToken, RevokedDerivedTokens,
    RevokedToken, Token, TokenFilter,
};
pub use wait::{Called, CompleteWait, Wait, WaitFilter};

use jiff::Timestamp;
use semel_model::{Label, NamespaceName, Networks, Rights};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// A stretch of a longer list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Page<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// What to send as `cursor` for the next one; absent on the last.
    #[serde(rename = "cursor", default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The owner and the namespace of a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Whoami {
    /// The one namespace that it opens.
    #[schema(value_type = schema::NamespaceName)]
    pub namespace: NamespaceName,
    /// What its owner calls it.
    pub token: String,
    /// When it stops working.
    pub expires_at: Timestamp,
    /// The groups that its owner belongs to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// What it may do.
    #[serde(default)]
    #[schema(value_type = schema::Rights)]
    pub rights: Rights,
    /// The networks that it is accepted from; none listed is anywhere.
    #[serde(default, skip_serializing_if = "Networks::is_empty")]
    #[schema(value_type = Vec<schema::Network>)]
    pub networks: Networks,
    /// The queues whose tasks it may work on; none listed is every queue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<schema::Label>)]
    pub queues: Vec<Label>,
}
