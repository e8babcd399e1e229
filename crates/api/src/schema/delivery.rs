//! Responses that the server writes without a type of the wire, as the API's document describes them.

use utoipa::ToSchema;

use super::RunId;

/// A delivery for which the trigger's `when` is false.
#[derive(ToSchema)]
pub struct IgnoredDelivery {
    /// Always true.
    pub ignored: bool,
}

/// A delivery that is older than what was accepted of its object.
#[derive(ToSchema)]
pub struct StaleDelivery {
    /// Always true.
    pub stale: bool,
    /// The flow.
    pub flow: String,
    /// Its key.
    pub key: String,
    /// The object.
    pub object: String,
    /// The version that came.
    pub version: String,
    /// The newest version that had been accepted.
    pub newest: String,
    /// The run of the newest version.
    pub run: RunId,
}

/// A provider's delivery that brought a known key with another payload: nothing was started.
#[derive(ToSchema)]
pub struct MismatchedDelivery {
    /// Always false.
    pub accepted: bool,
    /// Always `payload-mismatch`.
    pub code: String,
    /// What is wrong.
    pub detail: String,
    /// The run that the key belongs to.
    pub run: RunId,
}

/// The process answers.
#[derive(ToSchema)]
pub struct Alive {
    /// Always true.
    pub alive: bool,
}

/// Whether the server can take deliveries.
#[derive(ToSchema)]
pub struct Ready {
    /// Whether it can.
    pub ready: bool,
    /// Whether the database answered the last check.
    pub database: bool,
    /// Whether its worker session is alive.
    pub session: bool,
    /// How many flows and connections are paused.
    pub paused: usize,
    /// How many background services are late: see the servers of the installation.
    pub late_services: usize,
    /// Whether people are told.
    pub alerts: AlertsHealth,
}

/// Whether people are told.
#[derive(ToSchema)]
pub struct AlertsHealth {
    /// How many namespaces have alerts that do not arrive.
    pub failing: u64,
}
