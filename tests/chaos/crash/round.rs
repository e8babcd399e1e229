//! A round: several runs stand at their points when one fault strikes them all.
//!
//! The runs are brought to their points one after another, so that a point without a subject
//! belongs to the run that moves. A commit whose response is held comes last: while it is held, the
//! server's writer is blocked.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use semel_testkit::Cut;
use semel_testkit::peer::Behaviour;
use tokio::time::{Instant, sleep};

use super::fault::Fault;
use super::lane::Lane;
use super::placed::Placed;
use super::table::{Approach, CrashCell as _, Finding, Table};
use crate::harness::Harness;
use crate::servers::Served;

/// How long a run may take to reach its point.
const REACH_PATIENCE: Duration = Duration::from_secs(40);

/// How long an event may take from its commit to its receiver, on this server.
const DISPATCH_PATIENCE: Duration = Duration::from_secs(3);

/// How long runs may take to come to rest.
const REST_PATIENCE: Duration = Duration::from_secs(25);

/// How long a server may take to end when asked to.
const STOP_PATIENCE: Duration = Duration::from_secs(30);

/// How long the database cannot be reached after its connections were cut.
const REFUSAL: Duration = Duration::from_millis(200);

/// How often something outside is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(15);

/// How often an event may be dispatched by the other server first.
const DISPATCHES_MAX: usize = 5;

/// How often a round may be set up anew because the machine was too slow for its lease.
const SETTINGS_MAX: u32 = 4;

