//! A round: runs of all kinds stand at their points when one fault strikes them all.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use semel_testkit::peer::Behaviour;
use semel_testkit::{Cluster, Cut, Options, Program, Proxy};
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::super::cell::Fault;
use super::super::lane::lease;
use super::inspect::Finding;
use super::kind::{Cell, Kind, Point};
use super::oracle::expect;
use super::places::{MASTER_KEY, Places};
use crate::harness::{Harness, Held};
use crate::servers::{Home, Served, faults, serve};

/// How long a run may take to reach its point.
const REACH_PATIENCE: Duration = Duration::from_secs(10);

/// How long an event may take from its commit to its receiver, on this server.
const SPREAD_PATIENCE: Duration = Duration::from_secs(3);

/// How long runs may take to come to rest.
const REST_PATIENCE: Duration = Duration::from_secs(25);

/// How long a server may take to end when asked to.
const STOP_PATIENCE: Duration = Duration::from_secs(30);

/// How long the database cannot be reached after its connections were cut.
const REFUSAL: Duration = Duration::from_millis(200);

/// How often something outside is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How often an event may be dispatched by the other server first.
const SPREADS_MAX: usize = 5;

/// How often a round may be set up anew because the machine was too slow for its lease.
const SETTINGS_MAX: u32 = 4;

/// Deals cells into two rounds. A connection that is free again would be given to a run that is
/// held while it connects, so requests that were answered stand apart. A server spreads one event
/// at a time, so there is one of those in each.
pub(super) fn deal(cells: Vec<Cell>) -> Vec<Vec<Cell>> {
    let (early, late) = cells
        .into_iter()
        .partition(|cell| cell.point < Point::Answered || cell.point == Point::SpreadBefore);
    let mut rounds: Vec<Vec<Cell>> = vec![early, late];
    rounds.retain(|round| !round.is_empty());
    rounds
}

/// A run at its point.
pub(super) struct Placed {
    pub(super) cell: Cell,
    pub(super) id: String,
    held: Option<Held>,
}

/// Where cells of one fault are played.
pub(super) struct Lane<'p> {
    pub(super) home: Home,
    pub(super) places: &'p Places,
    fault: Fault,
    _cluster: Cluster,
    proxy: Proxy,
    resources: TempDir,
    _second: Served,
    rounds: u32,
    mistake: Option<&'static str>,
}

impl<'p> Lane<'p> {
    pub(super) async fn start(
        fault: Fault,
        places: &'p Places,
        mistake: Option<&'static str>,
    ) -> Result<Self> {
        let cluster = Cluster::start(Options::quick()).await?;
        let proxy = Proxy::start(cluster.server().address()).await?;
        let home = Home::found(cluster.server()).await?;
        let resources = tempfile::tempdir()?;
        // Where nothing is wrong on purpose, what takes over is the product as it is shipped.
        let program = match mistake {
            Some(mistake) => faults()?.env("SEMEL_SEEDED_BUG", mistake),
            None => Program::semel()?,
        };
        let program = equip(program, &resources);
        let second = serve(program, &home.url(), lease(fault)).await?;
        places.introduce(&home, &second).await?;
        Ok(Self {
            home,
            places,
            fault,
            _cluster: cluster,
            proxy,
            resources,
            _second: second,
            rounds: 0,
            mistake,
        })
    }

    /// Plays one round and says what became of each cell.
    pub(super) async fn play(&mut self, cells: &[Cell]) -> Result<Vec<Finding>> {
        for _ in 0..SETTINGS_MAX {
            self.rounds += 1;
            let harness = Harness::start()?;
            let program = equip(faults()?, &self.resources)
                .env("SEMEL_FAULTS", harness.socket())
                .env("SEMEL_SEEDED_BUG", self.mistake.unwrap_or_default());
            let database = self.home.url_at(self.proxy.address());
            let mut first = serve(program, &database, lease(self.fault)).await?;
            let mut placed = Vec::new();
            for cell in cells {
                placed.push(self.place(&harness, &first, *cell).await?);
            }
            if !self.is_set(&placed).await? {
                println!("{}: too slow, set up again", self.fault.name());
                first.process.sigkill()?;
                self.let_requests_go(&placed).await?;
                continue;
            }
            self.strike(&mut first, &mut placed).await?;
            self.until(&placed, |cell, state| state == expect(cell).end.as_str())
                .await?;
            if self.fault != Fault::Kill {
                first.process.sigterm()?;
                first.process.until_exit(STOP_PATIENCE).await?;
            }
            let mut findings = Vec::new();
            for placed in &placed {
                findings.push(self.inspect(placed).await?);
            }
            return Ok(findings);
        }
        bail!("the machine is too slow for a lease of two seconds")
    }

    /// Brings one run to its point.
    async fn place(&self, harness: &Harness, first: &Served, cell: Cell) -> Result<Placed> {
        let name = cell.to_string().replace(' ', "-");
        for setting in 0..SPREADS_MAX {
            let id = format!("{name}-{:02}-{setting}", self.rounds);
            if cell.point == Point::Sent {
                let path = format!("/keyed/{id}");
                let hold = Behaviour::HoldBeforeAnswer;
                self.places.peer.next(&path, hold).await?;
            }
            let subject = cell.point.names_its_run().then_some(id.as_str());
            let watch = cell
                .point
                .fault_point()
                .map(|point| harness.arm(point, subject));
            deliver(first, cell.kind, &id).await?;
            let mut held = None;
            if let Some(watch) = watch {
                let reached = watch.until_held(REACH_PATIENCE).await;
                held = Some(reached.context(cell.to_string())?);
            }
            let spread = match cell.point {
                Point::SpreadBefore => "accept.before",
                Point::SpreadAfter => "accept.after",
                _ => {
                    self.until_seen(cell, &id).await?;
                    return Ok(Placed { cell, id, held });
                }
            };
            let watch = harness.arm(spread, None);
            if let Some(held) = held.take() {
                held.let_go().await;
            }
            // The other server looks for events as well, and may have been first.
            if let Ok(held) = watch.until_held(SPREAD_PATIENCE).await {
                let held = Some(held);
                return Ok(Placed { cell, id, held });
            }
        }
        bail!("{cell}: the other server was always first")
    }

