//! Moving runs forward: intake, leases, turns, waits, recovery, retention.
//!
//! The way of a delivery through the modules, in reading order:
//!
//! - [`intake`] judges where an arrival comes from, reads it, tells its key and has it accepted:
//!   one commit, one run. `finish` completes that even where the sender hangs up; `looks` asks the
//!   database before a hook, flow or connection is said to be unknown.
//! - [`lease`] keeps the process's right to move runs, and takes runs that are due; `holdings`
//!   compares what the session holds with what the process carries.
//! - [`fold`] says what is true of a run, and [`event`] what each event means: of the state, the
//!   tables and the outbox. Pure.
//! - [`decide`] says what comes next, from what is true. Pure: no I/O, no clock.
//! - [`turn`] carries one run forward: decide, write, perform, and again. `stuck` quarantines a run
//!   that cannot be loaded; `spill` keeps on disk what a stopping process could not record.
//! - [`settle`] says what an attempt's outcome means under the effect's guard. Pure.
//! - [`landing`] says for how long a request may still arrive after its intent. Pure.
//! - `gates` lets runs of one object in one at a time.
//! - [`waits`] answers callbacks; [`doubts`] lets people settle what nobody can know.
//! - [`tasks`] lets programs outside do a step's work; [`approvals`] lets people decide.
//! - [`vault`] keeps secrets and the connections that name them.
//! - [`events`] spreads what flows emit to the flows and webhooks that take it; [`subscriptions`]
//!   says which webhooks do.
//! - [`schedule`] gives every instant that a schedule names its run, or says why not.
//! - [`key_audit`] reads what traffic says about keys.
//! - [`llm`] asks a model the same question once; [`resources`] keeps large outputs elsewhere.
//! - [`memory`] bounds by bytes what is read and held.
//! - [`recover`] takes runs back from the dead; [`retain`] forgets what is over.

pub mod approvals;
pub mod boottime;
mod calls;
pub mod catalogue;
pub mod commands;
pub mod connections;
pub mod decide;
pub mod doubts;
mod ends;
pub mod engine;
pub mod event;
pub mod events;
mod fans;
mod finish;
pub mod fold;
mod gates;
mod holdings;
pub mod intake;
pub mod key_audit;
pub mod landing;
pub mod lease;
mod lineage;
mod listeners;
pub mod llm;
mod looks;
pub mod memory;
pub mod metrics;
mod outside;
mod recent;
pub mod recover;
pub mod resources;
pub mod resume;
pub mod retain;
pub mod schedule;
mod secret;
pub mod settle;
mod spill;
mod stuck;
pub mod subscriptions;
pub mod tasks;
pub mod turn;
pub mod vault;
pub mod waits;

pub use approvals::{Approver, ClaimedName, DecideError, Decided};
pub use catalogue::{Catalogue, Release};
pub use commands::{CancelError, DropError, FlowError, Published};
pub use connections::{By, ConnectionError, Kept};
pub use doubts::{Amendment, SettleError, Settlement};
pub use engine::{Engine, Options, Secret, StartError};
pub use intake::{Accepted, Arrival, Authentic, Intake, IntakeError, KeySource, Stale, Start};
pub use memory::Budget;
pub use resources::Resources;
pub use resume::{ResumeError, Wish};
pub use schedule::{FireError, Fired, Moment, PauseError, ScheduleView};
pub use semel_steps::resources::{Bucket, NoResources, Opened, Place, ResourceStore, Shelf};
pub use subscriptions::{RetryError, SubscriptionError};
pub use tasks::{TaskAnswer, TaskError};
pub use vault::{KeyReport, MasterKeys, SecretView, VaultError};
pub use waits::{CallbackError, Called};
