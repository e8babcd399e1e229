//! Connections to the databases of others: one pool per version of a destination.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod};
use rustls::ClientConfig;
use semel_model::connection::{PostgresTarget, Tls};
use semel_model::{Fault, FaultKind};
use tokio_postgres::config::SslMode;
use tokio_postgres::{Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::classify;
use crate::destination::Destination;
use crate::egress::{self, Egress};
use crate::tls;

/// How long a connection may take to stand.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// How long sent bytes may stay unacknowledged before the connection counts as broken.
const WIRE_PATIENCE: Duration = Duration::from_secs(10);

/// The most destinations whose connections are kept; those of all others are closed.
const POOLS_MAX: usize = 1_024;

/// The pools of all destinations.
pub(super) struct Pools {
    egress: Arc<Egress>,
    pools: Mutex<HashMap<(i32, String), PooledConnection>>,
}

/// The pool of one destination, pinned to addresses that were checked.
struct PooledConnection {
    version: i64,
    addresses: Vec<SocketAddr>,
    pool: Pool,
}

impl Pools {
    pub(super) fn new(egress: Arc<Egress>) -> Self {
        Self {
            egress,
            pools: Mutex::default(),
        }
    }

    /// A connection that was just seen to work, returned to its pool when dropped.
    pub(super) async fn client(
        &self,
        to: &Destination,
        target: &PostgresTarget,
    ) -> Result<Object, Fault> {
        let addresses = self.resolve(to, target).await?;
        let pool = self.pool(to, target, addresses)?;
        pool.get().await.map_err(|error| match error {
            PoolError::Backend(error) => classify::fault(error),
            PoolError::Timeout(_)
            | PoolError::Closed
            | PoolError::NoRuntimeSpecified
            | PoolError::PostCreateHook(_) => Fault::passing("no-connection", error.to_string()),
        })
    }

    /// Addresses that may be connected to; none for a socket, which is this machine's own.
    async fn resolve(
        &self,
        to: &Destination,
        target: &PostgresTarget,
    ) -> Result<Vec<SocketAddr>, Fault> {
        if !target.host.starts_with('/') {
            return self
                .egress
                .resolve(to.namespace_id, &target.host, target.port)
                .await;
        }
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, target.port));
        match self.egress.admits(here) {
            true => Ok(Vec::new()),
            false => Err(egress::refused(&target.host)),
        }
    }

    /// The destination's pool. One of another version is left to those who still use it, and so is
    /// one whose addresses the host no longer has.
    fn pool(
        &self,
        to: &Destination,
        target: &PostgresTarget,
        addresses: Vec<SocketAddr>,
    ) -> Result<Pool, Fault> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let name = (to.namespace_id, to.name.clone());
        if let Some(found) = pools.get(&name)
            && found.version == to.version
            && found
                .addresses
                .iter()
                .all(|address| addresses.contains(address))
        {
            return Ok(found.pool.clone());
        }
        if pools.len() >= POOLS_MAX {
            pools.clear();
        }
        let pool = open(to, target, &addresses)?;
        let version = to.version;
        let opened = PooledConnection {
            version,
            addresses,
            pool: pool.clone(),
        };
        pools.insert(name, opened);
        Ok(pool)
    }
}

fn open(to: &Destination, target: &PostgresTarget, at: &[SocketAddr]) -> Result<Pool, Fault> {
    let config = configure(to, target, at)?;
    // Whatever an earlier statement left in its session (a search path, a role, a temporary table)
    // must not lead the next effect's marker elsewhere. It also notices connections that the server
    // has closed.
    let recycling = ManagerConfig {
        recycling_method: RecyclingMethod::Custom("DISCARD ALL".to_owned()),
    };
    let manager = match target.tls {
        Tls::Off => Manager::from_config(config, NoTls, recycling),
        Tls::Required | Tls::Starttls => {
            let tls = MakeRustlsConnect::new(trusting(target.trust.as_deref())?);
            Manager::from_config(config, tls, recycling)
        }
    };
    let concurrency = usize::try_from(to.connection.limits.concurrency).unwrap_or(usize::MAX);
    let built = Pool::builder(manager).max_size(concurrency.max(1)).build();
    built.map_err(|error| {
        Fault::permanent("connection-unfit", error.to_string()).of(FaultKind::Unfit)
    })
}

fn configure(
    to: &Destination,
    target: &PostgresTarget,
    at: &[SocketAddr],
) -> Result<Config, Fault> {
    let mut config = Config::new();
    config
        .dbname(&target.database)
        .user(&target.user)
        .port(target.port)
        .application_name("semel")
        .connect_timeout(CONNECT_PATIENCE)
        .tcp_user_timeout(WIRE_PATIENCE)
        .keepalives_idle(WIRE_PATIENCE)
        .ssl_mode(match target.tls {
            Tls::Required | Tls::Starttls => SslMode::Require,
            Tls::Off => SslMode::Disable,
        });
    if let Some(secret) = &target.secret {
        config.password(to.secret(secret)?.reveal());
    }
    if at.is_empty() {
        config.host(&target.host);
    }
    // The name is for the certificate alone: what is connected to was checked.
    for address in at {
        config.host(&target.host).hostaddr(address.ip());
    }
    Ok(config)
}

/// Trusts what the system trusts, and the owner's certificates besides.
fn trusting(pem: Option<&str>) -> Result<ClientConfig, Fault> {
    let unfit = |what: &str, error: &dyn std::fmt::Display| {
        Fault::permanent("connection-unfit", format!("{what}: {error}")).of(FaultKind::Unfit)
    };
    let extra = match pem {
        Some(pem) => tls::read_certificates(pem),
        None => Ok(Vec::new()),
    };
    let extra = extra.map_err(|error| unfit("`trust` is no PEM", &error))?;
    let config = tls::trusting(extra).map_err(|error| unfit("cannot set up TLS", &error))?;
    Ok(config.with_no_client_auth())
}
