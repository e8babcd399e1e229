//! The table of kinds, as the harness plays it.

use anyhow::Result;
use semel_testkit::peer::Count;
use semel_testkit::{Connection, Peer, Program};
use tempfile::TempDir;

use super::super::fault::Fault;
use super::super::journal::{Journal, Objections};
use super::super::table::{Approach, Counted, CrashCell, Expected, Table};
use super::kind::{Cell, Kind, Point};
use super::oracle;
use super::places::{MASTER_KEY, Places};
use crate::queries::until_none;
use crate::servers::{Home, Served};

/// The destinations of one lane, which it shares with the others, and the resources of its servers.
pub(super) struct Kinds<'p> {
    places: &'p Places,
    resources: TempDir,
}

impl<'p> Kinds<'p> {
    pub(super) fn new(places: &'p Places) -> Result<Self> {
        let resources = tempfile::tempdir()?;
        Ok(Self { places, resources })
    }
}

impl Table for Kinds<'_> {
    type Cell = Cell;

    fn peer(&self) -> &Peer {
        &self.places.peer
    }

    fn equip(&self, program: Program) -> Program {
        program
            .env("SEMEL_MASTER_KEYS", MASTER_KEY)
            .env("SEMEL_RESOURCES", self.resources.path())
    }

    async fn introduce(&self, home: &Home, server: &Served) -> Result<()> {
        self.places.introduce(home, server).await
    }

    /// Two rounds. A connection that is free again would be given to a run that is held while it
    /// connects, so requests that were answered stand apart. A server dispatches one event at a
    /// time, so there is one of those in each.
    fn deal(cells: Vec<Cell>) -> Vec<Vec<Cell>> {
        let (early, late) = cells
            .into_iter()
            .partition(|cell| cell.point < Point::Answered || cell.point == Point::SpreadBefore);
        let mut rounds: Vec<Vec<Cell>> = vec![early, late];
        rounds.retain(|round| !round.is_empty());
        rounds
    }

    async fn count(
        &self,
        home: &Connection,
        cell: Cell,
        id: &str,
        journal: &Journal,
        objections: &mut Objections,
    ) -> Result<Counted> {
        if cell.kind == Kind::Emit {
            // Every event is with its receivers, and those have ended.
            let unfinished = "SELECT (SELECT count(*) FROM outbox)
                                   + (SELECT count(*) FROM runs WHERE state = 'active')";
            until_none(home, unfinished).await?;
        }
        if let Some(path) = cell.path(id) {
            let count = self.places.peer.count(&path).await?;
            journal
                .check_key(&self.places.peer, count.calls, objections)
                .await?;
        }
        Ok(Counted {
            effects: self.places.count(home, cell.kind, id).await?,
            calls: None,
        })
    }
}

impl CrashCell for Cell {
    fn fault(self) -> Fault {
        self.fault
    }

    fn flow_name(self) -> String {
        self.kind.name().to_owned()
    }

    fn path(self, id: &str) -> Option<String> {
        (self.kind == Kind::Http).then(|| format!("/keyed/{id}"))
    }

    fn approach(self) -> Approach {
        self.point.approach()
    }

    fn names_its_run(self) -> bool {
        self.point.names_its_run()
    }

    fn is_seen(self, count: &Count) -> bool {
        match self.point {
            Point::HalfSent => count.calls == 1,
            Point::Sent => count.effects == 1,
            _ => true,
        }
    }

    fn is_answered(self) -> bool {
        true
    }

    fn expect(self) -> Expected {
        oracle::expect(self)
    }
}
