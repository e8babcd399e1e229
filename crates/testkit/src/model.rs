//! A language model in a process of its own: it does as the prompt tells it, speaks as OpenAI and
//! as Anthropic do, and remembers what it was asked.

use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

use crate::client::Client;
use crate::program::{Process, Program};

/// How long it may take to listen.
const START_PATIENCE: Duration = Duration::from_secs(120);

/// What it says once it listens.
const LISTENING: &str = "listening on ";

/// A language model, which ends with this value.
#[derive(Debug)]
pub struct Model {
    authority: String,
    client: Client,
    _process: Process,
}

/// What it was asked.
#[derive(Clone, Debug, Deserialize)]
pub struct Asked {
    /// The path.
    pub path: String,
    /// The headers, their names in small letters.
    pub headers: Value,
    /// The body.
    pub body: Value,
}

impl Model {
    /// Starts a model. What a prompt can tell it stands in `model/server.py`.
    pub async fn start() -> Result<Self> {
        let process = Program::at("python3")
            .args(["-c", include_str!("model/server.py")])
            .start()?;
        let line = process.until_line(LISTENING, START_PATIENCE).await?;
        let authority = line.trim_start_matches(LISTENING).trim().to_owned();
        let client = Client::new(&authority, 4);
        Ok(Self {
            authority,
            client,
            _process: process,
        })
    }

    /// Where its API is.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.authority)
    }

    /// Everything that it was asked, in order.
    pub async fn asked(&self) -> Result<Vec<Asked>> {
        let answer = self.client.get("/requests").await?;
        serde_json::from_slice(&answer.body).context("what was asked is JSON")
    }
}
