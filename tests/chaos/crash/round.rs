//! A round: several runs stand at their points when one fault strikes them all.
//!
//! The runs are brought to their points one after another, so that a point without a subject
//! belongs to the run that moves. A commit whose response is held comes last: while it is held, the
//! server's writer is blocked.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use semel_testkit::peer::Behaviour;
use semel_testkit::{Connection, Cut, patience, until};

use super::fault::Fault;
use super::lane::Lane;
use super::placed::Placed;
use super::table::{Approach, CrashCell as _, Finding, Table};
use crate::harness::Harness;
use crate::queries::count;
use crate::servers::Served;

/// How long an answer may take that is on its way when the fault strikes. A sender that hears nothing
/// sends again.
const HEARING: Duration = Duration::from_millis(15);

/// How often a server is refused a connection after its connections were cut.
const REFUSALS: u64 = 2;

/// How often an event may be dispatched by the other server first.
const DISPATCHES_MAX: usize = 10;

/// How often a round may be set up anew because the machine was too slow for its lease.
const SETTINGS_MAX: u32 = 5;

impl<T: Table> Lane<T> {
    /// Plays one round and says what became of each cell.
    pub(crate) async fn play(&mut self, cells: &[T::Cell]) -> Result<Vec<Finding<T::Cell>>> {
        for setting in 0..SETTINGS_MAX {
            self.rounds += 1;
            if setting > 0 {
                self.replace_second(setting).await?;
            }
            let harness = Harness::start()?;
            let mut first = self.start_first(&harness, setting).await?;
            let second = self.sessions(&self.second).await?;
            let client = self.home.connect().await?;
            let mut placed = Vec::new();
            for cell in cells {
                match self.place(&harness, &client, &first, *cell).await? {
                    Some(one) => placed.push(one),
                    None => break,
                }
            }
            if placed.len() < cells.len() || !self.is_set(&placed).await? {
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
            let is_seeded = self.mistake.is_some();
            let rests = |cell: T::Cell, state: &str| {
                // A seeded bug may bring a run to any end.
                state == cell.expect().end.as_str() || (is_seeded && state != "active")
            };
            self.until(&placed, rests).await?;
            let is_calm = self.is_calm(&first, second).await?;
            let findings = self.conclude(first, placed).await?;
            let is_well = findings.iter().all(|it| it.objections.is_empty());
            if is_calm || (is_well && !is_seeded) {
                return Ok(findings);
            }
            println!(
                "{} round {}: a lease ended that the fault did not end, set up again",
                self.fault.name(),
                self.rounds
            );
            let twice = findings.iter().find(|it| it.is_twice() && !is_seeded);
            if let Some(twice) = twice {
                bail!("{}: an effect too many: {:?}", twice.cell, twice.counted);
            }
        }
        bail!("the machine is too slow for any lease")
    }

    /// How many sessions a server has begun: one, and another after each lease that it lost.
    async fn sessions(&self, server: &Served) -> Result<usize> {
        let client = self.home.connect().await?;
        let name = format!("pid {}", server.process.id());
        let sql = "SELECT count(*) FROM sessions WHERE process = $1";
        Ok(client
            .query_one(sql, &[&name])
            .await?
            .get::<_, i64>(0)
            .try_into()?)
    }

    /// Whether no lease ended since the round began but those that the fault ends. What runs come to after another
    /// loss is right as well, and is not what the table says.
    async fn is_calm(&self, first: &Served, second: usize) -> Result<bool> {
        let keeps_its_lease = match self.fault {
            Fault::Kill | Fault::Pause => true,
            Fault::Cut | Fault::Postgres => self.sessions(first).await? == 1,
        };
        Ok(keeps_its_lease && self.sessions(&self.second).await? == second)
    }

    /// Brings one run to its point. None where the other server had it first: the point may have caught that run then.
    async fn place(
        &self,
        harness: &Harness,
        client: &Connection,
        first: &Served,
        cell: T::Cell,
    ) -> Result<Option<Placed<T::Cell>>> {
        let name = cell.to_string().replace(' ', "-");
        for setting in 0..DISPATCHES_MAX {
            let id = format!("{name}-{:04}-{setting}", self.rounds);
            // A machine that stood still for longer than the lease let the other server have the run.
            let Some(mut placed) = self.bring(harness, client, first, cell, id).await? else {
                return Ok(None);
            };
            match cell.approach() {
                Approach::Point(_) | Approach::Destination => return Ok(Some(placed)),
                Approach::UnansweredCommit(_, event) => {
                    self.proxy.hold_commits();
                    placed.let_go().await;
                    until_committed(client, &placed, event).await?;
                    return Ok(Some(placed));
                }
                Approach::Dispatch(_, point) => {
                    let watch = harness.arm(point, None);
                    placed.let_go().await;
                    // The other server looks for events as well, and may be first.
                    tokio::select! {
                        held = watch.until_held() => {
                            placed.hold(held?);
                            return Ok(Some(placed));
                        }
                        spread = until_spread(client, &placed.id) => spread?,
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
        client: &Connection,
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
            tokio::select! {
                held = watch.until_held() => placed.hold(held?),
                taken = until_taken_over(client, &placed.id) => {
                    taken?;
                    return Ok(None);
                }
            }
        }
        if let Some(path) = &path {
            self.until_seen(cell, path).await?;
            let must_be_asked = cell.is_asked_before() && self.mistake.is_none();
            if must_be_asked && self.table.peer().count(path).await?.calls == 0 {
                return Ok(None);
            }
        }
        if cell.is_answered() {
            placed.hear(patience()).await?;
            ensure!(!placed.runs.is_empty(), "{cell}: the sender has no answer");
        }
        Ok(Some(placed))
    }

    /// Waits until the destination has seen what it is to have seen.
    async fn until_seen(&self, cell: T::Cell, path: &str) -> Result<()> {
        let look = async || self.table.peer().count(path).await;
        let what = format!("a request at {path}");
        until(&what, look, |count| cell.is_seen(count)).await?;
        Ok(())
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
        let before = self.proxy.accepted();
        self.proxy.cut(Cut::Reset);
        self.let_go(placed).await?;
        let tries = async || Ok(self.proxy.accepted());
        until("a server that looks for its database", tries, |tries| {
            *tries >= before + REFUSALS
        })
        .await?;
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
            placed.hear(HEARING).await?;
            if placed.runs.is_empty() {
                placed.deliver_again(&self.second).await?;
            }
        }
        Ok(())
    }

    /// Waits until the first server's lease is over.
    async fn until_alone(&self) -> Result<()> {
        let client = self.home.connect().await?;
        let live = "SELECT count(*) FROM sessions WHERE expires_at > moment()";
        let look = async || count(&client, live).await;
        until("the lease of a paused server to end", look, |live| {
            *live <= 1
        })
        .await?;
        Ok(())
    }

    /// Waits until every run stands as wanted. A run that never does is judged later.
    async fn until(
        &self,
        placed: &[Placed<T::Cell>],
        wanted: impl Fn(T::Cell, &str) -> bool,
    ) -> Result<()> {
        let client = self.home.connect().await?;
        let states = "SELECT convert_from(key, 'UTF8'), state::text FROM runs
                       WHERE convert_from(key, 'UTF8') = ANY ($1)";
        let look = async || -> Result<Vec<String>> {
            let rows = client.query(states, &[&keys(placed)]).await?;
            let mut left = Vec::new();
            for placed in placed {
                let row = rows.iter().find(|row| row.get::<_, &str>(0) == placed.id);
                let state: Option<&str> = row.map(|row| row.get(1));
                if !state.is_some_and(|state| wanted(placed.cell, state)) {
                    left.push(format!("{} is {state:?}", placed.id));
                }
            }
            Ok(left)
        };
        let rest = until("all runs to come to rest", look, |left| left.is_empty()).await;
        if let Err(error) = rest {
            println!("{error:#}");
        }
        Ok(())
    }

    /// Ends the first server, so that nothing can happen any more, and looks at every cell.
    async fn conclude(
        &self,
        mut first: Served,
        placed: Vec<Placed<T::Cell>>,
    ) -> Result<Vec<Finding<T::Cell>>> {
        if self.fault != Fault::Kill {
            first.process.sigterm()?;
            first.process.until_exit(patience()).await?;
        }
        let mut findings = Vec::new();
        for mut placed in placed {
            placed.hear(patience()).await?;
            let cell = placed.cell;
            ensure!(!placed.runs.is_empty(), "{cell}: the sender has no answer");
            placed.deliver_again(&self.second).await?;
            findings.push(self.inspect(placed).await?);
        }
        Ok(findings)
    }
}

/// Waits until a commit whose answer is held can be seen past the proxy.
async fn until_committed<C>(client: &Connection, placed: &Placed<C>, event: &str) -> Result<()> {
    let written = format!("%\"{event}\"%");
    let look = async || -> Result<i64> {
        let rows = "SELECT count(*) FROM runs r JOIN journal j ON j.run_id = r.id
                     WHERE r.key = convert_to($1, 'UTF8') AND j.events::text LIKE $2";
        Ok(client
            .query_one(rows, &[&placed.id, &written])
            .await?
            .get(0))
    };
    let what = format!("a commit of {}", placed.id);
    until(&what, look, |rows| *rows > 0).await?;
    Ok(())
}

/// Waits until an event of a run is with its receivers.
async fn until_spread(client: &Connection, id: &str) -> Result<()> {
    let look = async || -> Result<i64> {
        let left = "SELECT count(*) FROM outbox o JOIN runs r ON r.id = o.run_id
                     WHERE r.key = convert_to($1, 'UTF8')";
        Ok(client.query_one(left, &[&id]).await?.get(0))
    };
    let what = format!("the event of {id} with its receivers");
    until(&what, look, |left| *left == 0).await?;
    Ok(())
}

/// Waits until a run has moved under another lease than its first.
async fn until_taken_over(client: &Connection, id: &str) -> Result<()> {
    let look = async || -> Result<i64> {
        let rows = "SELECT count(*) FROM runs r JOIN journal j ON j.run_id = r.id
                     WHERE r.key = convert_to($1, 'UTF8') AND j.epoch > 1";
        Ok(client.query_one(rows, &[&id]).await?.get(0))
    };
    let what = format!("{id} at its point, or with another server");
    until(&what, look, |rows| *rows > 0).await?;
    Ok(())
}

fn keys<C>(placed: &[Placed<C>]) -> Vec<&str> {
    placed.iter().map(|placed| placed.id.as_str()).collect()
}
