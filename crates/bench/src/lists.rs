//! What every list, look-up and page costs with as many runs as a long life leaves.
//!
//! Against a database that `semel-bench fill` made, or one of its own, the real server answers every
//! `GET` of its API and every page of its console, one call at a time. Then it may be watched at its own work.

mod addresses;
mod own_work;
mod report;
mod samples;
mod statements;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use semel_testkit::semel::serve;
use semel_testkit::{Cluster, Process, Program};
use serde_json::Value;
use tokio_postgres::Client;

use self::addresses::Address;
use self::report::{Line, Size};
use self::samples::Samples;
use self::statements::Counter;
use crate::caller::{Caller, Who};
use crate::fill::{self, Filling};
use crate::profile;

/// How many calls come before those that count.
const WARM_UP: usize = 5;

/// An address that takes long is called for so long, and so many times at least.
const LONG: Duration = Duration::from_secs(30);
const CALLS_MIN: usize = 10;

/// How long a command of the product may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The tokens that are made for the measurement.
const TOKEN: &str = "lists";
const QUIET_TOKEN: &str = "lists-quiet";

/// Nobody asks in the namespace with few runs otherwise: its token is one that was moved there.
const MOVE_TOKEN: &str = "
    UPDATE tokens SET namespace_id = (SELECT id FROM namespaces WHERE name = 'quiet')
     WHERE name = $1 AND namespace_id = (SELECT id FROM namespaces WHERE name = 'default')";

const UNSEALED: &str = "SELECT (SELECT count(*) FROM audit) - (SELECT count(*) FROM audit_chain)";

/// How long the server may take to seal everything.
const SEAL_PATIENCE_SECS: u32 = 300;

/// As the statistics say: counting would take longer than everything else.
const SIZE: &str = "
    SELECT (SELECT sum(c.reltuples)::int8 FROM pg_class c WHERE c.relname = 'runs'),
           (SELECT sum(c.reltuples)::int8 FROM pg_class c
             WHERE c.relkind = 'r' AND c.relname LIKE 'effects\\_%'),
           (SELECT sum(c.reltuples)::int8 FROM pg_class c WHERE c.relname = 'duplicates'),
           pg_database_size(current_database())";

/// Measures every list, look-up and page.
#[derive(Debug, clap::Args)]
pub(crate) struct Listing {
    /// A database that `semel-bench fill` made.
    #[arg(long, value_name = "URL", required_unless_present = "runs")]
    database: Option<String>,
    /// Fill a database of its own with so many runs, and remove it afterwards.
    #[arg(long, conflicts_with = "database")]
    runs: Option<u64>,
    /// With --runs: fewer, if there is room only for fewer.
    #[arg(long, requires = "runs")]
    as_fits: bool,
    /// The product's binary; the one that was built beside this tool, unless it is named.
    #[arg(long, value_name = "PATH")]
    semel: Option<PathBuf>,
    /// 20 calls of each instead of 200.
    #[arg(long)]
    quick: bool,
    /// Only addresses that contain this.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Where to write the table.
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Then watch the server's own work for three minutes. It moves runs that are due and deletes what has expired, so
    /// that the database is not fit for lists afterwards.
    #[arg(long)]
    own_work: bool,
    /// Fail when a limit is exceeded.
    #[arg(long)]
    strict: bool,
}

/// Measures. Returns whether everything is within the limits, as far as that is asked for.
pub(crate) async fn run(listing: &Listing) -> Result<bool> {
    let Some(runs) = listing.runs else {
        let url = listing.database.as_deref().unwrap_or_default();
        return measure(listing, url).await;
    };
    let runs = match listing.as_fits {
        true => as_many_as_fit(runs),
        false => runs,
    };
    let cluster =
        Cluster::start(profile::options().with("pg_stat_statements.track_utility", "off")).await?;
    let admin = cluster.server().connect("postgres").await?;
    admin.batch_execute("CREATE DATABASE lists").await?;
    let url = cluster.server().url("lists");
    let filling = Filling {
        database: url.clone(),
        runs,
        seed: 1,
        semel: listing.semel.clone(),
    };
    fill::run(&filling).await?;
    measure(listing, &url).await
}

/// So many runs, or half as many until there is room for them.
fn as_many_as_fit(wanted: u64) -> u64 {
    let Some(free) = fill::space::free(&std::env::temp_dir()) else {
        return wanted;
    };
    let mut runs = wanted;
    while runs > 1 && fill::space::needed(runs) > free {
        runs /= 2;
    }
    runs
}

async fn measure(listing: &Listing, url: &str) -> Result<bool> {
    let client = fill::connect(url).await?;
    let samples = Samples::choose(&client).await?;
    let token = make_token(listing, url, TOKEN).await?;
    let quiet_token = make_token(listing, url, QUIET_TOKEN).await?;
    client.execute(MOVE_TOKEN, &[&QUIET_TOKEN]).await?;
    // Without workers: nothing may change what is listed.
    let (process, address) =
        serve(listing.program()?, url, "127.0.0.1:0", &["--capacity", "0"]).await?;
    let mut caller = Caller::new(address, &token);
    caller.sign_in().await?;
    let quiet = Caller::new(address, &quiet_token);
    let document: Value = caller.read("/v1/openapi.json").await?;
    until_sealed(&client).await?;
    let counter = Counter::start(fill::connect(url).await?).await?;
    let mut bench = Bench {
        listing,
        counter,
        process,
        lines: Vec::new(),
    };
    for address in addresses::all(&document, &samples)? {
        bench.measure(&caller, &address).await?;
    }
    for address in addresses::quiet() {
        bench.measure(&quiet, &address).await?;
    }
    bench.finish(url, &client).await
}

