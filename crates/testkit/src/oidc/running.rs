//! What every provider of the tests has: a process, a name for itself, and an address where a test sets
//! people and clients while it runs.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hyper::Method;
use serde_json::Value;

use crate::client::Client;
use crate::program::{Process, Program};

/// What a provider knows Semel by.
pub const CLIENT_ID: &str = "semel";

/// What Semel proves that with. It has characters that a form and a head spell differently.
pub const CLIENT_SECRET: &str = "hush-client:secret/with spaces+and%signs-0123456789";

/// How long a provider may take to listen: it makes keys first.
const START_PATIENCE: Duration = Duration::from_secs(120);

/// What it says once it listens.
const LISTENING: &str = "issuer ";

/// A provider that listens. It ends with this value.
#[derive(Debug)]
pub(super) struct RunningProvider {
    pub(super) issuer: String,
    client: Client,
    process: Process,
    _folder: tempfile::TempDir,
}

impl RunningProvider {
    /// Starts a program that keeps its files in a folder, and waits until it says who it is.
    pub(super) async fn start(program: Program, folder: tempfile::TempDir) -> Result<Self> {
        let process = program.start()?;
        let line = process.until_line(LISTENING, START_PATIENCE).await?;
        let (_, issuer) = line.split_once(LISTENING).context("an issuer")?;
        let issuer = issuer.trim().to_owned();
        let authority = issuer.strip_prefix("http://").context("an address")?;
        Ok(Self {
            client: Client::new(authority.trim_end_matches('/'), 4),
            issuer,
            process,
            _folder: folder,
        })
    }

    /// What it wrote.
    pub(super) fn output(&self) -> String {
        format!("{}{}", self.process.stdout(), self.process.stderr())
    }

    /// Sets something that it knows.
    pub(super) async fn tell(&self, what: &str, said: &Value) -> Result<()> {
        let path = format!("/test/{what}");
        let sent = self
            .client
            .send(Method::POST, &path, &[], said.to_string().into());
        let answer = sent.await?;
        ensure!(
            answer.status.is_success(),
            "{path}: {}\n{}",
            answer.status,
            self.output()
        );
        Ok(())
    }
}

/// Where a provider is installed: what a variable names, or a place in the cache of `.ci/run`.
pub(super) fn installed(variable: &str, place: &str) -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(variable) {
        return Ok(path.into());
    }
    let cache = match std::env::var_os("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => PathBuf::from(std::env::var_os("HOME").context("a home directory")?).join(".cache"),
    };
    let path = cache.join("semel").join(place);
    ensure!(
        path.exists(),
        "{} is not there: .ci/run installs it, or set {variable}",
        path.display()
    );
    Ok(path)
}
