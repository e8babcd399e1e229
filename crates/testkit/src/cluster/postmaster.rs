//! One postmaster and the directory it owns: made, started, killed.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use semel_postgres::{ClusterDirectory, Programs};

use super::{Options, Server, USER};
use crate::port::free_address;
use crate::tally;

/// How long a start may take, recovery after a crash included.
const START_PATIENCE: Duration = Duration::from_secs(120);

/// How long killed processes may take to vanish.
const DEATH_PATIENCE: Duration = Duration::from_secs(60);

/// How often a condition outside this process is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// How many ports are tried before giving up: another process may take one between our look and
/// PostgreSQL's bind.
const PORT_TRIES_MAX: usize = 5;

/// A postmaster, running or killed.
#[derive(Debug)]
pub(super) struct Postmaster {
    directory: ClusterDirectory,
    server: Server,
    child: Option<Child>,
}

impl Postmaster {
    /// Fills an empty directory with a new cluster and starts it.
    pub(super) fn create(home: &Path, options: &Options) -> Result<Self> {
        let directory = initialise(home)?;
        tally::add("server", 1);
        for _ in 1..PORT_TRIES_MAX {
            match Self::start_on_a_free_port(&directory, options) {
                Err(error) if error.to_string().contains("Address already in use") => {}
                other => return other,
            }
        }
        Self::start_on_a_free_port(&directory, options)
    }

    fn start_on_a_free_port(directory: &ClusterDirectory, options: &Options) -> Result<Self> {
        let port = free_address()?.port();
        let settings = settings(directory.path(), port, options)?;
        directory.write_settings(&settings)?;
        let server = Server {
            socket_directory: directory.path().to_owned(),
            port,
        };
        let child = launch(directory)?;
        Ok(Self {
            directory: directory.clone(),
            server,
            child: Some(child),
        })
    }

    /// Takes in a server that was launched again.
    pub(super) fn adopt(&mut self, child: Child) {
        self.child = Some(child);
    }

    pub(super) fn is_running(&self) -> bool {
        self.child.is_some()
    }

    /// Kills the postmaster and all of its children at one moment.
    pub(super) fn kill_tree(&mut self) -> Result<()> {
        let mut child = self.child.take().context("this cluster is not running")?;
        let postmaster = Pid::from_child(&child);
        // A stopped postmaster forks nothing, so the list below stays complete.
        kill_process(postmaster, Signal::STOP)?;
        let children = children_of(postmaster)?;
        kill_process(postmaster, Signal::KILL)?;
        for child in &children {
            signal_if_there(*child, Signal::KILL)?;
        }
        child.wait()?;
        children.into_iter().try_for_each(await_death)
    }

    /// Collects the exit status of a postmaster that another process has stopped.
    pub(super) fn reap(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Without this a failed watchdog would leave the test waiting for ever.
            child.kill().ok();
            child.wait().ok();
        }
    }

    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    pub(super) fn directory(&self) -> &ClusterDirectory {
        &self.directory
    }
}

/// Starts the server of a directory and waits until it accepts connections.
pub(super) fn launch(directory: &ClusterDirectory) -> Result<Child> {
    let log = File::options()
        .create(true)
        .append(true)
        .open(directory.log())?;
    let mut child = directory
        .command("postgres")
        .arg("-D")
        .arg(directory.data())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .context("cannot run postgres")?;
    await_ready(directory, &mut child)?;
    Ok(child)
}

/// Whether the postmaster of a directory is there and has declared itself ready.
pub(super) fn is_ready(directory: &ClusterDirectory) -> bool {
    let note = directory.postmaster_note();
    note.is_some_and(|note| note.is_ready && is_alive(note.pid))
}

fn initialise(home: &Path) -> Result<ClusterDirectory> {
    // The socket is here too, so every user of this machine may pass through.
    fs::set_permissions(home, fs::Permissions::from_mode(0o711))?;
    let programs = Programs::find()?;
    programs.give(home)?;
    let directory = ClusterDirectory::new(home.to_owned(), programs);
    directory.initialise(USER, &["--no-sync"])?;
    Ok(directory)
}

fn settings(home: &Path, port: u16, options: &Options) -> Result<String> {
    let wal_size_max = if options.in_memory { "512MB" } else { "4GB" };
    let fsync = if options.fsync { "on" } else { "off" };
    // Dynamic shared memory lies in the data directory, so a killed server leaves none behind.
    let mut text = format!(
        "listen_addresses = '127.0.0.1'\n\
         port = {port}\n\
         unix_socket_directories = '{home}'\n\
         unix_socket_permissions = 0777\n\
         max_connections = 300\n\
         shared_buffers = '256MB'\n\
         dynamic_shared_memory_type = mmap\n\
         fsync = {fsync}\n\
         full_page_writes = on\n\
         synchronous_commit = on\n\
         autovacuum = on\n\
         checkpoint_timeout = '15min'\n\
         checkpoint_completion_target = 0.9\n\
         max_wal_size = '{wal_size_max}'\n\
         timezone = 'UTC'\n\
         log_timezone = 'UTC'\n",
        home = home.display(),
    );
    for (name, value) in &options.settings {
        writeln!(text, "{name} = '{}'", value.replace('\'', "''"))?;
    }
    Ok(text)
}

fn await_ready(directory: &ClusterDirectory, child: &mut Child) -> Result<()> {
    let deadline = Instant::now() + START_PATIENCE;
    let own_pid = Pid::from_child(child);
    loop {
        if let Some(status) = child.try_wait()? {
            let lines = directory.last_log_lines();
            bail!("postgres ended with {status}: {lines}");
        }
        // After a crash the file of the dead postmaster is still there, and says ready.
        let note = directory.postmaster_note();
        if note.is_some_and(|note| note.pid == own_pid && note.is_ready && is_alive(own_pid)) {
            return Ok(());
        }
        if Instant::now() > deadline {
            child.kill().ok();
            let lines = directory.last_log_lines();
            bail!("postgres was not ready in time: {lines}");
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn children_of(parent: Pid) -> Result<Vec<Pid>> {
    let mut children = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        if status_field(pid, "PPid:").is_some_and(|text| text == parent.to_string()) {
            children.extend(Pid::from_raw(pid));
        }
    }
    Ok(children)
}

fn status_field(pid: i32, field: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    Some(line.trim().to_owned())
}

/// A zombie counts as dead: the process that has to collect it may never do so.
fn is_alive(pid: Pid) -> bool {
    status_field(pid.as_raw_pid(), "State:").is_some_and(|state| !state.starts_with('Z'))
}

fn signal_if_there(pid: Pid, signal: Signal) -> Result<()> {
    match kill_process(pid, signal) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn await_death(pid: Pid) -> Result<()> {
    let deadline = Instant::now() + DEATH_PATIENCE;
    while is_alive(pid) {
        if Instant::now() > deadline {
            bail!("process {pid} survives its killing");
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}
