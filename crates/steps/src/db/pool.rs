//! Connections to the databases of others: one pool per identity of a destination.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use deadpool::managed::{self, PoolError};
use rustls::ClientConfig;
use semel_model::connection::{PostgresTarget, Tls};
use semel_model::{Fault, FaultKind};
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::link::{Dialer, Place};
use crate::destination::{Destination, Identity};
use crate::egress::Egress;
use crate::tls;
use crate::wire::LargeAnswers;

/// A connection of a pool, returned to it when dropped.
pub(super) type Object = managed::Object<Dialer>;

type Pool = managed::Pool<Dialer>;

/// The most destinations whose connections are kept; those of all others are closed.
const POOLS_MAX: usize = 1_024;

/// The pools of all destinations.
pub(super) struct Pools {
    egress: Arc<Egress>,
    answers: Arc<LargeAnswers>,
    pools: Mutex<HashMap<(i32, String), PooledConnection>>,
}

/// The pool of one destination, pinned to a place that was checked.
struct PooledConnection {
    identity: Identity,
    place: Place,
    pool: Pool,
}

impl Pools {
    pub(super) fn new(egress: Arc<Egress>) -> Self {
        Self {
            egress,
            answers: Arc::default(),
            pools: Mutex::default(),
        }
    }

    /// A connection that was just seen to work, returned to its pool when dropped.
    pub(super) async fn client(
        &self,
        to: &Destination,
        target: &PostgresTarget,
    ) -> Result<Object, Fault> {
        let place = self.resolve(to, target).await?;
        let pool = self.pool(to, target, place)?;
        pool.get().await.map_err(|error| match error {
            PoolError::Backend(fault) => fault,
            PoolError::Timeout(_)
            | PoolError::Closed
            | PoolError::NoRuntimeSpecified
            | PoolError::PostCreateHook(_) => {
                Fault::passing("no-connection", "the pool has no connection")
            }
        })
    }

    /// The place that may be connected to.
    async fn resolve(&self, to: &Destination, target: &PostgresTarget) -> Result<Place, Fault> {
        let (host, port) = (&target.host, target.port);
        if host.starts_with('/') {
            return self
                .egress
                .resolve_socket(host, port)
                .await
                .map(Place::Socket);
        }
        let addresses = self.egress.resolve(to.namespace_id, host, port).await;
        addresses.map(Place::Addresses)
    }

    /// The destination's pool. One that was something else is left to those who still use it, and so is
    /// one whose addresses the host no longer has.
    fn pool(&self, to: &Destination, target: &PostgresTarget, place: Place) -> Result<Pool, Fault> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let name = (to.namespace_id, to.name.clone());
        if let Some(found) = pools.get(&name)
            && found.identity == to.identity()
            && found.place.is_within(&place)
        {
            return Ok(found.pool.clone());
        }
        if pools.len() >= POOLS_MAX {
            pools.clear();
        }
        let pool = self.open(to, target, place.clone())?;
        let opened = PooledConnection {
            identity: to.identity(),
            place,
            pool: pool.clone(),
        };
        pools.insert(name, opened);
        Ok(pool)
    }

    fn open(&self, to: &Destination, target: &PostgresTarget, place: Place) -> Result<Pool, Fault> {
        let tls = match target.tls {
            Tls::Off => None,
            Tls::Required | Tls::Starttls => {
                Some(MakeRustlsConnect::new(trusting(target.trust.as_deref())?))
            }
        };
        let dialer = Dialer {
            config: configure(to, target)?,
            place,
            host: target.host.clone(),
            tls,
            egress: self.egress.clone(),
            namespace_id: to.namespace_id,
            answers: self.answers.clone(),
        };
        let concurrency = usize::try_from(to.connection.limits.concurrency).unwrap_or(usize::MAX);
        let built = Pool::builder(dialer).max_size(concurrency.max(1)).build();
        built.map_err(|error| {
            Fault::permanent("connection-unfit", error.to_string()).of(FaultKind::Unfit)
        })
    }
}

fn configure(to: &Destination, target: &PostgresTarget) -> Result<Config, Fault> {
    let mut config = Config::new();
    config
        .dbname(&target.database)
        .user(&target.user)
        .application_name("semel")
        .ssl_mode(match target.tls {
            Tls::Required | Tls::Starttls => SslMode::Require,
            Tls::Off => SslMode::Disable,
        });
    if let Some(secret) = &target.secret {
        config.password(to.secret(secret)?.reveal());
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
