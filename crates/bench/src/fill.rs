//! A database with as many runs as a long life would have left: made by copying real ones.
//!
//! The product itself makes one run of each kind, over its API. What it wrote is read back as a pattern,
//! and copied with COPY into as many runs as are asked for, each with a key, identities and times of its
//! own. So every page shows them as it shows any run, and a change of what the engine writes needs no
//! change here.

mod around;
mod copy;
mod flows;
pub(crate) mod indexes;
mod originals;
mod plan;
mod read;
pub(crate) mod space;
mod template;

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use semel_testkit::semel::{migrate, serve};
use semel_testkit::{Peer, Program};
use tokio_postgres::{Client, NoTls};

use self::around::{Flows, Namespace};
use self::copy::Copies;
use self::originals::Stage;
use self::plan::{Kind, Plan};
use self::template::{CopyOf, Subject, Template, mix};
use crate::caller::Caller;

/// The tables that are filled without their indexes.
const LARGE: [&str; 5] = ["claims", "runs", "journal", "effects", "duplicates"];

/// How many runs are written between two looks at the time.
const STRETCH: u64 = 1_000;

/// How often progress is shown.
const SHOW_EVERY: Duration = Duration::from_secs(5);

/// How long a server may take to stop.
const STOP_PATIENCE: Duration = Duration::from_secs(60);

/// One script's work for so many runs.
const RUNS_PER_ONCE: u64 = 50;

/// The most records of each kind that surround runs.
const RECORDS_MAX: u64 = 20_000;

/// Fills an empty database with runs, for measuring lists at the size of a long life.
#[derive(Debug, clap::Args)]
pub(crate) struct Filling {
    /// The database. It must be empty: it is migrated and filled from nothing.
    #[arg(long, value_name = "URL")]
    pub(crate) database: String,
    /// How many runs.
    #[arg(long)]
    pub(crate) runs: u64,
    /// The same seed makes the same database, apart from the time that it ends at.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// The product's binary; the one that was built beside this tool, unless it is named.
    #[arg(long, value_name = "PATH")]
    pub(crate) semel: Option<PathBuf>,
}

impl Filling {
    fn program(&self) -> Result<Program> {
        match &self.semel {
            Some(path) => Ok(Program::semel_at(path)),
            None => Program::semel(),
        }
    }
}

/// Fills the database.
pub(crate) async fn run(filling: &Filling) -> Result<()> {
    let client = connect(&filling.database).await?;
    space::check(&client, filling.runs).await?;
    let taken = "SELECT to_regclass('runs') IS NOT NULL";
    let is_taken: bool = client.query_one(taken, &[]).await?.get(0);
    ensure!(
        !is_taken,
        "this database has runs already: create an empty one and name that"
    );
    eprintln!("making one run of each kind");
    play(filling, &client).await?;
    let ground = Ground::make(&client, filling).await?;
    let definitions = indexes::take_off(&client, &LARGE).await?;
    let filled = ground.copy(filling).await;
    // Also after a failure, so that what is there can be looked at.
    indexes::put_back(&client, &definitions).await?;
    filled?;
    eprintln!("making the records around them");
    let records = filling.runs.min(RECORDS_MAX) as i32;
    around::make_records(&client, ground.namespaces[0].id, records).await?;
    eprintln!("vacuum and analyze");
    client.batch_execute("VACUUM ANALYZE").await?;
    client.batch_execute("CHECKPOINT").await?;
    Ok(())
}

/// Opens a connection.
pub(crate) async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls)
        .await
        .context("cannot connect to the database: check --database")?;
    // A lost connection shows in the client's next call.
    tokio::spawn(connection);
    client.batch_execute("SET statement_timeout = 0").await?;
    Ok(client)
}

