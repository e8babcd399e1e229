//! The faults, and what follows them.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result};
use hyper::Method;
use semel_testkit::peer::Behaviour;
use semel_testkit::{Cut, patience, until};
use serde_json::json;
use tokio::time::timeout;

use super::cell::{Cell, Fault, Meeting, Point};
use super::lane::{Lane, Placed, deliver};
use super::oracle::{Role, Scene};
use super::snapshot::{Objections, Snapshot};
use crate::servers::Served;

/// How long a commit is waited for whose answer is to be lost. All are played again where another commit
/// was first on the wire.
const COMMIT: Duration = Duration::from_secs(10);

/// The commit whose answer was to be lost was not made.
#[derive(Debug)]
pub(super) struct NotCommitted;

impl fmt::Display for NotCommitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing was committed")
    }
}

impl std::error::Error for NotCommitted {}

impl Lane {
    /// Kills or pauses the first server with all runs in its hands, and has another take over.
    /// Returns that one, which is alone then, and what was not as it must be before the first woke up.
    pub(super) async fn strike(&mut self, cells: &[Cell]) -> Result<(Served, Objections)> {
        let mut placed = Vec::new();
        for cell in cells {
            let at = self.place(*cell).await;
            placed.push(at.with_context(|| cell.to_string())?);
        }
        self.cancel(cells).await?;
        let second = self.start_second().await?;
        for cell in cells.iter().filter(|cell| cell.is_held_later()) {
            let hold = Behaviour::HoldBeforeAnswer;
            self.peer.next(&cell.path(), hold).await?;
        }
        match self.fault {
            Fault::Pause => self.first.process.sigstop()?,
            Fault::Kill | Fault::LostAnswer => drop(self.first.process.sigkill()?),
        }
        self.send(&second, cells, &[Role::Struck, Role::Later])
            .await?;
        let found = self.until_rest(cells, Scene::TakenOver).await?;
        self.wake(placed).await?;
        self.send(&second, cells, &[Role::Last]).await?;
        self.until_waiting(cells).await?;
        self.peer.let_go().await?;
        self.until_rest(cells, Scene::Woken).await?;
        self.stop_first().await?;
        Ok((second, found))
    }

    /// Asks the runs to end that are to be cancelled, while the first server holds them.
    async fn cancel(&self, cells: &[Cell]) -> Result<()> {
        let snapshot = Snapshot::read(&self.client).await?;
        let cancelled = cells
            .iter()
            .filter(|cell| cell.meeting == Meeting::Cancelled);
        for cell in cancelled {
            let run = snapshot.run(*cell, Role::Struck);
            let run = run.with_context(|| format!("{cell}: no run"))?;
            let path = format!("/v1/runs/{}/cancel", run.run);
            let why = json!({ "reason": "not needed" }).to_string();
            self.home
                .command(&self.first, Method::POST, &path, why)
                .await?;
        }
        Ok(())
    }

    /// Lets the first server continue where it stood, if it lives.
    async fn wake(&mut self, placed: Vec<Placed>) -> Result<()> {
        for held in self.peer.until_held(0, Duration::ZERO).await? {
            let of_first = |at: &Placed| at.cell.path() == held.path && !at.cell.is_held_later();
            if placed.iter().any(of_first) {
                self.peer.let_one_go(&held).await?;
            }
        }
        // Before it wakes up, so that it continues at once and not after it has seen its lease end.
        for mut at in placed {
            if let Some(held) = at.held.take() {
                held.let_go().await;
            }
        }
        if self.fault == Fault::Pause {
            self.first.process.sigcont()?;
            self.home.until_live(&self.first).await?;
        }
        Ok(())
    }

    async fn stop_first(&mut self) -> Result<()> {
        if self.fault == Fault::Pause {
            self.first.process.sigterm()?;
            self.first.process.until_exit(patience()).await?;
        }
        Ok(())
    }

    /// Has the answers to commits lost, a cell at a time; the first server keeps its lease.
    pub(super) async fn lose_answers(&self, cells: &[Cell]) -> Result<()> {
        for cell in cells {
            self.lose_answer(*cell)
                .await
                .with_context(|| cell.to_string())?;
        }
        let roles = [Role::Struck, Role::Later, Role::Last];
        self.send(&self.first, cells, &roles).await?;
        self.peer.let_go().await?;
        self.until_rest(cells, Scene::Woken).await?;
        Ok(())
    }

