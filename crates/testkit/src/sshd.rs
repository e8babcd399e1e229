//! An SSH server of the test's own: the machine's OpenSSH, on a free port, with keys made for it.
//!
//! Commands really run, as the user who runs the tests. What they did is counted in files of the
//! server's own folder.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::port::free_address;
use crate::program::{Process, Program};

/// How long a server may take to listen.
const START_PATIENCE: Duration = Duration::from_secs(120);

/// Where OpenSSH separates its rights, where it runs as root.
const PRIVSEP: &str = "/run/sshd";

/// An OpenSSH server, ended with this value.
#[derive(Debug)]
pub struct Sshd {
    process: Process,
    address: SocketAddr,
    user: String,
    folder: TempDir,
}

impl Sshd {
    /// Starts a server that lets the current user in with one key.
    pub async fn start() -> Result<Self> {
        Self::start_with("").await
    }

    /// Starts a server with further lines of `sshd_config`.
    pub async fn start_with(settings: &str) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("semel-ssh-").tempdir()?;
        for key in ["host", "user"] {
            make_key(&folder.path().join(key))?;
        }
        fs::copy(
            folder.path().join("user.pub"),
            folder.path().join("authorized"),
        )?;
        if rustix::process::geteuid().is_root() {
            fs::create_dir_all(PRIVSEP)?;
        }
        let address = free_address()?;
        let config = folder.path().join("sshd_config");
        fs::write(&config, configuration(folder.path(), address, settings))?;
        let process = Program::at(find_sshd()?)
            .args(["-D", "-e", "-f"])
            .arg(&config)
            .start()?;
        process
            .until_line("Server listening", START_PATIENCE)
            .await?;
        let user = said(Command::new("id").arg("-un"))?;
        Ok(Self {
            process,
            address,
            user,
            folder,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Who may sign in.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The private key that lets the user in.
    pub fn private_key(&self) -> Result<String> {
        Ok(fs::read_to_string(self.folder.path().join("user"))?)
    }

    /// The host's key, as `SHA256:…`.
    pub fn host_key(&self) -> Result<String> {
        let public = self.folder.path().join("host.pub");
        let line = said(Command::new("ssh-keygen").arg("-lf").arg(public))?;
        let print = line.split(' ').nth(1).context("a fingerprint")?;
        Ok(print.to_owned())
    }

    /// A file for commands to write to.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// How many lines a file has: none if it is not there.
    pub fn lines(&self, name: &str) -> usize {
        let text = fs::read_to_string(self.file(name)).unwrap_or_default();
        text.lines().count()
    }

    /// Where commands keep their state.
    pub fn state(&self) -> PathBuf {
        self.file("state")
    }

    /// The process, for signals.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

fn make_key(path: &Path) -> Result<()> {
    said(
        Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(path),
    )?;
    Ok(())
}

/// The first line that a program says.
fn said(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_owned();
    let output = command
        .output()
        .with_context(|| format!("cannot run {}: install openssh-client", program.display()))?;
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{}: {words}", program.display());
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

fn find_sshd() -> Result<PathBuf> {
    let places = ["/usr/sbin/sshd", "/usr/bin/sshd", "/usr/local/sbin/sshd"];
    let found = places.iter().map(PathBuf::from).find(|path| path.is_file());
    found.context("no sshd: install openssh-server")
}

fn configuration(folder: &Path, address: SocketAddr, settings: &str) -> String {
    let folder = folder.display();
    format!(
        "{settings}
ListenAddress {address}
HostKey {folder}/host
AuthorizedKeysFile {folder}/authorized
SetEnv XDG_STATE_HOME={folder}/state
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
MaxStartups 200
LogLevel VERBOSE
"
    )
}
