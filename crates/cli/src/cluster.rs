//! A private PostgreSQL for `semel dev`: made from the machine's own binaries, kept in `.semel/`.
//!
//! It listens on a Unix socket inside a folder that only its user can enter, so no password is
//! needed and no port is taken. It is driven by `pg_ctl`, which knows a stale pid file from a live
//! one: a server that outlived a killed `semel dev` is simply taken over.

mod account;
mod binaries;
mod home;
mod stale;

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, test_kill_process};

use crate::answer::Problem;
use account::Account;
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

/// A private PostgreSQL.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    home: Home,
    binaries: PathBuf,
    account: Option<Account>,
}

impl Cluster {
    /// Finds the cluster of a folder, or makes it.
    pub(crate) fn open(folder: &Path) -> Result<Self, Problem> {
        let binaries = binaries::directory()?;
        let account = account::unprivileged()?;
        let home = Home::find(folder, &binaries, account)?;
        let cluster = Self {
            home,
            binaries,
            account,
        };
        if !cluster.data().join("PG_VERSION").exists() {
            cluster.initialise()?;
        }
        Ok(cluster)
    }

    /// What a person should know about where it lies.
    pub(crate) fn note(&self) -> Option<String> {
        self.home.note()
    }

    /// Starts the server and waits until it takes connections.
    pub(crate) fn start(&self) -> Result<(), Problem> {
        stale::clear(self.home.path(), &self.data()).map_err(|error| self.refused(&error))?;
        if self.control(&["status"])?.status.success() {
            return Ok(());
        }
        self.write_settings()?;
        let log = self.home.path().join("log");
        let patience = START_PATIENCE_SECS.to_string();
        let log_text = log.to_string_lossy();
        let started = self.control(&["start", "-w", "-t", &patience, "-l", &log_text])?;
        if started.status.success() {
            return Ok(());
        }
        let message = format!("PostgreSQL did not start: {}", last_lines(&log));
        Err(Problem::local(message).hint(format!("its log is {}", log.display())))
    }

    /// Whether the server's process is there. Looks at the system and starts no program, so that it
    /// can be asked often.
    pub(crate) fn is_running(&self) -> bool {
        let Ok(text) = fs::read_to_string(self.data().join("postmaster.pid")) else {
            return false;
        };
        let pid = text
            .lines()
            .next()
            .and_then(|line| line.trim().parse().ok());
        let Some(pid) = pid.and_then(Pid::from_raw) else {
            return false;
        };
        match test_kill_process(pid) {
            Ok(()) => true,
            // It is there and another user's.
            Err(error) => error == rustix::io::Errno::PERM,
        }
    }

    /// Stops the server; what was acknowledged is on disk already.
    pub(crate) fn stop(&self) -> Result<(), Problem> {
        let patience = STOP_PATIENCE_SECS.to_string();
        let stopped = self.control(&["stop", "-m", "fast", "-w", "-t", &patience])?;
        if stopped.status.success() || !self.control(&["status"])?.status.success() {
            return Ok(());
        }
        Err(Problem::local(format!(
            "PostgreSQL did not stop: {}",
            words(&stopped)
        )))
    }

    /// The address of its database.
    pub(crate) fn address(&self) -> String {
        let socket = self.home.path().to_string_lossy();
        let socket = socket.replace('\\', r"\\").replace('\'', r"\'");
        format!("host='{socket}' port={PORT} user={USER} dbname=postgres")
    }

    fn data(&self) -> PathBuf {
        self.home.path().join("data")
    }

    /// Makes the data beside its place and moves it there when it is whole, so that a start that
    /// was killed halfway leaves nothing that looks like a cluster.
    fn initialise(&self) -> Result<(), Problem> {
        let unfinished = self.home.path().join("data.new");
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished).map_err(|error| self.refused(&error))?;
        }
        let made = self
            .command("initdb")
            .arg("--pgdata")
            .arg(&unfinished)
            .args(["--username", USER, "--auth", "trust", "--encoding", "UTF8"])
            .args(["--locale", "C", "--no-instructions"])
            .output()
            .map_err(|error| self.refused(&error))?;
        if !made.status.success() {
            return Err(Problem::local(format!("initdb failed: {}", words(&made))));
        }
        fs::rename(&unfinished, self.data()).map_err(|error| self.refused(&error))
    }

    /// Written again at each start, because the folder may have been moved.
    fn write_settings(&self) -> Result<(), Problem> {
        let socket = self.home.path().to_string_lossy().replace('\'', "''");
        let text = format!("{SETTINGS}unix_socket_directories = '\"{socket}\"'\n");
        let path = self.data().join("postgresql.auto.conf");
        let written = fs::write(&path, text).and_then(|()| account::give(&path, self.account));
        written.map_err(|error| self.refused(&error))
    }

    fn control(&self, arguments: &[&str]) -> Result<Output, Problem> {
        self.command("pg_ctl")
            .arg("-D")
            .arg(self.data())
            .args(arguments)
            .output()
            .map_err(|error| self.refused(&error))
    }

    fn command(&self, program: &str) -> Command {
        let mut command = unprivileged(&self.binaries, program, self.account);
        command.current_dir(self.home.path());
        command
    }

    fn refused(&self, error: &std::io::Error) -> Problem {
        let place = self.home.path().display();
        Problem::local(format!(
            "cannot store PostgreSQL's data in {place}: {error}"
        ))
    }
}

/// A program of PostgreSQL, run as a user other than root. Signals to our group (Ctrl-C) are not
/// meant for it: we stop it ourselves, after everything that uses it.
fn unprivileged(binaries: &Path, program: &str, account: Option<Account>) -> Command {
    let mut command = Command::new(binaries.join(program));
    command
        .env("LC_ALL", "C")
        .env_remove("PGDATA")
        .stdin(Stdio::null())
        .process_group(0);
    if let Some(account) = account {
        command.uid(account.uid).gid(account.gid);
    }
    command
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}

fn last_lines(log: &Path) -> String {
    const LINES: usize = 8;
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
