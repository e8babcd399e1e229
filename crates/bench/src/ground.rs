//! Where everything is measured: one PostgreSQL with every commit on disk, the product, the plain
//! server and the peer, each in a process of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use semel_testkit::semel::{Api, migrate, serve};
use semel_testkit::{Client, Cluster, Options, Peer, Process, Program, Server};

use crate::bare;
use crate::bare::Rows;
use crate::bare::desk::Desk;
use crate::bare::same_calls::SameCalls;
use crate::bare::same_rows::{self, SameRows};
use crate::load::Target;
use crate::meters::Meters;

/// How long a process may take to start, or to stop.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// A new database of the product, migrated and empty.
pub(crate) struct NewDatabase {
    /// Where it is.
    pub(crate) url: String,
    /// A token that may do everything.
    pub(crate) token: String,
    /// A connection to it.
    pub(crate) client: tokio_postgres::Client,
}

/// Makes one beside others.
pub(crate) async fn create_database(server: &Server, name: &str) -> Result<NewDatabase> {
    let admin = server.connect("postgres").await?;
    let create = format!("CREATE DATABASE {name}");
    admin.batch_execute(&create).await?;
    let url = server.url(name);
    let token = migrate(Program::semel()?, &url).await?;
    let client = server.connect(name).await?;
    Ok(NewDatabase { url, token, client })
}

/// The flow that deliveries are accepted for: its runs sleep as soon as a worker moves them.
pub(crate) const ACCEPT_FLOW: &str = "
flow: accept
trigger:
  webhook: { auth: none, key: input.id }
steps:
  - id: later
    wait: { for: 30d }
";

/// Three recorded effects whose guard is the transaction.
pub(crate) const KV_FLOW: &str = "
flow: orders
trigger:
  api: { key: input.id }
steps:
  - id: paid
    kv: { set: 'orders/${{ input.id }}', value: paid }
  - id: packed
    kv: { set: 'orders/${{ input.id }}', value: packed }
  - id: sent
    kv: { set: 'orders/${{ input.id }}', value: sent }
result: '{\"ok\": true}'
";

/// Three calls to a destination that honours keys.
const HTTP_FLOW: &str = "
flow: calls
trigger:
  api: { key: input.id }
steps:
  - id: first
    http: { post: 'PEER/keyed/orders', json: { order: '${{ input.id }}', step: 0 } }
    guard: key
  - id: second
    http: { post: 'PEER/keyed/orders', json: { order: '${{ input.id }}', step: 1 } }
    guard: key
  - id: third
    http: { post: 'PEER/keyed/orders', json: { order: '${{ input.id }}', step: 2 } }
    guard: key
result: '{\"ok\": true}'
";

/// The server's settings: every commit on disk, and memory and log as an operator of this size of
/// machine would set them. The same for bare and for Semel.
pub(crate) fn options() -> Options {
    Options::durable()
        .with("shared_buffers", "1GB")
        .with("max_wal_size", "8GB")
        .with("checkpoint_timeout", "15min")
}

/// Everything that is measured, running.
pub(crate) struct Ground {
    /// Reads what slices cost.
    pub(crate) meters: Meters,
    /// The product.
    pub(crate) semel: Semel,
    /// The product again, on a database without a worker that moves the runs: accepting alone.
    pub(crate) front: Semel,
    /// The plain server.
    pub(crate) plain: Plain,
    /// The plain server that writes the same rows as the product.
    pub(crate) plain_same: Plain,
    /// The batched writer.
    pub(crate) desk: Desk,
    /// The batched writer of the same rows as the product.
    pub(crate) same_rows: SameRows,
    /// The same for runs of calls, which the testkit's client makes.
    pub(crate) same_calls: SameCalls,
    /// What the steps call.
    pub(crate) peer: Peer,
    /// Where the bare tables are.
    pub(crate) bare_url: String,
    /// PostgreSQL itself, last, so that it ends after those who use it.
    cluster: Cluster,
}

impl Ground {
    /// Starts everything.
    pub(crate) async fn start(options: Options) -> Result<Self> {
        let cluster = Cluster::start(options).await?;
        let server = cluster.server().clone();
        let admin = server.connect("postgres").await?;
        admin.batch_execute("CREATE DATABASE bare").await?;
        admin.batch_execute("CREATE DATABASE semel").await?;
        admin.batch_execute("CREATE DATABASE gate").await?;
        admin.batch_execute("CREATE DATABASE same").await?;
        let bare_url = server.url("bare");
        let client = bare::connect(&bare_url, Rows::Least).await?;
        bare::create(&client).await?;
        let desk = Desk::start(client).await?;
        let plain = Plain::start(&bare_url, Rows::Least).await?;
        let same_url = server.url("same");
        let same_rows = SameRows::start(&same_url).await?;
        let plain_same = Plain::start(&same_url, Rows::Same).await?;
        let peer = Peer::start().await?;
        let same_calls = SameCalls::start(&same_url, &peer).await?;
        let semel = Semel::start(Program::semel, &server.url("semel"), "1024").await?;
        semel.publish_all(&peer).await?;
        let (product, own) = (
            server.connect("semel").await?,
            server.connect("same").await?,
        );
        let (orders, calls) = (semel.runs_of("orders"), semel.runs_of("calls"));
        let runners = same_rows.crowd(1, "check");
        same_rows::check((&orders, &product), (runners, &own), "check").await?;
        let runners = same_calls.crowd(1, "calls");
        same_rows::check((&calls, &product), (runners, &own), "calls").await?;
        let front = Semel::start(Program::semel, &server.url("gate"), "0").await?;
        front.publish_all(&peer).await?;
        let meters = Meters::new(admin, cluster.home())?;
        Ok(Self {
            meters,
            semel,
            front,
            plain,
            plain_same,
            desk,
            same_rows,
            same_calls,
            peer,
            bare_url,
            cluster,
        })
    }

