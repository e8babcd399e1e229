//! The service: an engine and a server on one database, started and stopped together.

use std::net::SocketAddr;
use std::time::Duration;

use semel_engine::{Engine, Options};
use semel_model::DatabaseIdentity;
use semel_server::{ServeError, ServerOptions};
use semel_store::{Cell, CellOptions, ConnectError, health};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::answer::{Problem, chain};
use crate::code;
use crate::outcome::Outcome;

/// How much of the time for stopping is the server's; the rest is the engine's.
const DRAIN_SHARE: f64 = 0.5;

/// An engine and a server.
pub(crate) struct Service {
    engine: Engine,
    server: JoinHandle<Result<(), ServeError>>,
    shutdown: CancellationToken,
}

impl Service {
    /// Starts both.
    pub(crate) async fn start(
        cell: Cell,
        options: Options,
        limits: ServerOptions,
        listener: TcpListener,
        admin: Option<TcpListener>,
    ) -> Result<Self, Problem> {
        let listening: Vec<SocketAddr> = [Some(&listener), admin.as_ref()]
            .into_iter()
            .flatten()
            .filter_map(|listener| listener.local_addr().ok())
            .collect();
        let options = Options {
            own: own_addresses(&cell, &listening).await,
            own_database: own_database(&cell).await,
            ..options
        };
        let engine = Engine::start(cell, options)
            .await
            .map_err(|error| Problem::local(chain(&error)))?;
        let shutdown = CancellationToken::new();
        tokio::spawn(keep_own_addresses(
            engine.clone(),
            listening,
            shutdown.clone(),
        ));
        let server = tokio::spawn(semel_server::serve_with_admin(
            listener,
            admin,
            engine.clone(),
            limits,
            shutdown.clone(),
        ));
        Ok(Self {
            engine,
            server,
            shutdown,
        })
    }

    /// What moves runs forward.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Waits until the server ends without having been asked to.
    pub(crate) async fn ended(&mut self) -> Problem {
        match (&mut self.server).await {
            Ok(Ok(())) => Problem::local("the server ended by itself"),
            Ok(Err(error)) => Problem::local(format!("the server ended: {}", chain(&error))),
            Err(error) => Problem::local(format!("the server crashed: {error}")),
        }
    }

    /// Finishes open requests, returns runs to the queue, and ends; all within a bound. What is cut
    /// off then is what a crash would cut off, and is recovered as after one.
    pub(crate) async fn stop(self, bound: Duration) -> Result<(), Problem> {
        self.shutdown.cancel();
        let drain = bound.mul_f64(DRAIN_SHARE);
        let drained = tokio::time::timeout(drain, self.server).await.is_ok();
        // A little less than what is left, so that the session is closed within it.
        let rest = bound - drain;
        let draining = self.engine.shutdown_within(rest.mul_f64(0.8));
        let returned = tokio::time::timeout(rest, draining).await.is_ok();
        if drained && returned {
            return Ok(());
        }
        let message = format!(
            "the server did not stop cleanly within {}s",
            bound.as_secs()
        );
        Err(Problem::local(message).hint("runs that were cut off continue at the next start"))
    }
}

/// Where this installation itself listens: its database and its server.
async fn own_addresses(cell: &Cell, listening: &[SocketAddr]) -> Vec<SocketAddr> {
    let mut own = listening.to_vec();
    for (host, port) in cell.hosts() {
        if let Ok(found) = tokio::net::lookup_host((host, port)).await {
            own.extend(found);
        }
    }
    own
}

/// The installation's own database, where it says who it is.
async fn own_database(cell: &Cell) -> Option<DatabaseIdentity> {
    match health::read_identity(cell).await {
        Ok(own) => Some(own),
        Err(error) => {
            let error = chain(&error);
            tracing::warn!(%error, "failed to read the identity of the database: flows may not use sockets");
            None
        }
    }
}

/// How often the addresses of the database are looked up: after a failover its name leads elsewhere.
const LOOK_UP_EVERY: Duration = Duration::from_secs(10);

/// Keeps the installation's own addresses closed to flows, wherever they move. What was closed
/// stays so: a former primary must not become a destination.
async fn keep_own_addresses(
    engine: Engine,
    listening: Vec<SocketAddr>,
    shutdown: CancellationToken,
) {
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(LOOK_UP_EVERY) => {}
        }
        engine.close_addresses(own_addresses(engine.cell(), &listening).await);
        // An upgrade or a failover may have brought another server. One that does not answer now is
        // asked again.
        if let Ok(own) = health::read_identity(engine.cell()).await {
            engine.close_database(own);
        }
    }
}

/// Connects to a database, and explains failures in terms of the command line.
pub(crate) async fn connect(address: &str, options: CellOptions) -> Result<Cell, Problem> {
    Cell::connect(address, options).await.map_err(|error| {
        let message = chain(&error);
        match error {
            ConnectError::Address(_) => Problem::usage(message)
                .hint("e.g. postgresql://user:password@host/database?sslmode=require"),
            ConnectError::InTheClear { .. } => Problem::usage(message),
            ConnectError::Tls(_) => Problem::local(message),
            ConnectError::Unreachable(_) => Problem::new(
                Outcome::Unreachable,
                semel_api::Code::DatabaseUnavailable.as_str(),
                message,
            )
            .hint("check the address and that PostgreSQL runs there"),
            ConnectError::Unsafe { .. } => Problem::local(message)
                .hint("--accept-unsafe uses it all the same, where losing data is no harm"),
        }
    })
}

/// Listens, and tells what is in the way.
pub(crate) async fn listen(address: &str) -> Result<(TcpListener, SocketAddr), Problem> {
    let failed = |error: std::io::Error| {
        let message = format!("cannot listen on {address}: {error}");
        if error.kind() == std::io::ErrorKind::AddrInUse {
            return Problem::new(Outcome::Conflict, code::ADDRESS_IN_USE, message)
                .hint("another program listens there; choose another address");
        }
        Problem::local(message).hint("an address is HOST:PORT, e.g. 127.0.0.1:7171")
    };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let local = listener.local_addr().map_err(failed)?;
    Ok((listener, local))
}

/// The signals that ask us to stop.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    /// Takes the signals over from the system, which would end us at once.
    pub(crate) fn catch() -> Result<Self, Problem> {
        let caught = |kind| {
            signal(kind).map_err(|error| Problem::local(format!("cannot catch signals: {error}")))
        };
        Ok(Self {
            interrupt: caught(SignalKind::interrupt())?,
            terminate: caught(SignalKind::terminate())?,
            hangup: caught(SignalKind::hangup())?,
        })
    }

    /// Waits for one of them.
    pub(crate) async fn come(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
