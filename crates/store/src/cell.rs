//! One PostgreSQL: how to reach it, and what it must promise before it is used.

use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod};
use rustls::ClientConfig;
use rustls_platform_verifier::ConfigVerifierExt;
use tokio::task::AbortHandle;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::link::{Trouble, trouble};
use crate::writer::describe;

/// How many connections serve reads, besides the writers' own.
const READ_CONNECTIONS_MAX: usize = 8;

/// Settings of the sessions that write. Hash and merge joins are off because every hot statement
/// joins an array of identities to a primary key: the plan must stay the same whether the table
/// has ten rows or ten million, and rows must be locked in the array's order.
pub(crate) const WRITER_SESSION: &str = "
    SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_seqscan = off;
    SET jit = off; SET statement_timeout = '15s'; SET lock_timeout = '5s';
    SET idle_in_transaction_session_timeout = '2s';
    SET plan_cache_mode = force_generic_plan";

const READER_SESSION: &str = "
    SET jit = off; SET statement_timeout = '15s'; SET idle_in_transaction_session_timeout = '10s'";

/// What an operator may choose about a cell.
#[derive(Clone, Debug)]
pub struct CellOptions {
    /// Lets a database that may lose acknowledged commits be used all the same.
    pub accept_unsafe: bool,
    /// How long a write may stay unanswered before its connection is given up and the write is
    /// submitted again. Safe, because every write is fenced.
    pub write_patience: Duration,
    /// How long a write is submitted again before its caller is told that the database is away.
    pub write_give_up: Duration,
}

impl Default for CellOptions {
    fn default() -> Self {
        Self {
            accept_unsafe: false,
            write_patience: Duration::from_secs(10),
            write_give_up: Duration::from_secs(30),
        }
    }
}

/// One PostgreSQL that owns slots.
#[derive(Clone)]
pub struct Cell {
    config: Config,
    tls: MakeRustlsConnect,
    pool: Pool,
    options: CellOptions,
}

/// A connection and the task that moves its bytes. Dropping it closes the socket at once, even
/// when the server never answers.
pub(crate) struct Wire {
    pub(crate) client: Client,
    pump: AbortHandle,
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.pump.abort();
    }
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
    /// A server far away would be spoken to in the clear.
    #[error(
        "the database at {host} is not on this machine: add sslmode=require, or sslmode=disable if the network is yours alone"
    )]
    InTheClear {
        /// The host.
        host: String,
    },
    /// Nobody answers, or the server refused.
    #[error("cannot connect to the database")]
    Unreachable(#[source] tokio_postgres::Error),
    /// The server could lose what it acknowledged.
    #[error("the database has {setting} = {value}, so it could lose what it acknowledged; {mend}")]
    Unsafe {
        /// The setting.
        setting: &'static str,
        /// What it is.
        value: String,
        /// What to do.
        mend: &'static str,
    },
}

