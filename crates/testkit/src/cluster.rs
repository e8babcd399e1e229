//! PostgreSQL clusters that belong to the tests.
//!
//! A [`Cluster`] is private: it may be killed and restarted, and it goes with its owner.
//! [`Cluster::shared`] is one server for every test of this user that needs no more than a
//! database of its own. Both listen on a Unix socket and on a loopback port, so that a proxy can
//! stand between. Any local user may connect: a test cluster holds nothing worth keeping from them.

mod postmaster;
mod shared;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use semel_postgres::Programs;
use tokio::task::spawn_blocking;
use tokio_postgres::NoTls;

use self::postmaster::Postmaster;
use crate::watchdog::Watchdog;

/// A connection to a test's database.
pub type Connection = tokio_postgres::Client;

/// The superuser of every test cluster.
pub const USER: &str = "postgres";

/// A PostgreSQL of one's own, stopped and removed when it is dropped or its owner dies.
#[derive(Debug)]
pub struct Cluster {
    postmaster: Postmaster,
    // Ends the cluster when its pipe closes, which is why it is only ever held.
    watchdog: Option<Watchdog>,
}

impl Cluster {
    /// Makes a new cluster and waits until it accepts connections.
    pub async fn start(options: Options) -> Result<Self> {
        spawn_blocking(move || Self::start_blocking(&options)).await?
    }

    fn start_blocking(options: &Options) -> Result<Self> {
        let home = new_home(options)?;
        // The watchdog comes first: whatever follows is cleaned up even if we are killed in it.
        let watchdog = Watchdog::over_cluster(&home)?;
        let postmaster = Postmaster::create(&home, options)?;
        Ok(Self {
            postmaster,
            watchdog: Some(watchdog),
        })
    }

    /// The server that every test of this user shares, started by the first that asks.
    pub async fn shared() -> Result<Server> {
        spawn_blocking(shared::join).await?
    }

    /// Where this cluster listens.
    pub fn server(&self) -> &Server {
        self.postmaster.server()
    }

    /// Kills the postmaster and everything below it, as a loss of power would.
    pub fn kill(&mut self) -> Result<()> {
        self.postmaster.kill_tree()
    }

    /// Starts a killed cluster again, on the same port, and waits until it has recovered.
    pub async fn restart(&mut self) -> Result<()> {
        ensure!(
            !self.postmaster.is_running(),
            "this cluster is already running"
        );
        let directory = self.postmaster.directory().clone();
        // Recovery takes seconds under load, so it must not hold up the caller's runtime.
        let child = spawn_blocking(move || postmaster::launch(&directory)).await??;
        self.postmaster.adopt(child);
        Ok(())
    }

    /// The directory that holds the data, the log and the socket.
    pub fn home(&self) -> &Path {
        self.postmaster.directory().path()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // One way to end a cluster serves both an owner that lets go and one that was killed.
        if let Some(watchdog) = self.watchdog.take() {
            watchdog.finish();
        }
        self.postmaster.reap();
    }
}

/// How a cluster keeps its data.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether a commit waits for the disk.
    pub fsync: bool,
    /// Whether the data may live in memory, where the machine has enough of it.
    pub in_memory: bool,
    /// Further lines of `postgresql.conf`, which win over the kit's own.
    pub settings: Vec<(String, String)>,
}

impl Options {
    /// On disk, with every commit on it: for chaos tests and measurements.
    pub fn durable() -> Self {
        Self {
            fsync: true,
            in_memory: false,
            settings: Vec::new(),
        }
    }

    /// In memory where possible: the settings of a real server without the wait for a disk.
    pub fn quick() -> Self {
        Self {
            fsync: true,
            in_memory: true,
            settings: Vec::new(),
        }
    }

    /// Adds a line to `postgresql.conf`.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// Where a PostgreSQL server listens.
#[derive(Clone, Debug)]
pub struct Server {
    socket_directory: PathBuf,
    port: u16,
}

impl Server {
    /// The URL of a database over TCP.
    pub fn url(&self, database: &str) -> String {
        Self::url_at(self.address(), database)
    }

    /// The URL of a database behind another address, such as a proxy's.
    pub fn url_at(address: SocketAddr, database: &str) -> String {
        format!("postgresql://{USER}@{address}/{database}")
    }

    /// The URL of a database over the Unix socket.
    pub fn socket_url(&self, database: &str) -> String {
        let directory = self.socket_directory.to_string_lossy().replace('/', "%2F");
        format!("postgresql://{USER}@{directory}:{}/{database}", self.port)
    }

    /// The folder of the Unix socket.
    pub fn socket_folder(&self) -> &Path {
        &self.socket_directory
    }

    /// The loopback address.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// Opens a connection to a database, driven by a task of the current runtime.
    pub async fn connect(&self, database: &str) -> Result<Connection> {
        let (client, connection) = tokio_postgres::connect(&self.socket_url(database), NoTls)
            .await
            .with_context(|| format!("cannot connect to database {database}"))?;
        // A lost connection shows in the client's next call.
        tokio::spawn(connection);
        Ok(client)
    }
}

/// Makes the directory of a new cluster. Socket paths are short by law, so it stays near the root.
fn new_home(options: &Options) -> Result<PathBuf> {
    let root = if options.in_memory {
        memory_root()
    } else {
        std::env::temp_dir()
    };
    let home = tempfile::Builder::new()
        .prefix("semel-pg-")
        .tempdir_in(&root)
        .with_context(|| format!("cannot make a directory in {}", root.display()))?;
    Ok(home.keep())
}

/// The least free memory that a cluster in memory is given.
const MEMORY_BYTES_MIN: u64 = 4 << 30;

/// A directory in memory, or the ordinary one where memory is scarce.
fn memory_root() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    match rustix::fs::statvfs(&memory) {
        Ok(space) if space.f_bavail * space.f_frsize >= MEMORY_BYTES_MIN => memory,
        _ => std::env::temp_dir(),
    }
}

/// A program that comes with PostgreSQL, such as `pg_dump`.
pub fn binary(name: &str) -> Result<PathBuf> {
    Ok(Programs::find()?.directory().join(name))
}