/// Lets the product make the originals.
async fn play(filling: &Filling, client: &Client) -> Result<()> {
    let url = &filling.database;
    let peer = Peer::start().await?;
    let token = migrate(filling.program()?, url).await?;
    for (capacity, has_workers) in [("64", true), ("0", false)] {
        let listen = "127.0.0.1:0";
        let arguments = ["--capacity", capacity];
        let (mut process, address) = serve(filling.program()?, url, listen, &arguments).await?;
        let caller = Caller::new(address, &token);
        let stage = Stage {
            caller: &caller,
            peer: &peer,
            client,
        };
        let played = match has_workers {
            true => match stage.publish().await {
                Ok(()) => stage.play().await,
                Err(error) => Err(error),
            },
            false => {
                let (_, flow, key) = originals::QUEUED;
                stage.start(flow, key).await.map(|_| ())
            }
        };
        played.with_context(|| format!("the server's last words:\n{}", process.stderr()))?;
        process.sigterm()?;
        process.until_exit(STOP_PATIENCE).await?;
    }
    Ok(())
}

/// Everything that copies are made of.
struct Ground {
    templates: HashMap<Kind, Template>,
    once: Vec<Template>,
    namespaces: Vec<Namespace>,
    flows: Flows,
    now: Timestamp,
}

impl Ground {
    async fn make(client: &Client, filling: &Filling) -> Result<Self> {
        around::make_partitions(client).await?;
        let templates = originals::read_all(client).await?;
        let mut once = Vec::new();
        for key in originals::ONCE {
            let namespace = "default".parse()?;
            once.push(read::read(client, &namespace, Subject::Once, key).await?);
        }
        let (namespaces, flows) = around::make_namespaces(client).await?;
        ensure!(filling.runs > 0, "--runs must be above 0");
        Ok(Self {
            templates: templates.into_iter().collect(),
            once,
            namespaces,
            flows,
            now: client.query_one("SELECT moment()", &[]).await?.get(0),
        })
    }

    async fn copy(&self, filling: &Filling) -> Result<()> {
        let plan = Plan {
            runs: filling.runs,
            seed: filling.seed,
        };
        let mut copies = Copies::open(&filling.database).await?;
        let (begun, mut shown) = (Instant::now(), Instant::now());
        for number in 0..filling.runs {
            self.write(&plan, number, &mut copies.texts)?;
            if number.is_multiple_of(STRETCH) {
                copies.send().await?;
                if shown.elapsed() >= SHOW_EVERY {
                    shown = Instant::now();
                    let rate = number as f64 / begun.elapsed().as_secs_f64();
                    eprintln!("{number} of {} runs, {rate:.0}/s", filling.runs);
                }
            }
        }
        let counts = copies.finish().await?;
        for ((table, _), count) in read::TABLES.iter().zip(counts) {
            eprintln!("{count} rows of {table}");
        }
        Ok(())
    }

    fn write(&self, plan: &Plan, number: u64, texts: &mut [String]) -> Result<()> {
        let planned = plan.run(number);
        let template = self.templates.get(&planned.kind);
        let template = template.with_context(|| format!("no original of {:?}", planned.kind))?;
        let namespace = &self.namespaces[planned.namespace];
        let Subject::Run(flow) = &template.subject else {
            anyhow::bail!("the original of {:?} is no run", planned.kind);
        };
        let of = (planned.namespace, flow.as_str().to_owned());
        let (flow_id, releases) = self.flows.get(&of).context("a flow of the namespace")?;
        let release = planned.release.min(releases.len()) - 1;
        let copy = CopyOf {
            namespace: &namespace.name,
            namespace_id: namespace.id,
            flow_id: *flow_id,
            release_id: releases[release],
            key: format!("o-{number:08}"),
            at: self.now.as_microsecond() - planned.before,
            lot: planned.lot,
        };
        template.write(&copy, texts)?;
        if number.is_multiple_of(RUNS_PER_ONCE) {
            let once = &self.once[usize::from(number.is_multiple_of(10 * RUNS_PER_ONCE))];
            let lot = mix(plan.seed, !number);
            let key = format!("once-{number:08}");
            once.write(&CopyOf { key, lot, ..copy }, texts)?;
        }
        Ok(())
    }
}
