//! The second night: a billing flow that runs every night asks for the invoice of every customer and
//! month. The destination honours no key and is only probed; servers are killed all the while. There
//! is one invoice for each customer and month, counted at the destination, also where two flows ask
//! for the same one.
//!
//! A night is a leap of the clock to the next instant of the schedule. The next one comes when the
//! runs of the night have ended: a guard that probes relies on time, so the clock leaps only while
//! nothing is being sent. A night has so many kills and is calm after them, because on a machine that is
//! slow enough each kill would undo what was reached since the one before.
//!
//! `SEMEL_NIGHTS`, `SEMEL_NIGHT_CUSTOMERS`, `SEMEL_NIGHT_KILL_MS` and `SEMEL_NIGHT_KILLS` say how many there are, how
//! often a server is killed, and how often in one night at most.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use semel_testkit::peer::Behaviour;
use semel_testkit::{Chance, Cluster, Connection, Peer, Program, until};
use serde_json::{Value, json};

use crate::campaign::{keep_figures, size, storage};
use crate::invariants;
use crate::queries::{UNENDED, count};
use crate::servers::{Home, Served, serve};

/// The first night's day, and the nights on which the first invoice of a month is due.
const FIRST_DAY: &str = "2027-03-29";
const MONTHS_BEGIN: [usize; 2] = [0, 3];

/// How many servers there are, and their lease.
const SERVERS: usize = 3;
const LEASE: &str = "2s";

/// Every so many kills, all servers are killed at once.
const ALL_EVERY: usize = 4;

/// How long a kill is put off while no server holds a run.
const IDLE_MAX: Duration = Duration::from_secs(3);

/// How many answers the destination loses in a night that opens a month.
const ANSWERS_LOST: u32 = 2;

const FLOW: &str = r#"flow: FLOW
trigger:
  schedule: { cron: "0 1 * * *", missed: all }
retry: { attempts: 100, delay: 100ms, max_delay: 1s, within: 12h }
steps:
  - id: month
    function: date(trigger.nominal).split("-")[0] + "-" + date(trigger.nominal).split("-")[1]
  - id: customers
    http: { get: 'PEER/list/CUSTOMERS' }
  - id: invoices
    foreach:
      in: steps.customers.result
      as: customer
      key: string(customer.id)
      parallel: 4
      on_error: collect
      steps:
        - id: invoice
          key: '"invoice/" + string(customer.id) + "/" + steps.month.result'
          scope: SCOPE
          http:
            post: 'PEER/slow/200/plain/invoices'
            json: { invoice: '${{ customer.id }}/${{ steps.month.result }}' }
          guard: probe
          probe:
            http: { get: 'PEER/items?invoice=${{ customer.id }}/${{ steps.month.result }}' }
            found: probe.json.items.size() > 0
            after: 300ms
            because: the destination acts at once or never
"#;

/// Flows that bill, night by night.
struct Billing {
    flows: &'static [&'static str],
    nights: usize,
    customers: usize,
    kill_every: Duration,
    home: Home,
    peer: Peer,
    client: Connection,
    servers: Vec<Served>,
    chance: Chance,
    last_kill: Instant,
    kills: usize,
    kills_each: usize,
    kills_tonight: usize,
    /// Runs that a killed server held.
    orphans: usize,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_customer_has_one_invoice_a_month_however_many_nights_ask_for_it() -> Result<()> {
    let figures = play(&["billing"], "step").await?;
    keep_figures("second-night", &figures)
}

#[tokio::test(flavor = "multi_thread")]
async fn two_flows_that_ask_for_the_same_invoice_every_night_have_one() -> Result<()> {
    let figures = play(&["billing", "renewals"], "namespace").await?;
    keep_figures("second-night-two-flows", &figures)
}

async fn play(flows: &'static [&'static str], scope: &str) -> Result<Value> {
    let cluster = Cluster::start(storage()).await?;
    let begun = Instant::now();
    let mut billing = Billing::open(&cluster, flows, scope).await?;
    for night in 0..billing.nights {
        billing.night(night).await?;
    }
    let mut figures = billing.check().await?;
    figures["seconds"] = json!(begun.elapsed().as_secs());
    println!("{figures:#}");
    ensure!(
        billing.orphans > 0,
        "no server died with a run in its hands"
    );
    let servers = billing.servers.iter().collect::<Vec<_>>();
    invariants::hold_but(&billing.home, &servers, &["duties"]).await?;
    Ok(figures)
}

