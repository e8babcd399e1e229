//! `semel serve` as real processes: one database, any number of servers on it.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, OnceLock};

use anyhow::{Result, ensure};
use hyper::{Method, StatusCode};
use semel_testkit::client::Answer;
use semel_testkit::semel::{self, Api, migrate};
use semel_testkit::{Client, Connection, Process, Program, Server, until};

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

    /// Moves the database's clock ahead by an interval.
    pub(crate) async fn pass(&self, interval: &str) -> Result<()> {
        let ahead = format!("UPDATE clock SET time_offset = time_offset + interval '{interval}'");
        Ok(self.connect().await?.batch_execute(&ahead).await?)
    }

    /// Kills the only server, and moves the clock past what it holds: the next one waits for nothing.
    pub(crate) async fn kill(&self, server: &mut Served, held_for: &str) -> Result<()> {
        server.process.sigkill()?;
        self.pass(held_for).await
    }

    /// Waits until a server has a live session: one that was paused past its lease has noticed that,
    /// and begun another.
    pub(crate) async fn until_live(&self, server: &Served) -> Result<()> {
        let client = self.connect().await?;
        let process = format!("pid {}", server.process.id());
        let look = async || -> Result<i64> {
            let live = "SELECT count(*) FROM sessions
                         WHERE process = $1 AND lost_at IS NULL AND expires_at > moment()";
            Ok(client.query_one(live, &[&process]).await?.get(0))
        };
        until("a session of the server", look, |live| *live > 0).await?;
        Ok(())
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

/// Waits until every server knows the flow that was published last, and all before it.
pub(crate) async fn until_known(servers: &[Served], flow: &str) -> Result<()> {
    let path = format!("/hooks/default/{flow}");
    for server in servers {
        // A hook that is known takes deliveries and is not asked first; any other is not found.
        let ask = async || -> Result<StatusCode> {
            let asked = server.client.send(Method::OPTIONS, &path, &[], "".into());
            Ok(asked.await?.status)
        };
        until("a server that knows the flow", ask, |status| *status == 405).await?;
    }
    Ok(())
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

/// The product with fault points: what `SEMEL_FAULTS_BIN` names, or the one built beside this test.
///
/// Every build with debug assertions has fault points: a development build, and the profile `faults`.
pub(crate) fn faults() -> Result<Program> {
    static HAS_POINTS: OnceLock<bool> = OnceLock::new();
    let path = Program::beside("semel", "SEMEL_FAULTS_BIN")?.path();
    let is_found = || {
        let mut grep = Command::new("grep");
        grep.args(["--quiet", "--text", "SEMEL_FAULTS"]).arg(&path);
        grep.status().is_ok_and(|status| status.success())
    };
    ensure!(
        *HAS_POINTS.get_or_init(is_found),
        "{} has no fault points: it was built without debug assertions",
        path.display()
    );
    Ok(Program::semel_at(path))
}
