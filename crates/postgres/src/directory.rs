//! The directory of one cluster: `data`, `log` and the socket.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::process::Pid;

use crate::programs::Programs;

/// How many lines of the log an error message quotes.
const LOG_LINES: usize = 10;

/// The line of `postmaster.pid` that tells the server's status.
const STATUS_LINE: usize = 7;

/// The directory of one cluster, and the programs that work in it.
#[derive(Clone, Debug)]
pub struct ClusterDirectory {
    path: PathBuf,
    programs: Programs,
}

/// What a server writes about itself into `postmaster.pid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostmasterNote {
    /// Its process.
    pub pid: Pid,
    /// Whether it accepts connections.
    pub is_ready: bool,
}

/// Why the data of a cluster could not be made.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// `initdb` ran and failed.
    #[error("initdb failed: {0}")]
    Initdb(String),

    /// The directory cannot be written to, or `initdb` not started.
    #[error("cannot make the data of a cluster")]
    Io(#[source] io::Error),
}

impl ClusterDirectory {
    /// A directory that belongs to the user whom the programs run as.
    pub fn new(path: PathBuf, programs: Programs) -> Self {
        Self { path, programs }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The data.
    pub fn data(&self) -> PathBuf {
        self.path.join("data")
    }

    /// The server's log.
    pub fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    /// One of PostgreSQL's programs, started in this directory.
    pub fn command(&self, program: &str) -> Command {
        let mut command = self.programs.command(program);
        command.current_dir(&self.path);
        command
    }

    /// Whether the data was made.
    pub fn is_initialised(&self) -> bool {
        self.data().join("PG_VERSION").exists()
    }

    /// Makes the data under another name and renames it when it is complete, so that a process
    /// that is killed here leaves nothing that looks like a cluster.
    pub fn initialise(&self, user: &str, flags: &[&str]) -> Result<(), InitError> {
        let unfinished = self.path.join("data.new");
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished).map_err(InitError::Io)?;
        }
        let made = self
            .command("initdb")
            .arg("--pgdata")
            .arg(&unfinished)
            .args(["--username", user, "--auth", "trust", "--encoding", "UTF8"])
            .args(["--locale", "C", "--no-instructions"])
            .args(flags)
            .output()
            .map_err(InitError::Io)?;
        if !made.status.success() {
            return Err(InitError::Initdb(error_text(&made)));
        }
        fs::rename(&unfinished, self.data()).map_err(InitError::Io)
    }

    /// Writes the settings that win over those in `postgresql.conf`.
    pub fn write_settings(&self, text: &str) -> io::Result<()> {
        let path = self.data().join("postgresql.auto.conf");
        fs::write(&path, text)?;
        self.programs.give(&path)
    }

    /// What the server's pid file says; a server that was killed leaves it behind.
    pub fn postmaster_note(&self) -> Option<PostmasterNote> {
        let text = fs::read_to_string(self.data().join("postmaster.pid")).ok()?;
        let mut lines = text.lines().map(str::trim);
        let pid = lines.next()?.parse().ok().and_then(Pid::from_raw)?;
        let is_ready = lines.nth(STATUS_LINE - 1) == Some("ready");
        Some(PostmasterNote { pid, is_ready })
    }

    /// The last lines of the log.
    pub fn last_log_lines(&self) -> String {
        let text = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }
}

/// What a program wrote to standard error.
pub(crate) fn error_text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pid_file_tells_the_process_and_whether_it_is_ready() {
        let home = tempfile::tempdir().unwrap();
        let programs = Programs::at(home.path());
        let directory = ClusterDirectory::new(home.path().to_owned(), programs);
        fs::create_dir(directory.data()).unwrap();
        let write = |status: &str| {
            let text = format!("42\n/data\n1700000000\n5432\n/socket\nlocalhost\n1 2\n{status}\n");
            fs::write(directory.data().join("postmaster.pid"), text).unwrap();
        };
        let pid = Pid::from_raw(42).unwrap();

        assert_eq!(directory.postmaster_note(), None);
        for (status, is_ready) in [("starting", false), ("ready   ", true)] {
            write(status);
            assert_eq!(
                directory.postmaster_note(),
                Some(PostmasterNote { pid, is_ready })
            );
        }
    }
}