impl Billing {
    async fn open(cluster: &Cluster, flows: &'static [&str], scope: &str) -> Result<Self> {
        let home = Home::found(cluster.server()).await?;
        let client = home.connect().await?;
        client
            .batch_execute(&format!(
                "UPDATE clock SET time_offset = '{FIRST_DAY} 00:00Z'::timestamptz - clock_timestamp();
                 UPDATE tokens SET expires_at = moment() + interval '1 year'"
            ))
            .await?;
        let (peer, customers) = (Peer::start().await?, size("SEMEL_NIGHT_CUSTOMERS", 6)?);
        let mut servers = Vec::new();
        for _ in 0..SERVERS {
            servers.push(serve(Program::semel()?, &home.url(), LEASE).await?);
        }
        for flow in flows {
            let source = FLOW
                .replace("FLOW", flow)
                .replace("PEER", &peer.url(""))
                .replace("CUSTOMERS", &customers.to_string())
                .replace("SCOPE", scope);
            home.publish(&servers[0], flow, &source).await?;
        }
        let kill_every = Duration::from_millis(size("SEMEL_NIGHT_KILL_MS", 2_000)?);
        let due = Instant::now().checked_sub(kill_every);
        Ok(Self {
            flows,
            nights: size("SEMEL_NIGHTS", 5)?,
            customers,
            kill_every,
            home,
            peer,
            client,
            servers,
            chance: Chance::new("the second night"),
            // The first is due at once, as soon as a server holds a run.
            last_kill: due.context("a machine that has run for a second")?,
            kills: 0,
            kills_each: size("SEMEL_NIGHT_KILLS", 8)?,
            kills_tonight: 0,
            orphans: 0,
        })
    }

    /// One night: the schedules are due, and servers die until all runs have ended.
    async fn night(&mut self, night: usize) -> Result<()> {
        let leap =
            "UPDATE clock SET time_offset = $1::text::timestamptz + make_interval(days => $2)
                      + interval '1 hour 1 second' - clock_timestamp()";
        let first = format!("{FIRST_DAY} 00:00Z");
        let days = i32::try_from(night)?;
        self.client.execute(leap, &[&first, &days]).await?;
        if MONTHS_BEGIN.contains(&night) {
            let lost = Behaviour::CloseWithoutAnswer;
            self.peer.next_times("/slow/", ANSWERS_LOST, lost).await?;
        }
        self.kills_tonight = 0;
        let kill_and_look = async || -> Result<bool> {
            let is_over = self.is_over(night).await?;
            if !is_over && self.kills_tonight < self.kills_each {
                self.kill_when_due().await?;
            }
            Ok(is_over)
        };
        let what = format!("the end of night {night}");
        until(&what, kill_and_look, |is_over| *is_over).await?;
        Ok(())
    }

    /// Whether every flow has run for the night, and nothing is left to do.
    async fn is_over(&self, night: usize) -> Result<bool> {
        let fired = count(
            &self.client,
            "SELECT count(*) FROM ticks WHERE run_id IS NOT NULL",
        );
        let left = format!("SELECT ({UNENDED}) + (SELECT count(*) FROM named_effect_notices)");
        let done = fired.await? == self.flows.len() * (night + 1);
        Ok(done && count(&self.client, &left).await? == 0)
    }

    /// Kills a server when it is time: one that holds a run, unless none does for a while.
    async fn kill_when_due(&mut self) -> Result<()> {
        let overdue = self.last_kill.elapsed().checked_sub(self.kill_every);
        let Some(overdue) = overdue else {
            return Ok(());
        };
        let held = self.held().await?;
        let idle = held.iter().all(|held| *held == 0);
        if idle && overdue < IDLE_MAX {
            return Ok(());
        }
        let all = self.kills % ALL_EVERY == ALL_EVERY - 1;
        let start = self.chance.below(SERVERS);
        let busy = (0..SERVERS).map(|at| (start + at) % SERVERS);
        let one = busy.max_by_key(|at| held[*at].min(1)).unwrap_or(start);
        let struck: Vec<usize> = (0..SERVERS).filter(|at| all || *at == one).collect();
        self.kill(&struck).await
    }

