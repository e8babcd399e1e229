//! The providers of the recipes, in a process of their own: what they hold, what was done to them,
//! and how they fail.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use semel_testkit::{Client, Process, Program, patience};
use serde::Deserialize;
use serde_json::{Value, json};

/// What they say once they listen.
const LISTENING: &str = "listening on ";

/// All providers, which end with this value.
pub(super) struct Providers {
    authority: String,
    client: Client,
    _process: Process,
}

/// A request, or what it changed.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Seen {
    /// The method.
    pub(super) method: String,
    /// The path, which begins with the provider's name.
    pub(super) path: String,
    /// What was sent, of an effect.
    #[serde(default)]
    pub(super) body: Value,
    /// The query, of a request.
    #[serde(default)]
    pub(super) query: Value,
    /// Its `Idempotency-Key`.
    pub(super) key: Option<String>,
}

impl Seen {
    /// Its method and path.
    pub(super) fn line(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

impl Providers {
    /// Starts them. What they do stands in `providers.py`.
    pub(super) async fn start() -> Result<Self> {
        let process = Program::at("python3")
            .args(["-c", include_str!("providers.py")])
            .with_open_input()
            .start()?;
        let line = process.until_line(LISTENING, patience()).await?;
        let authority = line.trim_start_matches(LISTENING).trim().to_owned();
        let client = Client::new(&authority, 4);
        Ok(Self {
            authority,
            client,
            _process: process,
        })
    }

    /// The address of a provider.
    pub(super) fn url(&self, name: &str) -> String {
        format!("http://{}/{name}", self.authority)
    }

    /// Has them hold values, by path.
    pub(super) async fn hold(&self, values: &Value) -> Result<()> {
        self.control("/_/hold", values).await
    }

    /// Refuses the next request with a status.
    pub(super) async fn refuse(&self, method: &str, path: &str, status: u16) -> Result<()> {
        let fault = json!({ "method": method, "path": path, "status": status });
        self.control("/_/next", &fault).await
    }

    /// Acts on the next request, and loses the answer.
    pub(super) async fn lose_answer(&self, method: &str, path: &str) -> Result<()> {
        let fault = json!({ "method": method, "path": path, "status": "lost" });
        self.control("/_/next", &fault).await
    }

    /// What was done to them, in order.
    pub(super) async fn effects(&self) -> Result<Vec<Seen>> {
        self.client.get("/_/effects").await?.json()
    }

    /// Method and path of what was done to them, in order.
    pub(super) async fn lines(&self) -> Result<Vec<String>> {
        let effects = self.effects().await?;
        Ok(effects.iter().map(Seen::line).collect())
    }

    /// What they hold now, by path.
    pub(super) async fn held(&self) -> Result<BTreeMap<String, Value>> {
        self.client.get("/_/held").await?.json()
    }

    /// What they were asked under a path, in order.
    pub(super) async fn requests(&self, method: &str, path: &str) -> Result<Vec<Seen>> {
        let all: Vec<Seen> = self.client.get("/_/requests").await?.json()?;
        let meant = |seen: &Seen| seen.method == method && seen.path.starts_with(path);
        Ok(all.into_iter().filter(meant).collect())
    }

    async fn control(&self, path: &str, body: &Value) -> Result<()> {
        let answer = self.client.post(path, body.to_string()).await?;
        ensure!(answer.status.is_success(), "{path}: {}", answer.text());
        Ok(())
    }
}
