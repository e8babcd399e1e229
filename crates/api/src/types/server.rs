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

/// The servers of the installation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Servers {
    /// The servers, the newest first; 100 at most.
    pub servers: Vec<Server>,
    /// How much there is to do.
    pub queue: QueueDepth,
    /// The services of the server that answers whose passes failed. Every server runs every service, and
    /// they share the work: none belongs to one server.
    pub failing: Vec<ServiceFailures>,
}