    /// How many runs each server holds.
    async fn held(&self) -> Result<Vec<usize>> {
        let held = "SELECT count(*) FROM sessions s JOIN queue q ON q.holder = s.id
                     WHERE s.process = $1";
        let mut counts = Vec::new();
        for server in &self.servers {
            let process = format!("pid {}", server.process.id());
            let row = self.client.query_one(held, &[&process]).await?;
            counts.push(usize::try_from(row.get::<_, i64>(0))?);
        }
        Ok(counts)
    }

    /// Kills servers, and starts others in their place.
    async fn kill(&mut self, struck: &[usize]) -> Result<()> {
        self.last_kill = Instant::now();
        for at in struck {
            self.servers[*at].process.sigkill()?;
        }
        let held = self.held().await?;
        for at in struck {
            self.orphans += held[*at];
            self.servers[*at] = serve(Program::semel()?, &self.home.url(), LEASE).await?;
        }
        self.kills += 1;
        self.kills_tonight += 1;
        Ok(())
    }

    /// One invoice for each customer and month, and every request for it answered for.
    async fn check(&self) -> Result<Value> {
        let mut invoices: HashMap<String, usize> = HashMap::new();
        for effect in self.peer.effects().await? {
            let body: Value = serde_json::from_str(&effect.body)?;
            let invoice = body["invoice"].as_str().context("an invoice")?.to_owned();
            *invoices.entry(invoice).or_default() += 1;
        }
        let twice: Vec<_> = invoices.iter().filter(|(_, count)| **count > 1).collect();
        ensure!(twice.is_empty(), "billed more than once: {twice:?}");
        let months = "SELECT count(DISTINCT date_trunc('month', nominal AT TIME ZONE 'UTC'))
                        FROM ticks";
        let months = count(&self.client, months).await?;
        let wanted = self.customers * months;
        ensure!(
            invoices.len() == wanted,
            "{} of {wanted} invoices",
            invoices.len()
        );
        let failed = "SELECT count(*) FROM runs WHERE state <> 'succeeded'";
        let failed = count(&self.client, failed).await?;
        ensure!(failed == 0, "{failed} runs did not succeed");
        let (reused, done) = (self.events("reused").await?, self.events("done").await?);
        let asked = self.nights * self.customers * self.flows.len();
        ensure!(
            (reused, done) == (asked - wanted, wanted),
            "asked {asked} times: {reused} reused, {done} done"
        );
        let open = "SELECT (SELECT count(*) FROM named_effects WHERE state <> 'done')
                         + (SELECT count(*) FROM named_effect_waiters)";
        ensure!(
            count(&self.client, open).await? == 0,
            "a key is not settled"
        );
        let requests = self.peer.count("/slow/").await?.calls;
        Ok(json!({
            "nights": self.nights, "months": months, "flows": self.flows.len(),
            "customers": self.customers, "kills": self.kills, "runs_held_at_a_kill": self.orphans,
            "asked_for": asked, "invoices": invoices.len(), "invoices_twice": 0,
            "duplicates_stopped": reused, "requests": requests,
            "settled_by_a_probe": self.events("probe").await?, "waited": self.events("waiting").await?,
        }))
    }

    /// How often something happened to an invoice, by the journals of all runs.
    async fn events(&self, what: &str) -> Result<usize> {
        let (field, value) = match what {
            "probe" => ("by", what),
            "done" => ("event", what),
            _ => ("what", what),
        };
        let events = "SELECT count(*) FROM journal j, json_array_elements(j.events::json) e
                       WHERE e ->> 'step' = 'invoice'
                         AND coalesce(e -> 'named', e) ->> $1 = $2";
        let row = self.client.query_one(events, &[&field, &value]).await?;
        Ok(usize::try_from(row.get::<_, i64>(0))?)
    }
}
