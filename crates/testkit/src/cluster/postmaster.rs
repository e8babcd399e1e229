//! One postmaster and the directory it owns: made, started, killed.

use std::fs::{self, File};
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use super::{Options, Server, USER, binaries};

/// How long a start may take, recovery after a crash included.
const START_PATIENCE: Duration = Duration::from_secs(120);

/// How long killed processes may take to vanish.
const DEATH_PATIENCE: Duration = Duration::from_secs(20);

/// How often a condition outside this process is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// How many ports are tried before giving up: another process may take one between our look and
/// PostgreSQL's bind.
const PORT_TRIES_MAX: usize = 5;

/// A postmaster, running or killed.
#[derive(Debug)]
pub(super) struct Postmaster {
    home: PathBuf,
    server: Server,
    child: Option<Child>,
}

impl Postmaster {
    /// Fills an empty directory with a new cluster and starts it.
    pub(super) fn create(home: &Path, options: &Options) -> Result<Self> {
        initialise(home)?;
        for _ in 1..PORT_TRIES_MAX {
            match Self::start_on_a_free_port(home, options) {
                Err(error) if error.to_string().contains("Address already in use") => {}
                other => return other,
            }
        }
        Self::start_on_a_free_port(home, options)
    }

    fn start_on_a_free_port(home: &Path, options: &Options) -> Result<Self> {
        let port = free_port()?;
        write_settings(home, port, options)?;
        let server = Server {
            socket_directory: home.to_owned(),
            port,
        };
        let child = launch(home)?;
        Ok(Self {
            home: home.to_owned(),
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

    pub(super) fn home(&self) -> &Path {
        &self.home
    }
}

/// Starts the server of a directory and waits until it accepts connections.
pub(super) fn launch(home: &Path) -> Result<Child> {
    let log = File::options()
        .create(true)
        .append(true)
        .open(home.join("log"))?;
    let mut child = unprivileged("postgres")?
        .arg("-D")
        .arg(home.join("data"))
        .current_dir(home)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        // Signals to the group of the test that started us are not meant for the cluster.
        .process_group(0)
        .spawn()
        .context("cannot run postgres")?;
    await_ready(home, &mut child)?;
    Ok(child)
}

/// Kills one backend.
pub(super) fn kill_one(pid: i32) -> Result<()> {
    let pid = Pid::from_raw(pid).context("a process id is positive")?;
    Ok(kill_process(pid, Signal::KILL)?)
}

/// Whether the postmaster of a directory is there and has declared itself ready.
pub(super) fn is_ready(home: &Path) -> bool {
    let Ok(text) = fs::read_to_string(home.join("data/postmaster.pid")) else {
        return false;
    };
    let lines: Vec<&str> = text.lines().collect();
    let ready = lines.get(7).is_some_and(|status| status.trim() == "ready");
    let pid = lines
        .first()
        .and_then(|pid| pid.trim().parse().ok())
        .and_then(Pid::from_raw);
    ready && pid.is_some_and(is_alive)
}

fn initialise(home: &Path) -> Result<()> {
    // The socket lives here too, so every user of this machine may pass through.
    fs::set_permissions(home, fs::Permissions::from_mode(0o711))?;
    if let Some(account) = binaries::account()? {
        chown(home, Some(account.uid), Some(account.gid))?;
    }
    let output = unprivileged("initdb")?
        .arg("--pgdata")
        .arg(home.join("data"))
        .args([
            "--username",
            USER,
            "--auth",
            "trust",
            "--encoding",
            "UTF8",
            "--locale",
            "C",
        ])
        .args(["--no-sync", "--no-instructions"])
        .current_dir(home)
        .process_group(0)
        .output()
        .context("cannot run initdb")?;
    if !output.status.success() {
        bail!("initdb failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

fn unprivileged(program: &str) -> Result<Command> {
    let mut command = Command::new(binaries::directory()?.join(program));
    command.env("LC_ALL", "C");
    if let Some(account) = binaries::account()? {
        command.uid(account.uid).gid(account.gid);
    }
    Ok(command)
}

fn write_settings(home: &Path, port: u16, options: &Options) -> Result<()> {
    let path = home.join("data/postgresql.auto.conf");
    let mut file = File::create(&path)?;
    let wal_size_max = if options.in_memory { "512MB" } else { "4GB" };
    let fsync = if options.fsync { "on" } else { "off" };
    // Dynamic shared memory lies in the data directory, so a killed server leaves none behind.
    write!(
        file,
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
    )?;
    for (name, value) in &options.settings {
        writeln!(file, "{name} = '{}'", value.replace('\'', "''"))?;
    }
    if let Some(account) = binaries::account()? {
        chown(&path, Some(account.uid), Some(account.gid))?;
    }
    Ok(())
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

fn await_ready(home: &Path, child: &mut Child) -> Result<()> {
    let deadline = Instant::now() + START_PATIENCE;
    let own_pid = child.id().to_string();
    loop {
        if let Some(status) = child.try_wait()? {
            bail!("postgres ended with {status}: {}", last_words(home));
        }
        // After a crash the file of the dead postmaster is still there, and says ready.
        let pid = fs::read_to_string(home.join("data/postmaster.pid")).unwrap_or_default();
        if pid.lines().next() == Some(&own_pid) && is_ready(home) {
            return Ok(());
        }
        if Instant::now() > deadline {
            child.kill().ok();
            bail!("postgres was not ready in time: {}", last_words(home));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn last_words(home: &Path) -> String {
    let log = fs::read_to_string(home.join("log")).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
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
