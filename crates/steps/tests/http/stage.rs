//! The stage, a destination in a process of its own, and what tests send to it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use semel_model::connection::{HttpAuth, HttpTarget, Target};
use semel_model::request::HttpRequest;
use semel_model::{Connection, EffectId, Fault, Outcome, Receipt, RunId, SecretText, Span};
use semel_steps::{Destination, HttpExecutor, Pooling, Reach, Route, SendGate};
use semel_testkit::{Process, Program, patience};
use serde_json::Value;

use super::papers::Papers;

/// A running stage.
pub(crate) struct Stage {
    _process: Process,
    pub(crate) port: u16,
}

impl Stage {
    pub(crate) async fn start() -> Result<Self> {
        Self::with(&[]).await
    }

    pub(crate) async fn with(arguments: &[&str]) -> Result<Self> {
        Self::run(
            Program::at("python3")
                .arg(script("stage.py"))
                .args(arguments),
        )
        .await
    }

    /// One behind TLS, with the server's certificate.
    pub(crate) async fn encrypted(papers: &Papers) -> Self {
        let [cert, key] = ["server.pem", "server.key"].map(|name| papers.path(name));
        Self::with(&["--cert", &cert, "--key", &key]).await.unwrap()
    }

    /// A program that says where it listens.
    pub(crate) async fn run(program: Program) -> Result<Self> {
        let process = program.with_open_input().start()?;
        let line = process.until_line("listening", patience()).await?;
        let port = line.trim_start_matches("listening ").trim().parse();
        Ok(Self {
            _process: process,
            port: port.with_context(|| line)?,
        })
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// The same behind TLS.
    pub(crate) fn https_url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.port)
    }

    /// What the stage counted: `{connections, requests, tokens, messages, paths, tunnels}`.
    pub(crate) async fn counts(&self) -> Value {
        self.counts_at("127.0.0.1").await
    }

    /// The same, for a stage that listens at another address.
    pub(crate) async fn counts_at(&self, address: &str) -> Value {
        let read = get(&format!("http://{address}:{}/_/counts", self.port));
        let caller = caller(&Reach::open());
        let outcome = caller.send_request(&read, route(None), None, Pooling::Fresh);
        done(outcome.await).response["json"].clone()
    }

    /// A connection to this stage.
    pub(crate) fn destination(&self, auth: HttpAuth, secrets: &[(&str, &str)]) -> Destination {
        destination(target(&self.url("/"), auth), secrets)
    }
}

pub(crate) struct Open;

impl SendGate for Open {
    fn is_open(&self) -> bool {
        true
    }
}

pub(crate) fn caller(reach: &Reach) -> HttpExecutor {
    HttpExecutor::new(Arc::new(Open), reach).unwrap()
}

/// A script of these tests.
pub(crate) fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/http")
        .join(name)
}

/// A target that trusts the root of these papers.
pub(crate) fn trusting(papers: &Papers, base_url: &str) -> HttpTarget {
    let mut target = target(base_url, HttpAuth::None);
    target.trust = Some(papers.read("ca.pem"));
    target
}

pub(crate) fn target(base_url: &str, auth: HttpAuth) -> HttpTarget {
    HttpTarget {
        base_url: base_url.to_owned(),
        auth,
        headers: Vec::new(),
        trust: None,
        redirects: 0,
    }
}

pub(crate) fn destination(target: HttpTarget, secrets: &[(&str, &str)]) -> Destination {
    let secrets = secrets
        .iter()
        .map(|(name, text)| ((*name).to_owned(), SecretText::new((*text).to_owned())));
    let secrets: BTreeMap<_, _> = secrets.collect();
    let connection = Connection::to(Target::Http(target));
    Destination::new("books".to_owned(), 7, 1, connection, secrets)
}

pub(crate) fn route(to: Option<&Destination>) -> Route<'_> {
    Route {
        namespace_id: 7,
        to,
        origin: None,
    }
}

pub(crate) fn request(method: &str, url: &str) -> HttpRequest {
    HttpRequest {
        connection: None,
        method: method.to_owned(),
        url: url.to_owned(),
        headers: Vec::new(),
        key_header: None,
        body: None,
        parts: Vec::new(),
        file: None,
        pages: None,
        timeout: Span::from_secs(100),
    }
}

pub(crate) fn get(url: &str) -> HttpRequest {
    request("GET", url)
}

pub(crate) fn key() -> EffectId {
    let run: RunId = format!("run_{:032x}", 42).parse().unwrap();
    EffectId::derive(run, "pay", "", 0)
}

pub(crate) fn done(outcome: Outcome) -> Receipt {
    match outcome {
        Outcome::Done(receipt) => receipt,
        other @ (Outcome::Failed(_) | Outcome::InDoubt(_)) => panic!("not done: {other:?}"),
    }
}

pub(crate) fn failed(outcome: Outcome) -> Fault {
    match outcome {
        Outcome::Failed(fault) => fault,
        other @ (Outcome::Done(_) | Outcome::InDoubt(_)) => panic!("not failed: {other:?}"),
    }
}