    /// Waits until the destination has seen what it is to have seen.
    async fn until_seen(&self, cell: Cell, id: &str) -> Result<()> {
        let deadline = Instant::now() + REACH_PATIENCE;
        let path = format!("/keyed/{id}");
        loop {
            let count = self.places.peer.count(&path).await?;
            let seen = match cell.point {
                Point::HalfSent => count.calls == 1,
                Point::Sent => count.effects == 1,
                _ => true,
            };
            if seen {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "{cell}: nothing was seen");
            sleep(LOOK_EVERY).await;
        }
    }

    /// Whether the first server still holds every run: the fault strikes a live lease or nothing.
    async fn is_set(&self, placed: &[Placed]) -> Result<bool> {
        let client = self.home.connect().await?;
        let row = client
            .query_one(
                "SELECT (SELECT count(*) FROM queue q JOIN runs r ON r.id = q.run_id
                          WHERE convert_from(r.key, 'UTF8') = ANY ($1)
                            AND (q.holder IS NULL OR q.epoch > 1)),
                        (SELECT count(*) FROM sessions WHERE expires_at > moment())",
                &[&keys(placed)],
            )
            .await?;
        Ok(row.get::<_, i64>(0) == 0 && row.get::<_, i64>(1) >= 2)
    }

    async fn strike(&mut self, first: &mut Served, placed: &mut [Placed]) -> Result<()> {
        match self.fault {
            Fault::Kill => {
                first.process.sigkill()?;
                self.proxy.cut(Cut::Reset);
                self.let_go(placed).await
            }
            Fault::Pause => {
                first.process.sigstop()?;
                self.until_alone().await?;
                self.until(placed, |_, state| state != "active").await?;
                self.let_go(placed).await?;
                first.process.sigcont()
            }
            Fault::Cut | Fault::Postgres => {
                self.proxy.refuse();
                self.proxy.cut(Cut::Reset);
                self.let_go(placed).await?;
                sleep(REFUSAL).await;
                self.proxy.resume();
                Ok(())
            }
        }
    }

    async fn let_go(&self, placed: &mut [Placed]) -> Result<()> {
        for placed in placed.iter_mut() {
            if let Some(held) = placed.held.take() {
                held.let_go().await;
            }
        }
        self.let_requests_go(placed).await
    }

    /// Releases this lane's requests that the destination holds.
    async fn let_requests_go(&self, placed: &[Placed]) -> Result<()> {
        let peer = &self.places.peer;
        for held in peer.until_held(0, Duration::ZERO).await? {
            if placed.iter().any(|placed| held.path.ends_with(&placed.id)) {
                peer.let_one_go(&held).await?;
            }
        }
        Ok(())
    }

    /// Waits until the first server's lease is over.
    async fn until_alone(&self) -> Result<()> {
        let client = self.home.connect().await?;
        let deadline = Instant::now() + REST_PATIENCE;
        loop {
            let live = "SELECT count(*) FROM sessions WHERE expires_at > moment()";
            let row = client.query_one(live, &[]).await?;
            if row.get::<_, i64>(0) <= 1 {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "a paused server keeps its lease");
            sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until every run stands as wanted, or for as long as is reasonable: what they came to
    /// is judged later.
    async fn until(&self, placed: &[Placed], wanted: impl Fn(Cell, &str) -> bool) -> Result<()> {
        let client = self.home.connect().await?;
        let deadline = Instant::now() + REST_PATIENCE;
        loop {
            let rows = client
                .query(
                    "SELECT convert_from(key, 'UTF8'), state::text FROM runs
                      WHERE convert_from(key, 'UTF8') = ANY ($1)",
                    &[&keys(placed)],
                )
                .await?;
            let stands = |placed: &Placed| {
                let row = rows.iter().find(|row| row.get::<_, &str>(0) == placed.id);
                row.is_some_and(|row| wanted(placed.cell, row.get(1)))
            };
            if placed.iter().all(stands) || Instant::now() > deadline {
                return Ok(());
            }
            sleep(LOOK_EVERY).await;
        }
    }
}

fn keys(placed: &[Placed]) -> Vec<&str> {
    placed.iter().map(|placed| placed.id.as_str()).collect()
}

fn equip(program: Program, resources: &TempDir) -> Program {
    program
        .env("SEMEL_MASTER_KEYS", MASTER_KEY)
        .env("SEMEL_RESOURCES", resources.path())
}

async fn deliver(server: &Served, kind: Kind, id: &str) -> Result<String> {
    let path = format!("/hooks/default/{}", kind.name());
    let body = format!(r#"{{"id":"{id}"}}"#);
    let answer = server.client.post(&path, body).await?;
    let text = answer.text();
    ensure!(answer.status.is_success(), "{}: {text}", answer.status);
    let body: Value = answer.json()?;
    let run = body["run"].as_str().context("a run in the answer")?;
    Ok(run.to_owned())
}
