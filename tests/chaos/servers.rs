//! `semel serve` as real processes: one database, any number of servers on it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use anyhow::{Result, bail};
use hyper::Method;
use semel_testkit::client::Answer;
use semel_testkit::semel::{self, Api, migrate};
use semel_testkit::{Build, Client, Connection, Process, Program, Server};

/// The database of every storm.
const DATABASE: &str = "semel";

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
        let token = migrate(Program::semel()?, &server.url(DATABASE)).await?;
        Ok(Self {
            server: server.clone(),
            token,
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
        self.api(server).publish(name, source).await
    }

    /// Sends one command to the API of one server.
    pub(crate) async fn command(
        &self,
        server: &Served,
        method: Method,
        path: &str,
        body: String,
    ) -> Result<Answer> {
        self.api(server).command(method, path, body).await
    }

    fn api<'a>(&'a self, server: &'a Served) -> Api<'a> {
        Api::new(&server.client, &self.token)
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
    let lease = ["--lease", lease];
    let (process, address) = semel::serve(program, database, listen, &lease).await?;
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
    let faults = Build::of_this_test()?.below("faults");
    let product = ["--package", "semel-cli", "--features", "faults"];
    faults.cargo("build", &product)?;
    Ok(faults.binary("semel"))
}
