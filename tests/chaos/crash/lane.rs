//! A lane: a database, a destination, and the server that takes over. Each lane has its own,
//! because faults reach as far as PostgreSQL itself.

use anyhow::Result;
use semel_testkit::{Cluster, Options, Peer, Program, Proxy};

use super::cell::{Fault, GUARDS};
use crate::harness::Harness;
use crate::servers::{Home, Served, faults, serve};

/// Where cells of one fault are played, one round after another.
pub(crate) struct Lane {
    pub(crate) fault: Fault,
    pub(crate) cluster: Cluster,
    /// Between the first server and PostgreSQL.
    pub(crate) proxy: Proxy,
    pub(crate) home: Home,
    pub(crate) peer: Peer,
    /// Takes over what the first server leaves.
    pub(crate) second: Served,
    pub(crate) rounds: u32,
    mistake: Option<String>,
}

impl Lane {
    pub(crate) async fn start(fault: Fault, mistake: Option<&str>) -> Result<Self> {
        let cluster = Cluster::start(Options::quick()).await?;
        let proxy = Proxy::start(cluster.server().address()).await?;
        let home = Home::found(cluster.server()).await?;
        let peer = Peer::start().await?;
        // Where nothing is wrong on purpose, what takes over is the product as it is shipped.
        let program = match mistake {
            Some(mistake) => faults()?.env("SEMEL_SEEDED_BUG", mistake),
            None => Program::semel()?,
        };
        let second = serve(program, &home.url(), lease(fault)).await?;
        for guard in GUARDS {
            for opens in [false, true] {
                let flow = guard.flow(&peer.url(""), opens);
                let name = guard.flow_name(opens);
                home.publish(&second, &name, &flow).await?;
            }
        }
        Ok(Self {
            fault,
            cluster,
            proxy,
            home,
            peer,
            second,
            rounds: 0,
            mistake: mistake.map(str::to_owned),
        })
    }

    /// Starts the server that the fault will strike.
    pub(crate) async fn start_first(&self, harness: &Harness) -> Result<Served> {
        let mut program = faults()?.env("SEMEL_FAULTS", harness.socket());
        if let Some(mistake) = &self.mistake {
            program = program.env("SEMEL_SEEDED_BUG", mistake);
        }
        let database = self.home.url_at(self.proxy.address());
        serve(program, &database, lease(self.fault)).await
    }
}

/// A server that dies or sleeps is followed once its lease is over, so that lease is short. One
/// that only loses its database for a moment must not lose its lease with it.
pub(crate) fn lease(fault: Fault) -> &'static str {
    match fault {
        Fault::Kill | Fault::Pause => "2s",
        Fault::Cut | Fault::Postgres => "10s",
    }
}