/// Waits until the server has sealed the acts that it found: it does not do so all day.
async fn until_sealed(client: &Client) -> Result<()> {
    for _ in 0..SEAL_PATIENCE_SECS {
        if client.query_one(UNSEALED, &[]).await?.get::<_, i64>(0) == 0 {
            client.batch_execute("VACUUM ANALYZE audit_chain").await?;
            return Ok(());
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    anyhow::bail!("the acts of the audit record are not sealed: look at the server's log")
}

/// Makes a token as an operator with the database does.
async fn make_token(listing: &Listing, url: &str, name: &str) -> Result<String> {
    let arguments = [
        "token",
        "create",
        name,
        "--all-rights",
        "--json",
        "--database",
        url,
    ];
    let made = listing.program()?.args(arguments).run(PATIENCE).await?;
    ensure!(made.status.success(), "no token: {}", made.stderr);
    let answer: Value = serde_json::from_str(&made.stdout)?;
    let token = answer["data"]["token"].as_str().context("a token")?;
    Ok(token.to_owned())
}

impl Listing {
    fn program(&self) -> Result<Program> {
        match &self.semel {
            Some(path) => Ok(Program::semel_at(path)),
            None => Program::semel(),
        }
    }

    fn calls(&self) -> usize {
        match self.quick {
            true => 20,
            false => 200,
        }
    }
}

/// The server under measurement, and what was measured.
struct Bench<'a> {
    listing: &'a Listing,
    counter: Counter,
    process: Process,
    lines: Vec<Line>,
}

impl Bench<'_> {
    async fn measure(&mut self, caller: &Caller, address: &Address) -> Result<()> {
        if let Some(only) = &self.listing.only
            && !address.shown.contains(only.as_str())
        {
            return Ok(());
        }
        let body = self
            .measure_path(caller, address.who, &address.path, address.shown.clone())
            .await?;
        if !address.has_next {
            return Ok(());
        }
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        if let Some(next) = body["cursor"].as_str() {
            let sign = if address.path.contains('?') { '&' } else { '?' };
            let path = format!("{}{sign}cursor={next}", address.path);
            let shown = format!("{}, the next page", address.shown);
            self.measure_path(caller, address.who, &path, shown).await?;
        }
        Ok(())
    }

    /// Calls one address, again and again. Returns the body of its answer.
    async fn measure_path(
        &mut self,
        caller: &Caller,
        who: Who,
        path: &str,
        shown: String,
    ) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        for _ in 0..WARM_UP {
            let answer = caller.get(who, path).await?;
            let is_there = [200, 404].contains(&answer.status.as_u16());
            ensure!(
                is_there,
                "{path}: {} {}\nthe server's last words:\n{}",
                answer.status,
                answer.text(),
                self.process.stderr()
            );
            body = answer.body.to_vec();
        }
        let calls = self.listing.calls();
        let begun = self.counter.begin().await?;
        let mut times = Vec::with_capacity(calls);
        while times.len() < calls && (times.len() < CALLS_MIN || begun.elapsed() < LONG) {
            let asked = Instant::now();
            caller.get(who, path).await?;
            times.push(asked.elapsed().as_secs_f64() * 1e3);
        }
        let cost = self.counter.end(begun, times.len()).await?;
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
        let line = Line {
            shown,
            p50_ms: at(0.5),
            p95_ms: at(0.95),
            bytes: body.len(),
            cost,
        };
        eprintln!(
            "{:>8.1} {:>8.1} ms {:>3} statements {:>7} buffers  {} {}",
            line.p50_ms,
            line.p95_ms,
            line.cost.statements,
            line.cost.buffers,
            line.shown,
            line.over().join(", ")
        );
        if !line.over().is_empty() {
            eprintln!("         {}", line.cost.costliest);
        }
        self.lines.push(line);
        Ok(body)
    }

    async fn finish(self, url: &str, client: &Client) -> Result<bool> {
        let row = client.query_one(SIZE, &[]).await?;
        let size = Size {
            runs: row.get(0),
            effects: row.get(1),
            duplicates: row.get(2),
            bytes: row.get(3),
            calls: self.listing.calls(),
        };
        let mut page = report::page(&size, &self.lines);
        let mut is_within = self.lines.iter().all(|line| line.over().is_empty());
        if self.listing.own_work {
            // The next server is watched alone, and from its start.
            drop(self.process);
            let costs = own_work::watch(self.listing, url, client).await?;
            page.push_str(&report::of_own_work(&costs));
            is_within &= costs.iter().all(|cost| report::over(cost).is_empty());
        }
        if let Some(path) = &self.listing.page {
            let written = std::fs::write(path, &page);
            written.with_context(|| format!("cannot write {}", path.display()))?;
        }
        print(&page);
        Ok(is_within || !self.listing.strict)
    }
}

#[expect(clippy::print_stdout, reason = "the table is what the tool is for")]
fn print(page: &str) {
    println!("{page}");
}
