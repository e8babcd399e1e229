//! A test's handle on its peer.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use hyper::StatusCode;
use serde::de::DeserializeOwned;

use super::control::EFFECTS_PAGE_MAX;
use super::server::LISTENING;
use super::wire::{Behaviour, Count, Effect, Held, Rule, Totals};
use crate::client::Client;
use crate::program::{Process, Program};

/// How long a peer may take to listen.
const START_PATIENCE: Duration = Duration::from_secs(120);

/// A peer in a process of its own, which ends with this value.
#[derive(Debug)]
pub struct Peer {
    process: Process,
    address: SocketAddr,
    control: Client,
}

impl Peer {
    /// Starts a peer that remembers its effects.
    pub async fn start() -> Result<Self> {
        Self::launch(program()?).await
    }

    /// Starts a peer that also writes each effect down, as a line of JSON, as it happens.
    pub async fn start_with_log(log: &Path) -> Result<Self> {
        Self::launch(program()?.arg(log)).await
    }

    async fn launch(program: Program) -> Result<Self> {
        let process = program.with_open_input().start()?;
        let address = process.until_address(LISTENING, START_PATIENCE).await?;
        let control = Client::new(address, 8).with_patience(Duration::from_secs(300));
        Ok(Self {
            process,
            address,
            control,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of a path, which begins with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The process, for signals.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// What was counted under a path and below it.
    pub async fn count(&self, path: &str) -> Result<Count> {
        self.control(&format!("/_/count?path={}", escape(path)), "")
            .await
    }

    /// What was counted under a key.
    pub async fn count_of_key(&self, key: &str) -> Result<Count> {
        self.control(&format!("/_/count?key={}", escape(key)), "")
            .await
    }

    /// What was counted in all.
    pub async fn totals(&self) -> Result<Totals> {
        self.control("/_/totals", "").await
    }

    /// All effects, in the order in which they happened.
    pub async fn effects(&self) -> Result<Vec<Effect>> {
        let mut effects = Vec::new();
        loop {
            let path = format!("/_/effects?from={}", effects.len());
            let page: Vec<Effect> = self.control(&path, "").await?;
            let last = page.len() < EFFECTS_PAGE_MAX;
            effects.extend(page);
            if last {
                return Ok(effects);
            }
        }
    }

    /// Has the next request under a path meet a behaviour.
    pub async fn next(&self, path_prefix: &str, behaviour: Behaviour) -> Result<()> {
        self.next_times(path_prefix, 1, behaviour).await
    }

    /// Has the next so many requests under a path meet a behaviour.
    pub async fn next_times(&self, prefix: &str, times: u32, behaviour: Behaviour) -> Result<()> {
        let rule = Rule {
            path_prefix: prefix.to_owned(),
            times,
            behaviour,
        };
        self.control("/_/next", &serde_json::to_string(&rule)?)
            .await
    }

    /// Waits until at least so many requests are held, and lists them.
    pub async fn until_held(&self, count: usize, within: Duration) -> Result<Vec<Held>> {
        let path = format!("/_/held?count={count}&within_ms={}", within.as_millis());
        let held: Vec<Held> = self.control(&path, "").await?;
        ensure!(
            held.len() >= count,
            "{} of {count} requests are held",
            held.len()
        );
        Ok(held)
    }

    /// Releases every held request; returns how many there were.
    pub async fn let_go(&self) -> Result<usize> {
        self.control("/_/let-go", "").await
    }

    /// Releases one held request.
    pub async fn let_one_go(&self, held: &Held) -> Result<usize> {
        self.control(&format!("/_/let-go?id={}", held.id), "").await
    }

    /// Forgets all effects, counts, states and rules.
    pub async fn reset(&self) -> Result<()> {
        self.control("/_/reset", "").await
    }

    async fn control<T: DeserializeOwned>(&self, path: &str, body: &str) -> Result<T> {
        let answer = self.control.post(path, body.to_owned()).await?;
        ensure!(
            answer.status == StatusCode::OK,
            "{path} answered {}",
            answer.text()
        );
        answer.json()
    }
}

fn program() -> Result<Program> {
    Program::beside("semel-peer", "SEMEL_PEER_BIN")
}

fn escape(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_./".contains(byte);
    let escaped = text.bytes().map(|byte| match plain(&byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    escaped.collect()
}
