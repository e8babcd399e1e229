//! A mail server of the test's own: aiosmtpd in its own process, keeping what it takes in a Maildir.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::port::free_address;
use crate::program::{Process, Program};

/// How long a server may take to listen.
const START_PATIENCE: Duration = Duration::from_secs(120);

/// The interpreter that Debian's packages are for.
const PYTHON: &str = "/usr/bin/python3";

/// What recipients are called that the server does not simply take mail for. The local part says
/// what happens to it, whatever the domain.
pub mod recipient {
    /// Turned away for good.
    pub const REFUSED: &str = "refused@books.example";
    /// Turned away for now.
    pub const BUSY: &str = "busy@books.example";
    /// Turned away for good once the data was read.
    pub const SPAM: &str = "spam@books.example";
    /// Turned away for now once the data was read.
    pub const FULL: &str = "full@books.example";
    /// Taken, and answered seconds later.
    pub const SLOW: &str = "slow@books.example";
}

/// A mail server, ended with this value.
#[derive(Debug)]
pub struct Smtp {
    process: Process,
    address: SocketAddr,
    folder: TempDir,
}

impl Smtp {
    /// Starts a server that accepts mail from every sender.
    pub async fn start() -> Result<Self> {
        Self::launch(&[]).await
    }

    /// Starts a server that takes mail from one user.
    pub async fn start_with_user(user: &str, password: &str) -> Result<Self> {
        Self::launch(&[user, password]).await
    }

    async fn launch(account: &[&str]) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("semel-smtp-").tempdir()?;
        let script = folder.path().join("server.py");
        fs::write(&script, include_str!("smtp/server.py"))?;
        let address = free_address()?;
        let process = Program::at(PYTHON)
            .arg(&script)
            .arg(address.port().to_string())
            .arg(folder.path().join("mail"))
            .args(account)
            .with_open_input()
            .start()?;
        process
            .until_line("taking mail", START_PATIENCE)
            .await
            .context("no mail server: install python3-aiosmtpd")?;
        Ok(Self {
            process,
            address,
            folder,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Everything that it took, whole.
    pub fn mails(&self) -> Result<Vec<String>> {
        let arrived = self.folder.path().join("mail/new");
        let mut mails = Vec::new();
        for entry in fs::read_dir(arrived)? {
            mails.push(read(&entry?.path())?);
        }
        Ok(mails)
    }

    /// How many mails it took under a `Message-ID`.
    pub fn count(&self, message_id: &str) -> Result<usize> {
        let line = format!("message-id: {message_id}").to_lowercase();
        let holds = |mail: &&String| mail.to_lowercase().lines().any(|found| found == line);
        Ok(self.mails()?.iter().filter(holds).count())
    }

    /// The process, for signals.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

fn read(path: &Path) -> Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
}