impl<T: Table> Lane<T> {
    /// Plays one round and says what became of each cell.
    pub(crate) async fn play(&mut self, cells: &[T::Cell]) -> Result<Vec<Finding<T::Cell>>> {
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
                self.let_requests_go(&placed).await?;
                continue;
            }
            match self.fault {
                Fault::Kill => self.kill(&mut first, &mut placed).await?,
                Fault::Pause => self.pause(&first, &mut placed).await?,
                Fault::Cut => self.cut(&mut placed).await?,
                Fault::Postgres => self.kill_postgres(&mut placed).await?,
            }
            self.until(&placed, |cell, state| state == cell.expect().end.as_str())
                .await?;
            return self.conclude(first, placed).await;
        }
        bail!("the machine is too slow for a lease of two seconds")
    }

    /// Brings one run to its point.
    async fn place(
        &self,
        harness: &Harness,
        first: &Served,
        cell: T::Cell,
    ) -> Result<Placed<T::Cell>> {
        let name = cell.to_string().replace(' ', "-");
        for setting in 0..DISPATCHES_MAX {
            let id = format!("{name}-{:04}-{setting}", self.rounds);
            // A machine that stood still for longer than the lease let the other server have the run.
            let Some(mut placed) = self.bring(harness, first, cell, id).await? else {
                continue;
            };
            match cell.approach() {
                Approach::Point(_) | Approach::Destination => return Ok(placed),
                Approach::UnansweredCommit(_, event) => {
                    self.proxy.hold_commits();
                    placed.let_go().await;
                    self.until_committed(&placed, event).await?;
                    return Ok(placed);
                }
                Approach::Dispatch(_, point) => {
                    let watch = harness.arm(point, None);
                    placed.let_go().await;
                    // The other server looks for events as well, and may have been first.
                    if let Ok(held) = watch.until_held(DISPATCH_PATIENCE).await {
                        placed.hold(held);
                        return Ok(placed);
                    }
                }
            }
        }
        bail!("{cell}: the other server was always first")
    }

    /// Delivers, and waits until the server or the destination holds the run. None where the server did not
    /// come to its point.
    async fn bring(
        &self,
        harness: &Harness,
        first: &Served,
        cell: T::Cell,
        id: String,
    ) -> Result<Option<Placed<T::Cell>>> {
        let path = cell.path(&id);
        if let (Approach::Destination, Some(path)) = (cell.approach(), &path) {
            let hold = Behaviour::HoldBeforeAnswer;
            self.table.peer().next(path, hold).await?;
        }
        let subject = cell.names_its_run().then_some(id.as_str());
        let watch = cell
            .approach()
            .first_point()
            .map(|point| harness.arm(point, subject));
        let mut placed = Placed::deliver(cell, id, first);
        if let Some(watch) = watch {
            let Ok(held) = watch.until_held(REACH_PATIENCE).await else {
                return Ok(None);
            };
            placed.hold(held);
        }
        if let Some(path) = &path {
            self.until_seen(cell, path).await?;
        }
        if cell.is_answered() {
            placed.hear(REACH_PATIENCE).await?;
            ensure!(!placed.runs.is_empty(), "{cell}: the sender has no answer");
        }
        Ok(Some(placed))
    }

    /// Waits until the destination has seen what it is to have seen.
    async fn until_seen(&self, cell: T::Cell, path: &str) -> Result<()> {
        let deadline = Instant::now() + REACH_PATIENCE;
        while !cell.is_seen(&self.table.peer().count(path).await?) {
            ensure!(Instant::now() < deadline, "{path} has seen nothing");
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Waits until a commit whose answer is held can be seen past the proxy.
    async fn until_committed(&self, placed: &Placed<T::Cell>, event: &str) -> Result<()> {
        let written = format!("%\"{event}\"%");
        let client = self.home.connect().await?;
        let deadline = Instant::now() + REACH_PATIENCE;
        loop {
            let row = client
                .query_one(
                    "SELECT count(*) FROM runs r JOIN journal j ON j.run_id = r.id
                      WHERE r.key = convert_to($1, 'UTF8') AND j.events::text LIKE $2",
                    &[&placed.id, &written],
                )
                .await?;
            if row.get::<_, i64>(0) > 0 {
                return Ok(());
            }
            let cell = placed.cell;
            ensure!(Instant::now() < deadline, "{cell}: nothing was committed");
            sleep(LOOK_EVERY).await;
        }
    }

    /// Whether the first server still holds every run: the fault strikes a live lease or nothing.
    async fn is_set(&self, placed: &[Placed<T::Cell>]) -> Result<bool> {
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

    async fn kill(&mut self, first: &mut Served, placed: &mut [Placed<T::Cell>]) -> Result<()> {
        first.process.sigkill()?;
        self.proxy.cut(Cut::Reset);
        self.proxy.resume();
        self.let_go(placed).await?;
        self.deliver_again(placed).await
    }

    async fn pause(&mut self, first: &Served, placed: &mut [Placed<T::Cell>]) -> Result<()> {
        first.process.sigstop()?;
        self.deliver_again(placed).await?;
        self.until_alone().await?;
        self.until(placed, |_, state| state != "active").await?;
        self.let_go(placed).await?;
        self.proxy.resume();
        first.process.sigcont()
    }

    async fn cut(&mut self, placed: &mut [Placed<T::Cell>]) -> Result<()> {
        self.proxy.refuse();
        self.proxy.cut(Cut::Reset);
        self.let_go(placed).await?;
        sleep(REFUSAL).await;
        self.proxy.resume();
        Ok(())
    }

    async fn kill_postgres(&mut self, placed: &mut [Placed<T::Cell>]) -> Result<()> {
        self.cluster.kill()?;
        self.proxy.cut(Cut::Reset);
        self.let_go(placed).await?;
        self.cluster.restart().await?;
        self.proxy.resume();
        Ok(())
    }

    async fn let_go(&self, placed: &mut [Placed<T::Cell>]) -> Result<()> {
        for placed in placed.iter_mut() {
            placed.let_go().await;
        }
        self.let_requests_go(placed).await
    }

    /// Lets this lane's requests go that the destination holds; other lanes may use it as well.
    async fn let_requests_go(&self, placed: &[Placed<T::Cell>]) -> Result<()> {
        let peer = self.table.peer();
        for held in peer.until_held(0, Duration::ZERO).await? {
            if placed.iter().any(|placed| held.path.ends_with(&placed.id)) {
                peer.let_one_go(&held).await?;
            }
        }
        Ok(())
    }

    /// A sender that got no answer sends again, to a server that is up.
    async fn deliver_again(&self, placed: &mut [Placed<T::Cell>]) -> Result<()> {
        for placed in placed {
            placed.hear(LOOK_EVERY).await?;
            if placed.runs.is_empty() {
                placed.deliver_again(&self.second).await?;
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
    async fn until(
        &self,
        placed: &[Placed<T::Cell>],
        wanted: impl Fn(T::Cell, &str) -> bool,
    ) -> Result<()> {
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
            let stands = |placed: &Placed<T::Cell>| {
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
    async fn conclude(
        &self,
        mut first: Served,
        placed: Vec<Placed<T::Cell>>,
    ) -> Result<Vec<Finding<T::Cell>>> {
        if self.fault != Fault::Kill {
            first.process.sigterm()?;
            first.process.until_exit(STOP_PATIENCE).await?;
        }
        let mut findings = Vec::new();
        for mut placed in placed {
            placed.hear(STOP_PATIENCE).await?;
            let cell = placed.cell;
            ensure!(!placed.runs.is_empty(), "{cell}: the sender has no answer");
            placed.deliver_again(&self.second).await?;
            findings.push(self.inspect(placed).await?);
        }
        Ok(findings)
    }
}

fn keys<C>(placed: &[Placed<C>]) -> Vec<&str> {
    placed.iter().map(|placed| placed.id.as_str()).collect()
}