/// A read did not succeed; nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// No connection is to be had.
    #[error("cannot reach the database")]
    Unreachable(#[source] deadpool_postgres::PoolError),
    /// The statement failed.
    #[error("the database refused a statement")]
    Database(#[from] tokio_postgres::Error),
}

impl ReadError {
    /// The server's words, where it refuses the values of the statement: asking again would not
    /// help.
    pub fn refusal(&self) -> Option<String> {
        match self {
            Self::Database(error) if trouble(error) == Trouble::Refused => Some(describe(error)),
            Self::Database(_) | Self::Unreachable(_) => None,
        }
    }
}

impl Cell {
    /// Reads the address, connects once, and checks what the promises rest on.
    pub async fn connect(url: &str, options: CellOptions) -> Result<Self, ConnectError> {
        let config = read_address(url)?;
        // Another part of the process may have installed the provider before; either is ours.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let tls = ClientConfig::with_platform_verifier().map_err(ConnectError::Tls)?;
        let tls = MakeRustlsConnect::new(tls);
        let pool = read_pool(&config, &tls);
        let cell = Self {
            config,
            tls,
            pool,
            options,
        };
        let wire = cell.open().await.map_err(ConnectError::Unreachable)?;
        cell.assert_durable(&wire.client).await?;
        Ok(cell)
    }

    /// A connection for reads, returned to the pool when dropped.
    pub async fn reader(&self) -> Result<Object, ReadError> {
        self.pool.get().await.map_err(ReadError::Unreachable)
    }

    /// What the operator chose.
    pub fn options(&self) -> &CellOptions {
        &self.options
    }

    /// A connection of its own for a writer.
    pub(crate) async fn open_writer(&self) -> Result<Wire, tokio_postgres::Error> {
        let wire = self.open().await?;
        wire.client.batch_execute(WRITER_SESSION).await?;
        Ok(wire)
    }

    pub(crate) async fn open(&self) -> Result<Wire, tokio_postgres::Error> {
        let (client, connection) = self.config.connect(self.tls.clone()).await?;
        let pump = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a database connection ended");
            }
        });
        Ok(Wire {
            client,
            pump: pump.abort_handle(),
        })
    }

    async fn assert_durable(&self, client: &Client) -> Result<(), ConnectError> {
        let row = client
            .query_one(
                "SELECT current_setting('fsync'), current_setting('full_page_writes'),
                        current_setting('synchronous_commit'), pg_is_in_recovery()::text",
                &[],
            )
            .await
            .map_err(ConnectError::Unreachable)?;
        let rules: [(&'static str, usize, &[&str], &'static str); 4] = [
            ("fsync", 0, &["on"], "set it to on"),
            ("full_page_writes", 1, &["on"], "set it to on"),
            (
                "synchronous_commit",
                2,
                &["on", "remote_apply"],
                "set it to on or remote_apply",
            ),
            ("pg_is_in_recovery", 3, &["false"], "connect to the primary"),
        ];
        for (setting, column, allowed, mend) in rules {
            let value: String = row.get(column);
            if !allowed.contains(&value.as_str()) {
                if !self.options.accept_unsafe {
                    return Err(ConnectError::Unsafe {
                        setting,
                        value,
                        mend,
                    });
                }
                tracing::warn!(
                    setting,
                    value,
                    "the database could lose what it acknowledged"
                );
            }
        }
        Ok(())
    }
}

impl Cell {
    /// Where the database listens, by name and port; a socket has neither.
    pub fn hosts(&self) -> Vec<(String, u16)> {
        let ports = self.config.get_ports();
        let port = |index: usize| ports.get(index).or(ports.first()).copied().unwrap_or(5432);
        let hosts = self.config.get_hosts().iter().enumerate();
        hosts
            .filter_map(|(index, host)| match host {
                Host::Tcp(name) => Some((name.clone(), port(index))),
                Host::Unix(_) => None,
            })
            .collect()
    }
}

fn read_address(url: &str) -> Result<Config, ConnectError> {
    let mut config: Config = url.parse().map_err(ConnectError::Address)?;
    config.application_name("semel");
    config.connect_timeout(Duration::from_secs(5));
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

fn read_pool(config: &Config, tls: &MakeRustlsConnect) -> Pool {
    // Verified recycling notices dead sockets and sessions that were left in a transaction.
    let recycling = ManagerConfig {
        recycling_method: RecyclingMethod::Verified,
    };
    let manager = Manager::from_config(config.clone(), tls.clone(), recycling);
    let build = Pool::builder(manager)
        .max_size(READ_CONNECTIONS_MAX)
        .post_create(deadpool_postgres::Hook::async_fn(|client, _| {
            Box::pin(async move {
                client
                    .batch_execute(READER_SESSION)
                    .await
                    .map_err(deadpool_postgres::HookError::Backend)
            })
        }))
        .build();
    match build {
        Ok(pool) => pool,
        Err(error) => unreachable!("a pool without timeouts needs no runtime: {error}"),
    }
}
