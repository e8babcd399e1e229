//! What every request can reach.

use std::sync::Arc;

use semel_engine::Engine;
use semel_store::Cell;
use tokio_util::sync::CancellationToken;

use crate::auth::Verified;
use crate::metrics::Meters;
use crate::pulse::Pulse;
use crate::rate_limit::RateLimits;
use crate::serve::ServerOptions;

/// What every request can reach; cheap to clone.
pub(crate) type App = Arc<Shared>;

/// One per server.
pub(crate) struct Shared {
    /// What moves runs forward.
    pub(crate) engine: Engine,
    /// What the operator chose.
    pub(crate) options: ServerOptions,
    /// Tokens that were verified a moment ago.
    pub(crate) verified: Verified,
    /// How much is admitted.
    pub(crate) edge: RateLimits,
    /// What is measured here.
    pub(crate) meters: Meters,
    /// What is known of the database without asking.
    pub(crate) pulse: Pulse,
    /// The database as requests read from it.
    pub(crate) people: Cell,
    /// Ends long waits when the server shuts down.
    pub(crate) shutdown: CancellationToken,
}

impl Shared {
    /// Where requests read: a pool of their own, which can change nothing.
    pub(crate) fn cell(&self) -> &Cell {
        &self.people
    }
}
