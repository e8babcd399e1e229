//! A lane: a database, a destination, the server that a fault strikes, and how cells get to their
//! points.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use semel_testkit::client::Answer;
use semel_testkit::peer::Behaviour;
use semel_testkit::{Client, Cluster, Connection, Options, Peer, Program, Proxy, until};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::cell::{Cell, Fault, GUARDS, Meeting, Point};
use super::oracle::Role;
use super::snapshot::Snapshot;
use crate::harness::{Harness, Held};
use crate::servers::{Home, Served, faults, serve};

/// How long something is waited for that a seeded bug may keep from coming about at all.
const WITH_BUG: Duration = Duration::from_secs(8);

/// Where the cells of one fault are played.
pub(super) struct Lane {
    pub(super) fault: Fault,
    setting: u32,
    _cluster: Cluster,
    /// Between the first server and PostgreSQL.
    pub(super) proxy: Proxy,
    pub(super) home: Home,
    pub(super) peer: Peer,
    pub(super) client: Connection,
    harness: Harness,
    pub(super) first: Served,
    pub(super) mistake: Option<&'static str>,
}

/// A cell whose run stands at its point.
pub(super) struct Placed {
    pub(super) cell: Cell,
    /// The server, at a failpoint.
    pub(super) held: Option<Held>,
    deliveries: Vec<JoinHandle<Result<Answer>>>,
}

impl Drop for Placed {
    fn drop(&mut self) {
        for delivery in &self.deliveries {
            delivery.abort();
        }
    }
}

impl Lane {
    pub(super) async fn start(
        fault: Fault,
        setting: u32,
        mistake: Option<&'static str>,
    ) -> Result<Self> {
        let cluster = Cluster::start(Options::quick()).await?;
        let proxy = Proxy::start(cluster.server().address()).await?;
        let home = Home::found(cluster.server()).await?;
        let peer = Peer::start().await?;
        let harness = Harness::start()?;
        let mut program = faults()?.env("SEMEL_FAULTS", harness.socket());
        if let Some(mistake) = mistake {
            program = program.env("SEMEL_SEEDED_BUG", mistake);
        }
        let database = home.url_at(proxy.address());
        let first = serve(program, &database, &lease(fault, setting)).await?;
        for guard in GUARDS {
            home.publish(&first, guard.name(), &guard.flow(&peer.url("")))
                .await?;
        }
        let client = home.connect().await?;
        Ok(Self {
            fault,
            setting,
            _cluster: cluster,
            proxy,
            home,
            peer,
            client,
            harness,
            first,
            mistake,
        })
    }

    /// Starts the server that takes over. Not before all cells are placed: it could take a run that
    /// is to stop at a point of the first.
    pub(super) async fn start_second(&self) -> Result<Served> {
        let program = match self.mistake {
            Some(mistake) => faults()?.env("SEMEL_SEEDED_BUG", mistake),
            None => Program::semel()?,
        };
        let lease = lease(self.fault, self.setting);
        serve(program, &self.home.url(), &lease).await
    }

    /// Whether no lease ended but the one that the fault ends: each server has begun one session, and a paused one may
    /// have begun another when it woke up.
    pub(super) async fn is_calm(&self) -> Result<bool> {
        let sql = "SELECT process = $1, count(*) FROM sessions GROUP BY process";
        let first = format!("pid {}", self.first.process.id());
        let rows = self.client.query(sql, &[&first]).await?;
        Ok(rows.iter().all(|row| {
            let may_be = match row.get(0) {
                true if self.fault == Fault::Pause => 2,
                true | false => 1,
            };
            row.get::<_, i64>(1) <= may_be
        }))
    }

    /// Has the earlier runs of all cells come to what their struck runs are to meet.
    pub(super) async fn prepare(&self, cells: &[Cell]) -> Result<()> {
        let mut wanted = Vec::new();
        for cell in cells {
            let (behaviour, state) = match cell.meeting {
                Meeting::First | Meeting::Awaited | Meeting::Refused | Meeting::Cancelled => {
                    continue;
                }
                Meeting::Failed => (Some(Behaviour::RefuseWith(403)), "failed"),
                Meeting::Done => (None, "done"),
                Meeting::Held => (Some(Behaviour::HoldBeforeAnswer), "pending"),
                Meeting::InDoubt => (Some(Behaviour::CloseWithoutAnswer), "in_doubt"),
            };
            if let Some(behaviour) = behaviour {
                self.peer.next(&cell.path(), behaviour).await?;
            }
            deliver(&self.first.client, *cell, Role::Earlier).await?;
            wanted.push((*cell, state));
        }
        let is_there = |snapshot: &Snapshot| {
            let stands = |(cell, state): &(Cell, &str)| snapshot.name(*cell) == Some(*state);
            wanted.iter().all(stands)
        };
        self.until("the earlier runs", is_there).await?;
        let held = cells.iter().filter(|cell| cell.meeting == Meeting::Held);
        for cell in held {
            self.until_acted(*cell).await?;
        }
        Ok(())
    }

