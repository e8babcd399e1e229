//! What a crash table tells the harness: its cells, its destinations, and what each cell must come to.

use std::fmt;

use anyhow::Result;
use semel_testkit::peer::Count;
use semel_testkit::{Connection, Peer, Program};

use super::fault::Fault;
use super::journal::{Journal, Objections};
use crate::servers::{Home, Served};

/// One place of a table: the harness brings a run there, and then the fault strikes.
pub(crate) trait CrashCell: Copy + fmt::Display {
    /// What happens to the server.
    fn fault(self) -> Fault;

    /// The flow that has the effect.
    fn flow_name(self) -> String;

    /// Where the HTTP destination counts the effect of a run, if it is a request.
    fn path(self, id: &str) -> Option<String>;

    /// How a run is brought to its point.
    fn approach(self) -> Approach;

    /// Whether the fault point knows its run's key.
    fn names_its_run(self) -> bool;

    /// Whether the destination has seen what it has to see before the fault strikes.
    fn is_seen(self, count: &Count) -> bool;

    /// Whether the destination was asked before the run is at its point. On a slow machine the first try may fail to
    /// connect, and the run comes to its point all the same.
    fn is_asked_before(self) -> bool {
        false
    }

    /// Whether the sender has its answer before the run is at its point.
    fn is_answered(self) -> bool;

    /// What it must come to.
    fn expect(self) -> Expected;
}

/// How a run is brought to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Approach {
    /// The server is held at a fault point.
    Point(&'static str),
    /// The destination acts and holds its answer.
    Destination,
    /// From the fault point on, the proxy holds the answers to commits. The commit is made when the
    /// journal has this event.
    UnansweredCommit(&'static str, &'static str),
    /// The sender was answered, and the server is let go from the first fault point and held at the
    /// second, unless the other server gets there first.
    Dispatch(&'static str, &'static str),
}

impl Approach {
    /// The fault point that is armed before the delivery.
    pub(crate) fn first_point(self) -> Option<&'static str> {
        match self {
            Self::Point(point) | Self::UnansweredCommit(point, _) | Self::Dispatch(point, _) => {
                Some(point)
            }
            Self::Destination => None,
        }
    }
}

/// A table in one lane: what its cells act on.
pub(crate) trait Table {
    /// One place of the table.
    type Cell: CrashCell;

    /// The HTTP destination.
    fn peer(&self) -> &Peer;

    /// Gives a server the settings that the steps need.
    fn equip(&self, program: Program) -> Program;

    /// Publishes the flows, and whatever they need, by one server of the installation.
    async fn introduce(&self, home: &Home, server: &Served) -> Result<()>;

    /// Deals the cells of one fault into rounds.
    fn deal(cells: Vec<Self::Cell>) -> Vec<Vec<Self::Cell>>;

    /// What the destination of a cell counted.
    async fn count(
        &self,
        home: &Connection,
        cell: Self::Cell,
        id: &str,
        journal: &Journal,
        objections: &mut Objections,
    ) -> Result<Counted>;
}

/// How a run may stand at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Succeeded,
    InDoubt,
}

impl End {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::InDoubt => "in_doubt",
        }
    }
}

/// What a cell must come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) end: End,
    /// What the destination must have counted.
    pub(crate) counted: Counted,
    /// Who the journal says knows that it happened.
    pub(crate) by: Option<&'static str>,
}

/// What a destination counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    /// How often it acted.
    pub(crate) effects: u64,
    /// How many requests reached it, probes aside, where the table asks for that.
    pub(crate) calls: Option<u64>,
}

/// What became of a cell.
#[derive(Debug)]
pub(crate) struct Finding<C> {
    pub(crate) cell: C,
    pub(crate) state: String,
    pub(crate) counted: Counted,
    /// Everything that is not as it must be.
    pub(crate) objections: Vec<String>,
}

impl<C: CrashCell> Finding<C> {
    /// Whether the destination acted more often than the table allows, which nothing excuses.
    pub(crate) fn is_twice(&self) -> bool {
        self.counted.effects > self.cell.expect().counted.effects.max(1)
    }
}
