//! `semel serve` as real processes: one database, any number of servers on it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use hyper::Method;
use semel_testkit::client::Answer;
use semel_testkit::{Client, Connection, Process, Program, Server};
use serde_json::{Value, json};

/// The database of every storm.
const DATABASE: &str = "semel";

/// What all servers of a database share.
const SECRET: &str = "5e3e15e3e15e3e15e3e15e3e15e3e15e3e15e3e15e3e15e3e15e3e15e3e1abcd";

/// How long a server may take to listen, on a machine that is busy.
const START_PATIENCE: Duration = Duration::from_secs(30);

/// How many connections a storm opens to one server, unless it says otherwise.
const CONNECTIONS_MAX: usize = 64;

/// A migrated database and the token that opens it.
pub(crate) struct Home {
    server: Server,
    token: String,
}

impl Home {
    /// Makes the database on a server.
    pub(crate) async fn found(server: &Server) -> Result<Self> {
        let admin = server.connect("postgres").await?;
        admin
            .batch_execute(&format!("CREATE DATABASE {DATABASE}"))
            .await?;
        let migrate = Program::semel()?
            .args(["migrate", "--json", "--database", &server.url(DATABASE)])
            .run(Duration::from_secs(60))
            .await?;
        ensure!(migrate.status.success(), "{}", migrate.stderr);
        let answer: Value = serde_json::from_str(&migrate.stdout)?;
        let token = answer["data"]["token"].as_str().context("a first token")?;
        Ok(Self {
            server: server.clone(),
            token: token.to_owned(),
        })
    }

    /// What opens the API.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// The database's address.
    pub(crate) fn url(&self) -> String {
        self.server.url(DATABASE)
    }

    /// The database's address behind a proxy.
    pub(crate) fn url_at(&self, address: SocketAddr) -> String {
        Server::url_at(address, DATABASE)
    }

    /// A connection of the test's own.
    pub(crate) async fn connect(&self) -> Result<Connection> {
        self.server.connect(DATABASE).await
    }

    /// Makes a flow live, by the API of one server.
    pub(crate) async fn publish(&self, server: &Served, name: &str, source: &str) -> Result<()> {
        let flow = format!("/v1/flows/{name}");
        let draft = json!({ "source": source }).to_string();
        self.command(server, Method::PUT, &format!("{flow}/draft"), draft)
            .await?;
        let published = self
            .command(
                server,
                Method::POST,
                &format!("{flow}/publish"),
                "{}".into(),
            )
            .await?;
        let published: Value = published.json()?;
        let release = json!({ "release": published["release"] }).to_string();
        self.command(server, Method::POST, &format!("{flow}/promote"), release)
            .await?;
        Ok(())
    }

    /// Sends one command to the API of one server.
    pub(crate) async fn command(
        &self,
        server: &Served,
        method: Method,
        path: &str,
        body: String,
    ) -> Result<Answer> {
        let bearer = format!("Bearer {}", self.token);
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("idempotency-key", path),
        ];
        let answer = server
            .client
            .send(method, path, &headers, body.into())
            .await?;
        ensure!(answer.status.is_success(), "{path}: {}", answer.text());
        Ok(answer)
    }
}

/// A server that listens.
pub(crate) struct Served {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
    pub(crate) client: Arc<Client>,
}

/// Starts a server and waits until it listens.
pub(crate) async fn serve(program: Program, database: &str, lease: &str) -> Result<Served> {
    serve_at(program, database, lease, "127.0.0.1:0").await
}

/// Starts a server at an address and waits until it listens.
pub(crate) async fn serve_at(
    program: Program,
    database: &str,
    lease: &str,
    listen: &str,
) -> Result<Served> {
    let process = program
        .args(["serve", "--listen", listen, "--log-format", "text"])
        .args(["--lease", lease, "--database", database])
        .env("SEMEL_SECRET_KEY", SECRET)
        .start()?;
    let line = process.until_line("listening on ", START_PATIENCE).await?;
    let after = line.split("listening on ").nth(1).unwrap_or_default();
    let address = after.split_whitespace().next().unwrap_or_default();
    let address: SocketAddr = address
        .parse()
        .with_context(|| format!("an address in {line:?}"))?;
    let client = Arc::new(Client::new(address, CONNECTIONS_MAX));
    Ok(Served {
        process,
        address,
        client,
    })
}

/// The test build, with fault points: what `SEMEL_FAULTS_BIN` names, or one that is built now.
pub(crate) fn faults() -> Result<Program> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| build().map_err(|error| format!("{error:#}")));
    match built {
        Ok(path) => Ok(Program::semel_at(path)),
        Err(error) => bail!("the test build is missing: {error}"),
    }
}

/// Cargo's own lock lets one process build; the others find it built.
fn build() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("SEMEL_FAULTS_BIN") {
        return Ok(path.into());
    }
    // Tests run from `target/PROFILE/deps`.
    let executable = std::env::current_exe()?;
    let profile = executable
        .ancestors()
        .nth(2)
        .context("a profile's folder")?;
    let target = profile.parent().context("a target folder")?.join("faults");
    let profile = profile.file_name().context("a profile")?;
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "--package", "semel-cli", "--features", "faults"])
        .args(["--locked", "--offline", "--quiet", "--target-dir"])
        .arg(&target)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    if profile == "release" {
        cargo.arg("--release");
    }
    let output = cargo.output().context("cannot run cargo")?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(target.join(profile).join("semel"))
}
