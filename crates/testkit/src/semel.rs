//! The product as an operator runs it: `semel migrate`, `semel serve`, and flows over its API.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hyper::Method;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::client::{Answer, Client};
use crate::program::{Process, Program};

/// How long a migration or the start of a server may take, on a machine that is busy.
const START_PATIENCE: Duration = Duration::from_secs(120);

/// The words before a server's address in its log.
const LISTENING: &str = "listening on ";

/// What all servers of a database share.
const SECRET: &str = "5e3e15e3e15e3e15e3e15e3e15e3e15e3e15e3e15e3e15e3e15e3e15e3e1abcd";

/// Lets releases go live without a rehearsal, where rehearsing is not what a test is about.
const NO_REHEARSAL: (&str, &str) = ("SEMEL_REQUIRE_REHEARSAL", "false");

/// Makes the schema of an empty database and returns its first token.
pub async fn migrate(program: Program, database: &str) -> Result<String> {
    let migrated = program
        .args(["migrate", "--json", "--database", database])
        .run(START_PATIENCE)
        .await?;
    ensure!(migrated.status.success(), "migrate: {}", migrated.stderr);
    let answer: Value = serde_json::from_str(&migrated.stdout)?;
    let token = answer["data"]["token"].as_str().context("a first token")?;
    Ok(token.to_owned())
}

/// Starts a server at an address, with further arguments, and waits until it listens. It promotes
/// releases without a rehearsal.
pub async fn serve(
    program: Program,
    database: &str,
    listen: &str,
    arguments: &[&str],
) -> Result<(Process, SocketAddr)> {
    let program = program.env(NO_REHEARSAL.0, NO_REHEARSAL.1);
    serve_gated(program, database, listen, arguments).await
}

/// Starts a server as it is shipped: it promotes only what a rehearsal has proven.
pub async fn serve_gated(
    program: Program,
    database: &str,
    listen: &str,
    arguments: &[&str],
) -> Result<(Process, SocketAddr)> {
    let process = program
        .args(["serve", "--listen", listen, "--log-format", "text"])
        .args(["--database", database])
        .args(arguments)
        .env("SEMEL_SECRET_KEY", SECRET)
        .start()?;
    let address = process.until_address(LISTENING, START_PATIENCE).await?;
    Ok((process, address))
}

/// The API of one server, opened by a token.
#[derive(Clone, Copy, Debug)]
pub struct Api<'a> {
    client: &'a Client,
    token: &'a str,
}

impl<'a> Api<'a> {
    /// The API that a client reaches.
    pub fn new(client: &'a Client, token: &'a str) -> Self {
        Self { client, token }
    }

    /// Sends one command, which must succeed. Its path is its idempotency key.
    pub async fn command(&self, method: Method, path: &str, body: String) -> Result<Answer> {
        self.command_as(path, method, path, body).await
    }

    async fn command_as(
        &self,
        key: &str,
        method: Method,
        path: &str,
        body: String,
    ) -> Result<Answer> {
        let bearer = format!("Bearer {}", self.token);
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("idempotency-key", key),
        ];
        let answer = self
            .client
            .send(method, path, &headers, body.into())
            .await?;
        let text = answer.text();
        ensure!(
            answer.status.is_success(),
            "{path}: {} {text}",
            answer.status
        );
        Ok(answer)
    }

    /// Pushes, publishes and promotes a flow.
    pub async fn publish(&self, name: &str, source: &str) -> Result<()> {
        let flow = format!("/v1/flows/{name}");
        let draft = json!({ "source": source }).to_string();
        let digest = hex::encode(Sha256::digest(source));
        let send = async |method, verb: &str, body| {
            let (path, key) = (format!("{flow}/{verb}"), format!("{verb} {name} {digest}"));
            self.command_as(&key, method, &path, body).await
        };
        send(Method::PUT, "draft", draft).await?;
        let published = send(Method::POST, "publish", "{}".to_owned()).await?;
        let published: Value = published.json()?;
        let release = json!({ "release": published["release"] }).to_string();
        send(Method::POST, "promote", release).await?;
        Ok(())
    }
}