    /// Opens a connection to one of the databases.
    pub(crate) async fn connect(&self, database: &str) -> Result<tokio_postgres::Client> {
        self.cluster.server().connect(database).await
    }

    /// How to reach one of the databases.
    pub(crate) fn url(&self, database: &str) -> String {
        self.cluster.server().url(database)
    }

    /// The product's log, for a failure's message.
    pub(crate) fn last_words(&self) -> String {
        self.semel.last_words()
    }
}

/// `semel serve` and what it takes to speak to it.
pub(crate) struct Semel {
    process: Process,
    address: SocketAddr,
    token: String,
}

impl Semel {
    /// Brings a database up to date and serves it, by some build of the product.
    pub(crate) async fn start(
        program: impl Fn() -> Result<Program>,
        url: &str,
        capacity: &str,
    ) -> Result<Self> {
        let token = migrate(program()?, url).await?;
        Self::serve(program, url, token, capacity).await
    }

    /// Serves a database that is up to date.
    pub(crate) async fn serve(
        program: impl Fn() -> Result<Program>,
        url: &str,
        token: String,
        capacity: &str,
    ) -> Result<Self> {
        let capacity = ["--capacity", capacity];
        let (process, address) = serve(program()?, url, "127.0.0.1:0", &capacity).await?;
        Ok(Self {
            process,
            address,
            token,
        })
    }

    /// Makes every flow live that is measured.
    pub(crate) async fn publish_all(&self, peer: &Peer) -> Result<()> {
        let client = Client::new(self.address, 1);
        let api = Api::new(&client, &self.token);
        api.publish("accept", ACCEPT_FLOW).await?;
        api.publish("orders", KV_FLOW).await?;
        let calls = HTTP_FLOW.replace("PEER", &peer.url(""));
        api.publish("calls", &calls).await
    }

    /// Makes a flow live.
    pub(crate) async fn publish(&self, name: &str, source: &str) -> Result<()> {
        let client = Client::new(self.address, 1);
        Api::new(&client, &self.token).publish(name, source).await
    }

    /// The end of its log, for a failure's message.
    pub(crate) fn last_words(&self) -> String {
        let log = self.process.stderr();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Its process.
    pub(crate) fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// Lets it complete what it holds, and waits until it has stopped.
    pub(crate) async fn stop(mut self) -> Result<()> {
        self.process.sigterm()?;
        self.process.until_exit(START_PATIENCE).await?;
        Ok(())
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The token that opens all of it.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Where deliveries go.
    pub(crate) fn hook(&self) -> Arc<Target> {
        self.hook_of("accept")
    }

    /// Where deliveries of a flow go.
    pub(crate) fn hook_of(&self, flow: &str) -> Arc<Target> {
        hook_of(flow, &self.process, self.address)
    }

    /// Where runs are started whose end is waited for.
    pub(crate) fn runs_of(&self, flow: &str) -> Arc<Target> {
        Arc::new(Target {
            process: self.process.id(),
            address: self.address,
            path: format!("/v1/flows/{flow}/runs?wait=30s"),
            headers: format!("authorization: Bearer {}\r\n", self.token),
            status: 200,
            contains: "succeeded",
            wrapped: true,
        })
    }
}

/// The plain server.
pub(crate) struct Plain {
    process: Process,
    address: SocketAddr,
}

impl Plain {
    async fn start(url: &str, rows: Rows) -> Result<Self> {
        let same = match rows {
            Rows::Least => None,
            Rows::Same => Some("--same-rows"),
        };
        let process = Program::at(std::env::current_exe()?)
            .args(["plain-server", url].into_iter().chain(same))
            .with_open_input()
            .start()?;
        let words = bare::server::LISTENING;
        let address = process.until_address(words, START_PATIENCE).await?;
        Ok(Self { process, address })
    }

    /// Where deliveries go.
    pub(crate) fn hook(&self) -> Arc<Target> {
        hook_of("accept", &self.process, self.address)
    }
}

/// Where deliveries go, to the product and to the plain server alike.
fn hook_of(flow: &str, process: &Process, address: SocketAddr) -> Arc<Target> {
    Arc::new(Target {
        process: process.id(),
        address,
        path: format!("/hooks/default/{flow}"),
        headers: String::new(),
        status: 202,
        contains: "run_",
        wrapped: false,
    })
}
