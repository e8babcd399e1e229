//! A round: several runs stand at their points when one fault strikes them all.
//!
//! The runs are brought to their points one after another, so that a point without a subject
//! belongs to the run that moves. A commit whose response is held comes last: while it is held, the
//! server's writer is blocked.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use semel_testkit::Cut;
use semel_testkit::client::Answer;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::cell::{Cell, Fault, Point};
use super::inspect::Finding;
use super::lane::Lane;
use super::oracle::expect;
use crate::harness::{Harness, Held};
use crate::servers::Served;

/// How long a run may take to reach its point.
const REACH_PATIENCE: Duration = Duration::from_secs(10);

/// How long runs may take to come to rest.
const REST_PATIENCE: Duration = Duration::from_secs(20);

/// How long a server may take to end when asked to.
const STOP_PATIENCE: Duration = Duration::from_secs(30);

/// How long the database cannot be reached after its connections were cut.
const REFUSAL: Duration = Duration::from_millis(200);

/// How often something outside is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(15);

/// How often a round may be set up anew because the machine was too slow for its lease.
const SETTINGS_MAX: u32 = 4;

/// Deals cells into rounds, at most one unanswered commit to each. Runs whose exchange with the
/// destination is over stand apart from the others: a connection that is free again would be given
/// to a run that is held while it connects.
pub(crate) fn deal(cells: Vec<Cell>) -> Vec<Vec<Cell>> {
    let (early, late): (Vec<Cell>, Vec<Cell>) = cells
        .into_iter()
        .partition(|cell| cell.point < Point::Answered);
    let mut rounds = deal_evenly(early);
    rounds.extend(deal_evenly(late));
    rounds
}

fn deal_evenly(cells: Vec<Cell>) -> Vec<Vec<Cell>> {
    let (last, others): (Vec<Cell>, Vec<Cell>) = cells
        .into_iter()
        .partition(|cell| cell.point.is_unanswered());
    let mut rounds: Vec<Vec<Cell>> = vec![Vec::new(); last.len().max(1)];
    let count = rounds.len();
    for (index, cell) in others.into_iter().enumerate() {
        rounds[index % count].push(cell);
    }
    for (round, cell) in rounds.iter_mut().zip(last) {
        round.push(cell);
    }
    rounds.retain(|round| !round.is_empty());
    rounds
}

/// A run at its point.
pub(crate) struct Placed {
    pub(crate) cell: Cell,
    pub(crate) id: String,
    held: Option<Held>,
    /// The first delivery, until it is answered or lost.
    delivery: Option<JoinHandle<Result<Answer>>>,
    /// The runs that answers of success named.
    pub(crate) runs: Vec<String>,
}

impl Lane {
    /// Plays one round and says what became of each cell.
    pub(crate) async fn play(&mut self, cells: &[Cell]) -> Result<Vec<Finding>> {
        for _ in 0..SETTINGS_MAX {
            self.rounds += 1;
            let harness = Harness::start()?;
            let mut first = self.start_first(&harness).await?;
            let mut placed = Vec::new();
            for cell in cells {
                placed.push(self.place(&harness, &first, *cell).await?);
            }
            if !self.is_set(&placed).await? {
                println!(
                    "{} round {}: too slow, set up again",
                    self.fault.name(),
                    self.rounds
                );
                first.process.sigkill()?;
                self.proxy.resume();
                self.peer.let_go().await?;
                continue;
            }
            match self.fault {
                Fault::Kill => self.kill(&mut first, &mut placed).await?,
                Fault::Pause => self.pause(&first, &mut placed).await?,
                Fault::Cut => self.cut(&mut placed).await?,
                Fault::Postgres => self.kill_postgres(&mut placed).await?,
            }
            self.until(&placed, |cell, state| state == expect(cell).end.as_str())
                .await?;
            return self.conclude(first, placed).await;
        }
        bail!("the machine is too slow for a lease of two seconds")
    }

