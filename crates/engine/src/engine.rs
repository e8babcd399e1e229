//! The engine: how a process starts and stops. Imports everything, and is imported by nothing here.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::{Arc, Mutex};

use semel_model::DatabaseIdentity;
use semel_store::Cell;
use tokio::task::AbortHandle;

use crate::options::Options;
use crate::rehearsal::Rehearsal;
use crate::runtime::{Runtime, StartError};
use crate::{services, spill};

mod idle;
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
        let runtime = Arc::new(Runtime::start(cell, options, None).await?);
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

    /// Begins a session for a rehearsal, and starts the services that move runs. Nothing is sent: the
    /// stage answers.
    pub async fn rehearse(
        cell: Cell,
        options: Options,
        rehearsal: Rehearsal,
    ) -> Result<Self, StartError> {
        let pause_max = rehearsal.pause_max;
        let runtime = Arc::new(Runtime::start(cell, options, Some(rehearsal)).await?);
        let services = services::start_for_rehearsal(&runtime, pause_max);
        Ok(Self {
            runtime,
            services: Arc::new(Mutex::new(services)),
        })
    }

    /// Ends every service at once, as a process ends that is paused for too long: runs in hand go
    /// on, and the session is not renewed.
    pub fn suspend(&self) {
        if let Ok(mut services) = self.services.lock() {
            services.drain(..).for_each(|service| service.abort());
        }
    }

    /// Closes further addresses of the installation itself to flows.
    pub fn close_addresses(&self, own: impl IntoIterator<Item = SocketAddr>) {
        self.runtime.reach.egress.close(own);
    }

    /// Closes the installation's own database to flows, by whatever way a connection leads there.
    pub fn close_database(&self, own: DatabaseIdentity) {
        self.runtime.reach.egress.close_database(own);
    }
}

impl Deref for Engine {
    type Target = Arc<Runtime>;

    fn deref(&self) -> &Arc<Runtime> {
        &self.runtime
    }
}
