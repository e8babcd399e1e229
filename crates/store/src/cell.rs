//! One PostgreSQL: how to reach it, and what it must promise before it is used.
//!
//! A process has a fixed number of connections to it ([`CONNECTIONS_MAX`]), each with an owner:
//! every lane of a writer, each poller, the renewal of the session, recovery, a pool for the
//! engine's other work, a pool for requests, and one for their lists. Every wait for a connection has a limit.
//!
//! Most functions of the store take a part of a cell instead: [`SlotCell`] for the rows of one slot,
//! [`HomeCell`] for control data, [`EveryCell`] for the rows of all slots.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use deadpool_postgres::Pool;
use rustls::ClientConfig;
use rustls_platform_verifier::ConfigVerifierExt;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::durability::{ASSERT_DURABLE, Unsafe};
use crate::pool::{self, PooledClient};
use crate::writer::connection::{ErrorClass, classify};
use crate::writer::describe;

mod aside;
mod connector;
mod lane;
mod scope;

pub use aside::RehearsalSchema;
use connector::LIVE_SCHEMA;
pub(crate) use connector::{Connector, LIST_SESSION, PgConnection, Session, WRITER_SESSION};
pub(crate) use lane::Lane;
pub use scope::{EveryCell, HomeCell, OneCell, SlotCell};

/// How many connections serve the engine's work, besides those with a single owner.
const ENGINE_CONNECTIONS_MAX: usize = 8;

/// How many connections serve requests that read.
const PEOPLE_CONNECTIONS_MAX: usize = 4;

/// How many connections serve requests that list: lists can slow each other, and nothing else.
const LIST_CONNECTIONS_MAX: usize = 4;

/// How many connections have a single owner: ten lanes of writers, two takers, the tally of
/// duplicates, renewal and recovery.
const OWNED_CONNECTIONS_MAX: usize = 15;

/// The most connections that one server holds.
pub const CONNECTIONS_MAX: usize =
    ENGINE_CONNECTIONS_MAX + PEOPLE_CONNECTIONS_MAX + LIST_CONNECTIONS_MAX + OWNED_CONNECTIONS_MAX;

/// How long a connection may take to open.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// How long the engine's work waits for a connection of its pool.
const ENGINE_WAIT_MAX: Duration = Duration::from_secs(5);

/// How long a request waits for a connection before its sender is asked to retry.
const PEOPLE_WAIT_MAX: Duration = Duration::from_secs(2);

/// What an operator may choose about a cell.
#[derive(Clone, Debug)]
pub struct CellOptions {
    /// Lets a database that may lose acknowledged commits be used all the same.
    pub accept_unsafe: bool,
    /// How long a write may stay unanswered before its connection is abandoned and the write is
    /// submitted again. Safe, because every write is fenced.
    pub write_patience: Duration,
    /// How long a write is submitted again before its caller gets an error.
    pub write_give_up: Duration,
    /// How many connections serve the engine's work, besides those with a single owner.
    pub engine_connections: usize,
    /// The factor on the time limits of reads, and of the wait for a connection. 1 in production; tests take more,
    /// because their machine may stand still.
    pub read_slack: u32,
}

impl Default for CellOptions {
    fn default() -> Self {
        Self {
            accept_unsafe: false,
            write_patience: Duration::from_secs(10),
            write_give_up: Duration::from_secs(30),
            engine_connections: ENGINE_CONNECTIONS_MAX,
            read_slack: 1,
        }
    }
}

/// One PostgreSQL that owns slots.
#[derive(Clone)]
pub struct Cell {
    connector: Connector,
    shared: Arc<Shared>,
    /// Whether reads go through the pool that serves requests.
    for_people: bool,
    options: CellOptions,
}

/// The connections that clones of a cell share.
struct Shared {
    engine: Pool,
    people: Pool,
    lists: Pool,
    renewal: Lane,
    recovery: Lane,
    /// How many callers wait until a transition of theirs is recorded.
    recording: Arc<AtomicUsize>,
}

/// Why a cell cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The address is not one of PostgreSQL's forms.
    #[error("the database address cannot be read")]
    Address(#[source] tokio_postgres::Error),
    /// The machine's trusted certificates cannot be read.
    #[error("cannot set up TLS")]
    Tls(#[source] rustls::Error),
    /// The connection to a remote server would not be encrypted.
    #[error(
        "the database at {host} is not on this machine: add sslmode=require, or sslmode=disable if the network is yours alone"
    )]
    InTheClear {
        /// The host.
        host: String,
    },
    /// There is no answer, or the server refused.
    #[error("cannot connect to the database")]
    Unreachable(#[source] tokio_postgres::Error),
    /// The server could lose what it acknowledged.
    #[error("the database has {setting} = {value}, so it could lose what it acknowledged; {fix}")]
    Unsafe {
        /// The setting.
        setting: String,
        /// What it is.
        value: String,
        /// What to do.
        fix: String,
    },
}