    /// Brings one run to its point.
    async fn place(&self, harness: &Harness, first: &Served, cell: Cell) -> Result<Placed> {
        let name = cell.to_string().replace(' ', "-");
        let id = format!("{name}-{:04}", self.rounds);
        let path = cell.guard.path(&id);
        if let (Point::Sent, Some(path)) = (cell.point, &path) {
            let hold = semel_testkit::peer::Behaviour::HoldBeforeAnswer;
            self.peer.next(path, hold).await?;
        }
        // Points on the wire do not know the run's key.
        let subject = (!cell.point.is_on_the_wire()).then_some(id.as_str());
        let watch = cell
            .point
            .fault_point()
            .map(|point| harness.arm(point, subject));
        let delivery = tokio::spawn(deliver(first, cell, &id));
        let mut held = match watch {
            Some(watch) => Some(
                watch
                    .until_held(REACH_PATIENCE)
                    .await
                    .context(cell.to_string())?,
            ),
            None => None,
        };
        if let Some(path) = &path {
            self.until_seen(cell.point, path).await?;
        }
        if cell.point.is_unanswered() {
            self.proxy.hold_commits();
            if let Some(held) = held.take() {
                held.let_go().await;
            }
            self.until_committed(cell, &id).await?;
        }
        Ok(Placed {
            cell,
            id,
            held,
            delivery: Some(delivery),
            runs: Vec::new(),
        })
    }

