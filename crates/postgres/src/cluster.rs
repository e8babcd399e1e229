//! A private PostgreSQL in a folder, as `semel dev` keeps one in `.semel/`.
//!
//! It listens on a Unix socket inside a folder that only its user can enter, so no password is
//! needed and no port is taken. It is controlled by `pg_ctl`, which tells a stale pid file from a
//! live one: a server that outlived a killed `semel dev` is simply taken over.

mod error;
mod home;
mod stale;

use std::io;
use std::path::Path;
use std::process::Output;

use rustix::process::test_kill_process;

use crate::directory::{ClusterDirectory, InitError, error_text};
use crate::programs::Programs;
pub use error::ClusterError;
use home::Home;

/// The database's owner.
const USER: &str = "semel";

/// The number in the socket's name; nothing listens on a port.
const PORT: u16 = 5432;

/// How long a start may take, recovery after a crash included, in seconds.
const START_PATIENCE_SECS: u32 = 120;

/// How long a stop may take, in seconds.
const STOP_PATIENCE_SECS: u32 = 20;

/// Settings on top of PostgreSQL's own. What was acknowledged is kept, as in production.
const SETTINGS: &str = "\
listen_addresses = ''
port = 5432
max_connections = 60
fsync = on
full_page_writes = on
synchronous_commit = on
dynamic_shared_memory_type = mmap
timezone = 'UTC'
log_timezone = 'UTC'
";

/// A PostgreSQL that belongs to one folder.
#[derive(Clone, Debug)]
pub struct PrivateCluster {
    directory: ClusterDirectory,
    note: Option<String>,
}

impl PrivateCluster {
    /// Finds the cluster of a folder, or makes it.
    pub fn open(folder: &Path) -> Result<Self, ClusterError> {
        let programs = Programs::find()?;
        let home = Home::find(folder, &programs)?;
        let cluster = Self {
            note: home.note(),
            directory: ClusterDirectory::new(home.path, programs),
        };
        if !cluster.directory.is_initialised() {
            cluster.initialise()?;
        }
        Ok(cluster)
    }

    /// What a person should know about where it is.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Starts the server and waits until it accepts connections.
    pub fn start(&self) -> Result<(), ClusterError> {
        stale::clear(&self.directory, PORT).map_err(|error| self.io(error))?;
        if self.control(&["status"])?.status.success() {
            return Ok(());
        }
        self.write_settings()?;
        let log = self.directory.log();
        let patience = START_PATIENCE_SECS.to_string();
        let log_text = log.to_string_lossy();
        let started = self.control(&["start", "-w", "-t", &patience, "-l", &log_text])?;
        if started.status.success() {
            return Ok(());
        }
        Err(ClusterError::NotStarted {
            lines: self.directory.last_log_lines(),
            log,
        })
    }

    /// Whether the server's process is there. Looks at the system and starts no program, so that it
    /// can be asked often.
    pub fn is_running(&self) -> bool {
        let Some(note) = self.directory.postmaster_note() else {
            return false;
        };
        match test_kill_process(note.pid) {
            Ok(()) => true,
            // It is there and another user's.
            Err(error) => error == rustix::io::Errno::PERM,
        }
    }

    /// Stops the server; what was acknowledged is on disk already.
    pub fn stop(&self) -> Result<(), ClusterError> {
        let patience = STOP_PATIENCE_SECS.to_string();
        let stopped = self.control(&["stop", "-m", "fast", "-w", "-t", &patience])?;
        if stopped.status.success() || !self.control(&["status"])?.status.success() {
            return Ok(());
        }
        Err(ClusterError::NotStopped(error_text(&stopped)))
    }

    /// The address of its database.
    pub fn address(&self) -> String {
        let socket = self.directory.path().to_string_lossy();
        let socket = socket.replace('\\', r"\\").replace('\'', r"\'");
        format!("host='{socket}' port={PORT} user={USER} dbname=postgres")
    }

    fn initialise(&self) -> Result<(), ClusterError> {
        self.directory
            .initialise(USER, &[])
            .map_err(|error| match error {
                InitError::Initdb(text) => ClusterError::Initdb(text),
                InitError::Io(error) => self.io(error),
            })
    }

    /// Written anew at each start, because the folder may have been moved.
    fn write_settings(&self) -> Result<(), ClusterError> {
        let socket = self.directory.path().to_string_lossy().replace('\'', "''");
        let text = format!("{SETTINGS}unix_socket_directories = '\"{socket}\"'\n");
        let written = self.directory.write_settings(&text);
        written.map_err(|error| self.io(error))
    }

    fn control(&self, arguments: &[&str]) -> Result<Output, ClusterError> {
        self.directory
            .command("pg_ctl")
            .arg("-D")
            .arg(self.directory.data())
            .args(arguments)
            .output()
            .map_err(|error| self.io(error))
    }

    fn io(&self, source: io::Error) -> ClusterError {
        ClusterError::Io {
            path: self.directory.path().to_owned(),
            source,
        }
    }
}
