//! Moving runs forward: ingest, turns, commands, services.
//!
//! The modules are layers: each uses only what stands above it in this list, which a test checks.
//!
//! - [`boottime`], `secret`, [`memory`], [`metrics`]: bounded and counted.
//! - `state_lock`: the lock by which a server that is dead is known dead.
//! - `key_memory`: for how long a destination may remember the key of an effect. Pure.
//! - [`state`] and [`event`]: what is true of a run, and what each event of its journal changes of it,
//!   of the tables, of the outbox and of the timeline. Pure.
//! - [`landing`], [`settle`]: for how long a request may still arrive, and what an outcome means under
//!   the effect's guard. Pure.
//! - [`vault`] keeps secrets and the destinations that use them; [`catalogue`] the releases.
//! - [`archive`]: where ended runs go that are deleted here.
//! - [`pauses`]: what operators paused.
//! - [`rehearsal`]: the stage and the crash points of an engine that rehearses a release.
//! - [`decide`] says what comes next. Pure: no I/O, no clock.
//! - [`runtime`] is what everything below shares. Data only.
//! - [`turn`] moves one run forward: decide, write, perform, and again.
//! - [`ingest`] verifies a delivery's signature, reads it, computes its key and accepts it:
//!   one commit, one run.
//! - [`commands`] are the operations of operators and clients, one file per verb.
//! - [`services`] are the background tasks of a process, one file each.
//! - [`engine`] starts and stops all of it.

mod address;
pub mod archive;
pub mod boottime;
mod call;
pub mod catalogue;
pub mod commands;
pub mod decide;
pub mod engine;
pub mod event;
mod external_result;
mod finish;
mod gates;
pub mod ingest;
pub mod key_audit;
mod key_memory;
pub mod landing;
pub mod llm;
mod lookup;
pub mod memory;
pub mod metrics;
pub mod options;
pub mod pauses;
pub mod rehearsal;
pub mod resources;
pub mod runtime;
mod secret;
pub mod services;
pub mod settle;
mod spill;
pub mod state;
mod state_lock;
pub mod turn;
mod unavailable;
pub mod vault;

pub use archive::{ArchiveError, ArchivedText, ErasedFile, RunArchive};
pub use catalogue::{Catalogue, Release};
pub use commands::alert::AlertError;
pub use commands::amend::Amendment;
pub use commands::answer_task::{TaskAnswer, TaskError};
pub use commands::attend::{ASSIGNEE_CHARS_MAX, AttendError, EffectLookUp};
pub use commands::cancel::CancelError;
pub use commands::connection::{Actor, ConnectionChange, ConnectionError, SecretChange};
pub use commands::decide_approval::{Approver, ClaimedName, DecideError, Decided};
pub use commands::decide_held::{HeldError, HeldOutcome, HeldWish};
pub use commands::drop_key::{DropError, DropWish};
pub use commands::erase::{EraseError, Erasure};
pub use commands::fire_schedule::{FireError, Fired, Moment, PauseError, ScheduleView};
pub use commands::job_maker::JobMaker;
pub use commands::member::{GROUP_CHARS_MAX, MemberError};
pub use commands::namespace::{NamespaceError, NewNamespace};
pub use commands::once::{OnceBegin, OnceBegun, OnceError, OnceFailure, OnceSubject, SeenIntent};
pub use commands::operator_step::OperatorStepError;
pub use commands::pause::{PauseCommandError, RESUME_RATE_MAX, RESUME_RATE_MIN};
pub use commands::publish::{FlowError, Published};
pub use commands::reconcile::ReconcileError;
pub use commands::rehearse::StagedDelivery;
pub use commands::replay::{ReplayError, ReplayWish};
pub use commands::replay_plan::{PlanError, PlanWish};
pub use commands::resume::{ResumeError, Wish};
pub use commands::run_job::{RunJobError, RunJobPlan, RunJobWish};
pub use commands::settle::{DoubtGroup, GroupDoubt, GroupPlan, SettleError, Settlement};
pub use commands::subscription::{RetryError, SubscriptionError};
pub use commands::token::{
    KeptToken, RevokedDerived, RevokedToken, TOKEN_DAYS_MAX, TokenError, TokenMaker, name_token,
    validate_token,
};
pub use engine::Engine;
pub use ingest::callback::{CallbackError, Called};
pub use ingest::{
    Accepted, Authentic, Intake, IntakeError, KeySource, StaleDelivery, Start, WebhookRequest,
};
pub use memory::Budget;
pub use options::Options;
pub use rehearsal::{CrashPoint, CrashPoints, Rehearsal};
pub use resources::{Resources, UploadError};
pub use runtime::{PassFailure, Runtime, ServiceView, StartError, Timeliness};
pub use secret::{Secret, SecretError};
pub use semel_steps::bounded_client::{BoundedClient, FetchError, Fetched};
pub use semel_steps::resources::{
    Bucket, NoResources, ObjectFolder, Opened, ResourceLocation, ResourceLocationError,
    ResourceStore, StoredFiles,
};
pub use services::{DUTIES, SinglePass};
pub use vault::{KeyReport, MasterKeys, SecretView, VaultError};
