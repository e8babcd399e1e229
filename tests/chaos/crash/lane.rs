//! A lane: a database, the destinations of a table, and the server that takes over. Each lane has
//! its own database, because faults reach as far as PostgreSQL itself.

use anyhow::Result;
use semel_testkit::{Cluster, Options, Program, Proxy, patience};

use super::fault::Fault;
use super::table::Table;
use crate::harness::Harness;
use crate::servers::{Home, Served, faults, serve};

/// Where cells of one fault are played, one round after another.
pub(crate) struct Lane<T> {
    pub(crate) table: T,
    pub(crate) fault: Fault,
    pub(crate) cluster: Cluster,
    /// Between the first server and PostgreSQL.
    pub(crate) proxy: Proxy,
    pub(crate) home: Home,
    /// Takes over what the first server leaves.
    pub(crate) second: Served,
    pub(crate) rounds: u32,
    pub(crate) mistake: Option<&'static str>,
}

impl<T: Table> Lane<T> {
    pub(crate) async fn start(
        table: T,
        fault: Fault,
        mistake: Option<&'static str>,
    ) -> Result<Self> {
        let cluster = Cluster::start(Options::quick()).await?;
        let proxy = Proxy::start(cluster.server().address()).await?;
        let home = Home::found(cluster.server()).await?;
        let second = serve(second(&table, mistake)?, &home.url(), &lease(fault, 0)).await?;
        table.introduce(&home, &second).await?;
        Ok(Self {
            table,
            fault,
            cluster,
            proxy,
            home,
            second,
            rounds: 0,
            mistake,
        })
    }

    /// Replaces the server that takes over by one whose lease fits the setting of a round.
    pub(crate) async fn replace_second(&mut self, setting: u32) -> Result<()> {
        let program = second(&self.table, self.mistake)?;
        self.second.process.sigterm()?;
        self.second.process.until_exit(patience()).await?;
        self.second = serve(program, &self.home.url(), &lease(self.fault, setting)).await?;
        Ok(())
    }

    /// Starts the server that the fault will strike.
    pub(crate) async fn start_first(&self, harness: &Harness, setting: u32) -> Result<Served> {
        let program = faults()?.env("SEMEL_FAULTS", harness.socket());
        let mut program = self.table.equip(program);
        if let Some(mistake) = self.mistake {
            program = program.env("SEMEL_SEEDED_BUG", mistake);
        }
        let database = self.home.url_at(self.proxy.address());
        serve(program, &database, &lease(self.fault, setting)).await
    }
}

/// The server that takes over. Where nothing is wrong on purpose, it is the product as it is shipped.
fn second<T: Table>(table: &T, mistake: Option<&'static str>) -> Result<Program> {
    let program = match mistake {
        Some(mistake) => faults()?.env("SEMEL_SEEDED_BUG", mistake),
        None => Program::semel()?,
    };
    Ok(table.equip(program))
}

/// The lease of the servers. It doubles with every setting of a round.
fn lease(fault: Fault, setting: u32) -> String {
    format!("{}s", fault.lease_secs() << setting)
}
