//! What can keep a private PostgreSQL from working.

use std::io;
use std::path::PathBuf;

use crate::programs::FindError;

/// Why a private PostgreSQL cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// There is no PostgreSQL to start.
    #[error(transparent)]
    Find(#[from] FindError),

    /// Its directory could not be prepared.
    #[error("cannot use {} for PostgreSQL", .path.display())]
    Home {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// A file of it could not be read or written, or a program of it not started.
    #[error("cannot keep a PostgreSQL in {}", .path.display())]
    Io {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// The new data could not be made.
    #[error("initdb failed: {0}")]
    Initdb(String),

    /// The server ended, or did not accept connections in time.
    #[error("PostgreSQL did not start: {lines}")]
    NotStarted {
        /// The end of its log.
        lines: String,
        /// Where the whole log is.
        log: PathBuf,
    },

    /// The server did not end in time.
    #[error("PostgreSQL did not stop: {0}")]
    NotStopped(String),
}
