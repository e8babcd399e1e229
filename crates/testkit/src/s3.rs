//! An S3-compatible store in a process of its own: moto's server, which keeps objects in memory.
//!
//! `.ci/run` installs it; `SEMEL_S3_SERVER` names another place. It speaks the protocol and does not
//! check signatures, so it proves what is stored and not who may store it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use hyper::Method;

use crate::client::Client;
use crate::program::{Process, Program};

/// How long the store may take to listen: it is written in Python.
const START_PATIENCE: Duration = Duration::from_secs(120);

/// What it says once it listens.
const LISTENING: &str = "Running on http://";

/// The bucket that a new store has.
pub const BUCKET: &str = "outputs";

/// An S3-compatible store, which ends with this value.
#[derive(Debug)]
pub struct S3 {
    authority: String,
    client: Client,
    _process: Process,
}

impl S3 {
    /// Starts a store with one empty bucket.
    pub async fn start() -> Result<Self> {
        let process = Program::at(program()?)
            .args(["-H", "127.0.0.1", "-p", "0"])
            .env("PYTHONUNBUFFERED", "1")
            .start()?;
        let line = process.until_line(LISTENING, START_PATIENCE).await?;
        let (_, authority) = line.split_once(LISTENING).context("an address")?;
        let authority = authority.trim().to_owned();
        let client = Client::new(&authority, 2);
        let path = format!("/{BUCKET}");
        let made = client.send(Method::PUT, &path, &[], Bytes::new()).await?;
        ensure!(made.status.is_success(), "no bucket: {}", made.status);
        Ok(Self {
            authority,
            client,
            _process: process,
        })
    }

    /// Its address, as `http://HOST:PORT`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.authority)
    }

    /// The names of all objects in the bucket.
    pub async fn list(&self) -> Result<Vec<String>> {
        let path = format!("/{BUCKET}?list-type=2");
        let answer = self.client.get(&path).await?;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let keys = text.split("<Key>").skip(1);
        Ok(keys
            .filter_map(|rest| rest.split("</Key>").next())
            .map(str::to_owned)
            .collect())
    }
}

fn program() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("SEMEL_S3_SERVER") {
        return Ok(path.into());
    }
    let cache = match std::env::var_os("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => PathBuf::from(std::env::var_os("HOME").context("a home directory")?).join(".cache"),
    };
    let path = cache.join("semel/s3/bin/moto_server");
    ensure!(
        path.is_file(),
        "{} is not there: .ci/run installs it, or set SEMEL_S3_SERVER",
        path.display()
    );
    Ok(path)
}
