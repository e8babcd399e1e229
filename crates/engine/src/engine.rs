//! The engine: how a process starts and stops. Imports everything, and is imported by nothing here.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::{Arc, Mutex};

use semel_store::Cell;
use tokio::task::AbortHandle;

use crate::options::Options;
use crate::runtime::{Runtime, StartError};
use crate::{services, spill};

mod stop;

/// Moves runs forward. Clones share one engine. Its operations are methods of [`Runtime`], in
/// `ingest` and `commands`.
#[derive(Clone)]
pub struct Engine {
    runtime: Arc<Runtime>,
    services: Arc<Mutex<Vec<AbortHandle>>>,
}

impl Engine {
    /// Begins a session and starts every service.
    pub async fn start(cell: Cell, options: Options) -> Result<Self, StartError> {
        let runtime = Arc::new(Runtime::start(cell, options).await?);
        if let Some(folder) = &runtime.options.state_dir {
            // Before any run is taken, so that no effect that happened is performed again.
            spill::record_spilled(&runtime.cell, folder, &runtime.options.masters).await?;
        }
        let services = services::start(&runtime);
        Ok(Self {
            runtime,
            services: Arc::new(Mutex::new(services)),
        })
    }

    /// Closes further addresses of the installation itself to flows.
    pub fn close_addresses(&self, own: impl IntoIterator<Item = SocketAddr>) {
        self.runtime.reach.egress.close(own);
    }
}

impl Deref for Engine {
    type Target = Arc<Runtime>;

    fn deref(&self) -> &Arc<Runtime> {
        &self.runtime
    }
}