    /// Waits until the destination has seen what it is to have seen.
    async fn until_seen(&self, point: Point, path: &str) -> Result<()> {
        let deadline = Instant::now() + REACH_PATIENCE;
        loop {
            let count = self.peer.count(path).await?;
            let seen = match point {
                Point::HalfSent => count.calls == 1,
                Point::Sent => count.effects == 1,
                _ => true,
            };
            if seen {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "{path} has seen nothing");
            sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until a commit whose answer is held can be seen past the proxy.
    async fn until_committed(&self, cell: Cell, id: &str) -> Result<()> {
        let written = match cell.point {
            Point::AcceptUnanswered => "%\"accepted\"%",
            Point::OpeningUnanswered | Point::IntentUnanswered => "%\"intended\"%",
            _ => "%\"done\"%",
        };
        let client = self.home.connect().await?;
        let deadline = Instant::now() + REACH_PATIENCE;
        loop {
            let row = client
                .query_one(
                    "SELECT count(*) FROM runs r JOIN journal j ON j.run_id = r.id
                      WHERE r.key = convert_to($1, 'UTF8') AND j.events::text LIKE $2",
                    &[&id, &written],
                )
                .await?;
            if row.get::<_, i64>(0) > 0 {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "{cell}: nothing was committed");
            sleep(LOOK_EVERY).await;
        }
    }

    /// Whether the first server still holds every run: the fault strikes a live lease or nothing.
    async fn is_set(&self, placed: &[Placed]) -> Result<bool> {
        let keys: Vec<&str> = placed.iter().map(|placed| placed.id.as_str()).collect();
        let client = self.home.connect().await?;
        let row = client
            .query_one(
                "SELECT (SELECT count(*) FROM queue q JOIN runs r ON r.id = q.run_id
                          WHERE convert_from(r.key, 'UTF8') = ANY ($1)
                            AND (q.holder IS NULL OR q.epoch > 1)),
                        (SELECT count(*) FROM sessions WHERE expires_at > moment())",
                &[&keys],
            )
            .await?;
        Ok(row.get::<_, i64>(0) == 0 && row.get::<_, i64>(1) >= 2)
    }

    async fn kill(&mut self, first: &mut Served, placed: &mut [Placed]) -> Result<()> {
        first.process.sigkill()?;
        self.proxy.cut(Cut::Reset);
        self.proxy.resume();
        self.let_go(placed).await?;
        self.deliver_again(placed).await
    }

    async fn pause(&mut self, first: &Served, placed: &mut [Placed]) -> Result<()> {
        first.process.sigstop()?;
        self.deliver_again(placed).await?;
        self.until_alone().await?;
        self.until(placed, |_, state| state != "active").await?;
        self.let_go(placed).await?;
        self.proxy.resume();
        first.process.sigcont()
    }

    async fn cut(&mut self, placed: &mut [Placed]) -> Result<()> {
        self.proxy.refuse();
        self.proxy.cut(Cut::Reset);
        self.let_go(placed).await?;
        sleep(REFUSAL).await;
        self.proxy.resume();
        Ok(())
    }

    async fn kill_postgres(&mut self, placed: &mut [Placed]) -> Result<()> {
        self.cluster.kill()?;
        self.proxy.cut(Cut::Reset);
        self.let_go(placed).await?;
        self.cluster.restart().await?;
        self.proxy.resume();
        Ok(())
    }

    async fn let_go(&self, placed: &mut [Placed]) -> Result<()> {
        for placed in placed {
            if let Some(held) = placed.held.take() {
                held.let_go().await;
            }
        }
        self.peer.let_go().await?;
        Ok(())
    }

    /// A sender that got no answer sends again, to a server that is up.
    async fn deliver_again(&self, placed: &mut [Placed]) -> Result<()> {
        for placed in placed {
            placed.hear(LOOK_EVERY).await?;
            if placed.runs.is_empty() {
                let again = deliver(&self.second, placed.cell, &placed.id).await?;
                placed.runs.push(run_of(&again)?);
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
        let keys: Vec<&str> = placed.iter().map(|placed| placed.id.as_str()).collect();
        let client = self.home.connect().await?;
        let deadline = Instant::now() + REST_PATIENCE;
        loop {
            let rows = client
                .query(
                    "SELECT convert_from(key, 'UTF8'), state::text FROM runs
                      WHERE convert_from(key, 'UTF8') = ANY ($1)",
                    &[&keys],
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

    /// Ends the first server, so that nothing can happen any more, and looks at every cell.
    async fn conclude(&self, mut first: Served, placed: Vec<Placed>) -> Result<Vec<Finding>> {
        if self.fault != Fault::Kill {
            first.process.sigterm()?;
            first.process.until_exit(STOP_PATIENCE).await?;
        }
        let mut findings = Vec::new();
        for mut placed in placed {
            placed.hear(STOP_PATIENCE).await?;
            ensure!(
                !placed.runs.is_empty(),
                "{}: the sender has no answer",
                placed.cell
            );
            let again = deliver(&self.second, placed.cell, &placed.id).await?;
            placed.runs.push(run_of(&again)?);
            findings.push(self.inspect(placed).await?);
        }
        Ok(findings)
    }
}

impl Placed {
    /// Waits for the answer to the first delivery, which may have been lost with its server.
    async fn hear(&mut self, within: Duration) -> Result<()> {
        let Some(delivery) = &mut self.delivery else {
            return Ok(());
        };
        if let Ok(answered) = timeout(within, delivery).await {
            self.delivery = None;
            if let Ok(answer) = answered? {
                self.runs.push(run_of(&answer)?);
            }
        }
        Ok(())
    }
}

fn deliver(
    server: &Served,
    cell: Cell,
    id: &str,
) -> impl Future<Output = Result<Answer>> + Send + use<> {
    let client = server.client.clone();
    let flow = cell.guard.flow_name(cell.point.is_opening());
    let path = format!("/hooks/default/{flow}");
    let body = format!(r#"{{"id":"{id}"}}"#);
    async move { Ok(client.post(&path, body).await?) }
}

/// The run that an answer names.
fn run_of(answer: &Answer) -> Result<String> {
    ensure!(
        answer.status.is_success(),
        "{}: {}",
        answer.status,
        answer.text()
    );
    let body: Value = answer.json()?;
    let run = body["run"].as_str().context("a run in the answer")?;
    Ok(run.to_owned())
}