    async fn lose_answer(&self, cell: Cell) -> Result<()> {
        let mut placed = self.place(cell).await?;
        self.proxy.hold_commits();
        if let Some(held) = placed.held.take() {
            held.let_go().await;
        }
        let look = async || self.is_committed(cell).await;
        let committed = until("a commit without an answer", look, |is_there| *is_there);
        timeout(COMMIT, committed)
            .await
            .map_err(|_| NotCommitted)??;
        self.proxy.cut(Cut::Reset);
        self.proxy.resume();
        // What it still commits must not be before the next cell's commit on the same wire.
        let is_still = |snapshot: &Snapshot| snapshot.is_still(cell);
        let still = self.until("runs that move no more", is_still).await;
        let snapshot = Snapshot::read(&self.client).await?;
        still.with_context(|| snapshot.describe(cell))
    }

    /// Whether the commit behind a point is made, whatever its server knows of it.
    async fn is_committed(&self, cell: Cell) -> Result<bool> {
        let journal = "SELECT count(*) FROM runs r JOIN journal j ON j.run_id = r.id
                        WHERE r.key = convert_to($1, 'UTF8') AND j.events::text ~ $2";
        let holds = "SELECT count(*) FROM runs r JOIN named_effects n ON n.holder_run = r.id
                      WHERE r.key = convert_to($1, 'UTF8') AND n.state::text ~ $2";
        let waits = "SELECT count(*) FROM runs r JOIN named_effect_waiters w ON w.run_id = r.id
                      WHERE r.key = convert_to($1, 'UTF8') AND w.step ~ $2";
        let (sql, mark) = match cell.point {
            Point::AskBefore | Point::AskAfter => (journal, "\"asked\""),
            Point::BeginBefore | Point::BeginAfter => match cell.meeting {
                Meeting::Held | Meeting::InDoubt => (waits, ""),
                Meeting::First
                | Meeting::Awaited
                | Meeting::Failed
                | Meeting::Refused
                | Meeting::Cancelled
                | Meeting::Done => (holds, ""),
            },
            Point::MeetBefore | Point::MeetAfter => (journal, "\"(reused|waiting)\""),
            Point::IntentBefore | Point::IntentAfter | Point::Sent => (journal, "\"intended\""),
            Point::OutcomeBefore | Point::OutcomeAfter => {
                (journal, "\"event\": ?\"(done|failed)\"")
            }
            Point::NoticeBefore | Point::NoticeAfter => (holds, "done|failed"),
        };
        let key = cell.key(Role::Struck);
        let row = self.client.query_one(sql, &[&key, &mark]).await?;
        Ok(row.get::<_, i64>(0) > 0)
    }

    async fn send(&self, server: &Served, cells: &[Cell], roles: &[Role]) -> Result<()> {
        for cell in cells {
            for role in roles {
                deliver(&server.client, *cell, *role).await?;
            }
        }
        Ok(())
    }

    /// Waits until the last runs wait whose holder's answer the destination holds. A run that never does
    /// is judged later.
    async fn until_waiting(&self, cells: &[Cell]) -> Result<()> {
        let wait = |snapshot: &Snapshot| {
            let waits = |cell: &Cell| {
                let last = snapshot.run(*cell, Role::Last);
                snapshot.waits(*cell, Role::Last) || last.is_some_and(|run| run.state != "active")
            };
            cells.iter().filter(|cell| cell.is_held_later()).all(waits)
        };
        let waiting = self
            .bounded(self.until("the last runs to wait", wait))
            .await;
        if let Err(error) = waiting {
            println!("{error:#}");
        }
        Ok(())
    }

    /// Waits until all runs stand as they must; gives what is not as it must be where a seeded bug keeps
    /// them from that.
    pub(super) async fn until_rest(&self, cells: &[Cell], scene: Scene) -> Result<Objections> {
        let look = async || self.object(cells, scene).await;
        let rest = until("all runs to stand as they must", look, |found| {
            found.is_empty()
        });
        match self.bounded(rest).await {
            Err(_) if self.mistake.is_some() => self.object(cells, scene).await,
            found => found,
        }
    }

    /// Objections to how the cells stand now.
    async fn object(&self, cells: &[Cell], scene: Scene) -> Result<Objections> {
        let snapshot = Snapshot::read(&self.client).await?;
        let found = cells
            .iter()
            .map(|cell| (cell.to_string(), snapshot.object_to(*cell, scene)))
            .filter(|(_, objections)| !objections.is_empty());
        Ok(found.collect())
    }
}
