//! Servers: the processes that move runs, and how much there is to do.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a server's session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServerState {
    /// Its lease holds.
    Live,
    /// Its lease is over, and others take its runs.
    Expired,
}

/// A server: one session of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Server {
    /// The session.
    pub session: String,
    /// The host and the number of the process.
    pub process: String,
    /// The version of the program.
    pub version: String,
    /// Whether its lease holds.
    pub state: ServerState,
    /// When the session began.
    pub started_at: Timestamp,
    /// When its lease ends, unless it is renewed before.
    pub expires_at: Timestamp,
    /// How many runs it holds, in all namespaces.
    pub held: i64,
}

/// How much there is to do, in all namespaces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QueueDepth {
    /// Runs that servers hold.
    pub held: i64,
    /// Runs that are due and wait for a server, 10,000 at most.
    pub due: i64,
    /// For how many seconds the first of them has been due.
    pub oldest_due_seconds: f64,
}

/// A background service of the server that answers, and how often it failed there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceFailures {
    /// The service.
    pub service: String,
    /// How many of its passes failed since the server started.
    pub failed: u64,
}

/// Whether a background service is done in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServiceState {
    /// It is.
    OnTime,
    /// The server that should do it finishes nothing, and another one does it meanwhile.
    Covered,
    /// Nobody has finished a pass of it for too long.
    Late,
}

/// A background service: a duty as any server did it last, any other as the server that answers did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ServiceStatus {
    /// The service.
    pub service: String,
    /// Whether one server or a few do it for all.
    pub is_duty: bool,
    /// Whether the server that answers does it.
    pub held_here: bool,
    /// Whether it is done in time.
    pub state: ServiceState,
    /// How long ago a pass was finished, in seconds. Before the first, for how long the server has watched.
    pub finished_seconds: f64,
    /// After how many seconds without a finished pass it is late.
    pub late_after_seconds: f64,
    /// The host and the number of the process that last finished a pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_by: Option<String>,
    /// When a pass last failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_at: Option<Timestamp>,
    /// The host and the number of the process that it failed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_by: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What stays undone, and what to do; absent while it is done in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// The servers of the installation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Servers {
    /// The servers, the newest first; 100 at most.
    pub servers: Vec<Server>,
    /// How much there is to do.
    pub queue: QueueDepth,
    /// The background services, by name.
    pub services: Vec<ServiceStatus>,
    /// The services of the server that answers whose passes failed.
    pub failing: Vec<ServiceFailures>,
}