    /// Brings the struck run of a cell to its point.
    pub(super) async fn place(&self, cell: Cell) -> Result<Placed> {
        if let Meeting::Refused = cell.meeting {
            let refusal = Behaviour::RefuseWith(403);
            self.peer.next(&cell.path(), refusal).await?;
        }
        if cell.point == Point::Sent {
            let hold = Behaviour::HoldBeforeAnswer;
            self.peer.next(&cell.path(), hold).await?;
        }
        let mut placed = Placed {
            cell,
            held: None,
            deliveries: Vec::new(),
        };
        let awaited = cell.is_awaited();
        if awaited {
            self.bring(&mut placed, Some("name.after")).await?;
            self.deliver(&mut placed, Role::Waiter);
            let waits = |snapshot: &Snapshot| snapshot.waits(cell, Role::Waiter);
            self.until("a run that waits", waits).await?;
        }
        if !awaited || cell.point != Point::BeginAfter {
            self.bring(&mut placed, cell.point.failpoint()).await?;
        }
        Ok(placed)
    }

    /// Lets the struck run continue to a failpoint, or to the destination.
    async fn bring(&self, placed: &mut Placed, point: Option<&'static str>) -> Result<()> {
        let cell = placed.cell;
        let subject = cell.key(Role::Struck);
        let watch = point.map(|point| self.harness.arm(point, Some(&subject)));
        match placed.held.take() {
            Some(held) => held.let_go().await,
            None => self.deliver(placed, Role::Struck),
        }
        match watch {
            Some(watch) => placed.held = Some(watch.until_held().await?),
            None => self.until_acted(cell).await?,
        }
        Ok(())
    }

    /// Delivers to the first server, which may not live to answer.
    fn deliver(&self, placed: &mut Placed, role: Role) {
        let (client, cell) = (self.first.client.clone(), placed.cell);
        let delivery = tokio::spawn(async move { deliver(&client, cell, role).await });
        placed.deliveries.push(delivery);
    }

    /// Waits until the destination has acted for a cell.
    pub(super) async fn until_acted(&self, cell: Cell) -> Result<()> {
        let look = async || self.peer.count(&cell.path()).await;
        let what = format!("a request of {cell}");
        until(&what, look, |count| count.effects > 0).await?;
        Ok(())
    }

    /// Waits until the tables are as wanted.
    pub(super) async fn until(&self, what: &str, wanted: impl Fn(&Snapshot) -> bool) -> Result<()> {
        let look = async || -> Result<bool> { Ok(wanted(&Snapshot::read(&self.client).await?)) };
        until(what, look, |is_there| *is_there).await?;
        Ok(())
    }

    /// Waits as long as every test does; with a seeded bug for a while only.
    pub(super) async fn bounded<T>(&self, wait: impl Future<Output = Result<T>>) -> Result<T> {
        match self.mistake {
            None => wait.await,
            Some(mistake) => timeout(WITH_BUG, wait).await.context(mistake)?,
        }
    }
}

/// A server that only loses its database for a moment must not lose its lease with it. Doubles with every setting.
fn lease(fault: Fault, setting: u32) -> String {
    let secs = match fault {
        Fault::Kill | Fault::Pause => 2,
        Fault::LostAnswer => 30,
    };
    format!("{}s", secs << setting)
}

/// Delivers what starts a run, or meets it.
pub(super) async fn deliver(client: &Client, cell: Cell, role: Role) -> Result<Answer> {
    let body = json!({ "id": cell.key(role), "object": cell.object() });
    let path = format!("/hooks/default/{}", cell.guard.name());
    let answer = client.post(&path, body.to_string()).await?;
    ensure!(answer.status.is_success(), "{cell}: {}", answer.text());
    Ok(answer)
}
