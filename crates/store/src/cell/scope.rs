//! What a function of the store may touch, as a type: [`SlotCell`] for the rows of one slot,
//! [`HomeCell`] for control data, [`EveryCell`] for the rows of all slots.
//!
//! There is one database today, and all of them lead to it. With several cells each leads elsewhere:
//! to the owner of the slot, to the cell that holds control data, to all of them. So the signature
//! of a function says which database it asks, and the compiler finds the callers that cannot know.
//!
//! A plain [`Cell`] is one database. It is for what belongs to a database and to no slot:
//! connections, the schema and its partitions, the clock, sessions, health, refused deliveries,
//! writers, and the work that a server takes from this database (runs, events, schedules, broadcasts,
//! webhook deliveries). The batch of a writer or of a take mixes slots only to share a commit. It can
//! be split by cell, because nothing in it depends on another slot's row; where that does not hold,
//! a comment `Crosses slots (V…)` says so, and `ARCHITECTURE.md` lists it.

use semel_model::{InSlot, Slot};

use super::{Cell, Lane, ReadError};
use crate::pool::PooledClient;

/// The rows of one slot: made from an identity that carries its slot, with [`Cell::of`].
#[derive(Clone, Copy)]
pub struct SlotCell<'a> {
    cell: &'a Cell,
    slot: Slot,
}

/// Control data: namespaces, flows, releases, connections, data keys, secrets, tokens, subscriptions
/// and the version of them all. Made with [`Cell::home`].
#[derive(Clone, Copy)]
pub struct HomeCell<'a> {
    cell: &'a Cell,
}

/// The rows of all slots: look-ups by something that has no slot, lists, sweeps, and lists of
/// identities from several slots. Made with [`Cell::every`].
#[derive(Clone, Copy)]
pub struct EveryCell<'a> {
    cell: &'a Cell,
}

/// The one database that a change and the record of who made it commit to together: the home cell,
/// or the cell of a slot.
#[derive(Clone, Copy)]
pub struct OneCell<'a> {
    cell: &'a Cell,
}

impl Cell {
    /// The slot that something lives in: `cell.of(run)`.
    pub fn of(&self, one: impl InSlot) -> SlotCell<'_> {
        SlotCell {
            cell: self,
            slot: one.slot(),
        }
    }

    /// Control data.
    pub fn home(&self) -> HomeCell<'_> {
        HomeCell { cell: self }
    }

    /// All slots.
    pub fn every(&self) -> EveryCell<'_> {
        EveryCell { cell: self }
    }
}

impl<'a> SlotCell<'a> {
    /// The slot.
    pub fn slot(self) -> Slot {
        self.slot
    }

    pub(crate) async fn reader(self) -> Result<PooledClient, ReadError> {
        self.cell.reader().await
    }

    pub(crate) fn recovery(self) -> &'a Lane {
        self.cell.recovery()
    }
}

impl HomeCell<'_> {
    pub(crate) async fn reader(self) -> Result<PooledClient, ReadError> {
        self.cell.reader().await
    }
}

impl<'a> EveryCell<'a> {
    pub(crate) async fn reader(self) -> Result<PooledClient, ReadError> {
        self.cell.lister().await
    }

    /// The databases, for what is done in each by itself.
    pub(crate) fn cells(self) -> [&'a Cell; 1] {
        [self.cell]
    }
}

impl OneCell<'_> {
    pub(crate) async fn reader(self) -> Result<PooledClient, ReadError> {
        self.cell.reader().await
    }
}

impl<'a> From<SlotCell<'a>> for OneCell<'a> {
    fn from(of: SlotCell<'a>) -> Self {
        Self { cell: of.cell }
    }
}

impl<'a> From<HomeCell<'a>> for OneCell<'a> {
    fn from(home: HomeCell<'a>) -> Self {
        Self { cell: home.cell }
    }
}