/// A read did not succeed; nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// No connection is available.
    #[error("cannot reach the database")]
    Unreachable(#[source] deadpool_postgres::PoolError),
    /// The statement failed.
    #[error("the database refused a statement")]
    Database(#[from] tokio_postgres::Error),
    /// The statement took longer than its duty may take.
    #[error("the database did not answer in time")]
    Slow,
    /// A record has a word that this build does not know.
    #[error("this build cannot read a record: {0}")]
    Unreadable(String),
}

impl ReadError {
    /// The server's words, where it refuses the values of the statement: asking again would not
    /// help.
    pub fn refusal(&self) -> Option<String> {
        match self {
            Self::Database(error) if classify(error) == ErrorClass::Refused => {
                Some(describe(error))
            }
            Self::Database(_) | Self::Unreachable(_) | Self::Slow | Self::Unreadable(_) => None,
        }
    }
}

impl Cell {
    /// Reads the address, connects once, and checks what the promises rest on.
    pub async fn connect(url: &str, options: CellOptions) -> Result<Self, ConnectError> {
        let mut config = read_address(url)?;
        config.connect_timeout(CONNECT_PATIENCE * options.read_slack);
        // Another part of the process may have installed the provider before; either is ours.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let tls = ClientConfig::with_platform_verifier().map_err(ConnectError::Tls)?;
        let tls = MakeRustlsConnect::new(tls);
        let connector = Connector {
            config,
            tls,
            schema: LIVE_SCHEMA.to_owned(),
            accept_unsafe: options.accept_unsafe,
            read_slack: options.read_slack,
        };
        let cell = Self {
            shared: Arc::new(Shared::new(&connector, options.engine_connections)),
            for_people: false,
            connector,
            options,
        };
        let wire = cell.connector.open().await;
        let wire = wire.map_err(ConnectError::Unreachable)?;
        cell.assert_durable(&wire.client).await?;
        Ok(cell)
    }

    /// The same cell for requests: its reads have a pool of their own, can change nothing, and are
    /// cancelled when the request is dropped.
    #[must_use]
    pub fn for_people(&self) -> Self {
        Self {
            for_people: true,
            ..self.clone()
        }
    }

    /// A pooled connection, returned when dropped.
    pub async fn reader(&self) -> Result<PooledClient, ReadError> {
        let pool = match self.for_people {
            true => &self.shared.people,
            false => &self.shared.engine,
        };
        self.pooled(pool).await
    }

    /// A pooled connection for what reads the rows of all slots. Those of requests have a pool of their own.
    pub(crate) async fn lister(&self) -> Result<PooledClient, ReadError> {
        let pool = match self.for_people {
            true => &self.shared.lists,
            false => &self.shared.engine,
        };
        self.pooled(pool).await
    }

    async fn pooled(&self, pool: &Pool) -> Result<PooledClient, ReadError> {
        let cancels_by = self.for_people.then(|| self.connector.tls.clone());
        let object = pool.get().await.map_err(ReadError::Unreachable)?;
        Ok(PooledClient::new(object, cancels_by))
    }

    /// The connection that renews the session, and does nothing else.
    pub(crate) fn renewal(&self) -> &Lane {
        &self.shared.renewal
    }

    /// The connection that frees the runs of lost sessions and hands in what came too late.
    pub(crate) fn recovery(&self) -> &Lane {
        &self.shared.recovery
    }

    /// How many callers wait until a transition of theirs is recorded.
    pub(crate) fn recording(&self) -> &Arc<AtomicUsize> {
        &self.shared.recording
    }

    /// What the operator chose.
    pub fn options(&self) -> &CellOptions {
        &self.options
    }

    pub(crate) fn connector(&self) -> &Connector {
        &self.connector
    }

    async fn assert_durable(&self, client: &Client) -> Result<(), ConnectError> {
        let Err(error) = client.batch_execute(ASSERT_DURABLE).await else {
            return Ok(());
        };
        let Some(Unsafe {
            setting,
            value,
            fix,
        }) = Unsafe::of(&error)
        else {
            return Err(ConnectError::Unreachable(error));
        };
        if !self.options.accept_unsafe {
            return Err(ConnectError::Unsafe {
                setting,
                value,
                fix,
            });
        }
        tracing::warn!(
            setting,
            value,
            "the database could lose what it acknowledged"
        );
        Ok(())
    }
}

impl Cell {
    /// Where the database listens, by name and port; a socket has neither.
    pub fn hosts(&self) -> Vec<(String, u16)> {
        let config = &self.connector.config;
        let ports = config.get_ports();
        let port = |index: usize| ports.get(index).or(ports.first()).copied().unwrap_or(5432);
        let hosts = config.get_hosts().iter().enumerate();
        hosts
            .filter_map(|(index, host)| match host {
                Host::Tcp(name) => Some((name.clone(), port(index))),
                Host::Unix(_) => None,
            })
            .collect()
    }
}

impl Shared {
    /// With so many connections for the engine's work at the most.
    fn new(connector: &Connector, most: usize) -> Self {
        let pool = |session, size, wait| pool::pool(connector, session, size, wait);
        Self {
            engine: pool(Session::Engine, most, ENGINE_WAIT_MAX),
            people: pool(Session::People, PEOPLE_CONNECTIONS_MAX, PEOPLE_WAIT_MAX),
            lists: pool(Session::List, LIST_CONNECTIONS_MAX, PEOPLE_WAIT_MAX),
            renewal: Lane::new(connector),
            recovery: Lane::new(connector),
            recording: Arc::default(),
        }
    }
}

fn read_address(url: &str) -> Result<Config, ConnectError> {
    let mut config: Config = url.parse().map_err(ConnectError::Address)?;
    config.application_name("semel");
    config.tcp_user_timeout(Duration::from_secs(10));
    config.keepalives_idle(Duration::from_secs(10));
    if config.get_ssl_mode() == SslMode::Prefer
        && let Some(host) = config.get_hosts().iter().find_map(distant)
    {
        return Err(ConnectError::InTheClear { host });
    }
    Ok(config)
}

fn distant(host: &Host) -> Option<String> {
    match host {
        Host::Unix(_) => None,
        Host::Tcp(name) if name == "localhost" => None,
        Host::Tcp(name) => match name.parse::<std::net::IpAddr>() {
            Ok(address) if address.is_loopback() => None,
            Ok(_) | Err(_) => Some(name.clone()),
        },
    }
}
