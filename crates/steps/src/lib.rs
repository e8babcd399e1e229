//! The outside world: one executor per kind of step.
//!
//! The engine commits the intent before it calls an executor and the outcome after. An executor
//! therefore never retries, never reads the store, and never returns an error: whatever happened
//! is one of three facts, an [`Outcome`](semel_model::Outcome).

mod answer_room;
pub mod bounded_client;
mod connection_test;
pub mod db;
pub mod destination;
pub mod egress;
pub mod executor;
pub mod executors;
pub mod failpoint;
pub mod gate;
pub mod http;
pub mod limits;
pub mod llm;
pub mod notify;
mod reach;
pub mod redact;
pub mod resources;
pub mod ssh;
pub mod stage;
mod tls;
mod wire;

pub use answer_room::AnswerRoom;
pub use db::DbExecutor;
pub use destination::Destination;
pub use egress::{Egress, HttpProxy};
pub use executor::{Attempt, Executor, Origin, Route, Setup};
pub use executors::Executors;
pub use gate::SendGate;
pub use http::{HttpExecutor, Pooling, SetupError};
pub use limits::{Asker, DestinationLimits, ROOM_PATIENCE, ROOM_WAIT_MAX, Room};
pub use llm::LlmExecutor;
pub use notify::{NotifyExecutor, WebhookPayload};
pub use reach::Reach;
pub use redact::Redactor;
pub use resources::{KeepError, NoResources, Opened, ResourceStore};
pub use ssh::SshExecutor;
pub use stage::DestinationStage;
