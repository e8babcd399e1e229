//! What every request can reach.

use std::sync::Arc;

use semel_engine::Engine;
use semel_store::Cell;
use tokio_util::sync::CancellationToken;

use crate::access::Verified;
use crate::edge::Edge;
use crate::meters::Meters;
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
    /// How much is let in.
    pub(crate) edge: Edge,
    /// What is measured here.
    pub(crate) meters: Meters,
    /// Tells whoever waits for long that the server goes down.
    pub(crate) shutdown: CancellationToken,
}

impl Shared {
    /// Where reads go.
    pub(crate) fn cell(&self) -> &Cell {
        self.engine.cell()
    }
}
