//! The table of guards: one effect under each guard, at every point of its life.

use anyhow::Result;
use semel_testkit::peer::Count;
use semel_testkit::{Connection, Peer, Program};

use super::cell::{Cell, GUARDS, Guard, Point};
use super::fault::Fault;
use super::journal::{Journal, Objections};
use super::oracle;
use super::table::{Approach, Counted, CrashCell, Expected, Table};
use crate::servers::{Home, Served};

/// The destination of one lane's effects.
pub(crate) struct Guards {
    peer: Peer,
}

impl Guards {
    pub(crate) async fn start() -> Result<Self> {
        let peer = Peer::start().await?;
        Ok(Self { peer })
    }
}

impl Table for Guards {
    type Cell = Cell;

    fn peer(&self) -> &Peer {
        &self.peer
    }

    fn equip(&self, program: Program) -> Program {
        program
    }

    async fn introduce(&self, home: &Home, server: &Served) -> Result<()> {
        for guard in GUARDS {
            for opens in [false, true] {
                let flow = guard.flow(&self.peer.url(""), opens);
                let name = guard.flow_name(opens);
                home.publish(server, &name, &flow).await?;
            }
        }
        Ok(())
    }

    /// At most one unanswered commit to each round. Runs whose exchange with the destination is
    /// over stand apart from the others: a connection that is free again would be given to a run
    /// that is held while it connects.
    fn deal(cells: Vec<Cell>) -> Vec<Vec<Cell>> {
        let (early, late): (Vec<Cell>, Vec<Cell>) = cells
            .into_iter()
            .partition(|cell| cell.point < Point::Answered);
        let mut rounds = deal_evenly(early);
        rounds.extend(deal_evenly(late));
        rounds
    }

    /// Every call must have carried the effect's one key.
    async fn count(
        &self,
        home: &Connection,
        cell: Cell,
        id: &str,
        journal: &Journal,
        objections: &mut Objections,
    ) -> Result<Counted> {
        let Some(path) = cell.guard.path(id) else {
            assert_eq!(cell.guard, Guard::Transaction, "all others have a path");
            let entry = format!("count/{id}");
            let count = "SELECT value::text::int8 FROM kv WHERE entry = $1";
            let row = home.query_opt(count, &[&entry]).await?;
            let effects = row.map_or(0, |row| row.get::<_, i64>(0)).unsigned_abs();
            return Ok(Counted {
                effects,
                calls: Some(0),
            });
        };
        let count = self.peer.count(&path).await?;
        journal
            .check_key(&self.peer, count.calls, objections)
            .await?;
        Ok(Counted {
            effects: count.effects,
            calls: Some(count.calls),
        })
    }
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

impl CrashCell for Cell {
    fn fault(self) -> Fault {
        self.fault
    }

    fn flow_name(self) -> String {
        self.guard.flow_name(self.point.is_opening())
    }

    fn path(self, id: &str) -> Option<String> {
        self.guard.path(id)
    }

    fn approach(self) -> Approach {
        self.point.approach()
    }

    fn names_its_run(self) -> bool {
        !self.point.is_on_the_wire()
    }

    fn is_seen(self, count: &Count) -> bool {
        match self.point {
            Point::HalfSent => count.calls == 1,
            Point::Sent => count.effects == 1,
            _ => true,
        }
    }

    fn is_asked_before(self) -> bool {
        self.point >= Point::Answered
    }

    fn is_answered(self) -> bool {
        self.point >= Point::IntentBefore
    }

    fn expect(self) -> Expected {
        oracle::expect(self)
    }
}
