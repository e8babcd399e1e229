//! The lease: a process's dated right to move runs.
//!
//! One session per process is renewed, not the runs that it holds. Expiry is judged by the database
//! alone. The process itself stops sending well before: two thirds of the lease after the *start*
//! of the last renewal that succeeded, measured with a clock that suspend does not stop.
//!
//! A session that expired is never revived. The process begins another, with connections of its
//! own; what still runs under the old one can neither send nor write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use semel_model::{SessionId, Span};
use semel_steps::{Executors, Reach, SendGate};
use semel_store::{Cell, ReadError, sessions};

use super::StartError;
use crate::boottime::Boottime;
use crate::state_lock::StateLock;

/// One session and what belongs to it.
pub struct WorkerSession {
    /// The session.
    pub id: SessionId,
    /// Makes calls for as long as the session's gate is open.
    pub executors: Executors,
    gate: Arc<Gate>,
    /// Whether its row says which lock its process has.
    has_lock: AtomicBool,
}

/// Open while the lease certainly holds.
#[derive(Debug)]
struct Gate {
    open_until: AtomicU64,
    lost: AtomicBool,
}

impl SendGate for Gate {
    fn is_open(&self) -> bool {
        !self.lost.load(Ordering::Acquire)
            && Boottime::now().as_millis() < self.open_until.load(Ordering::Acquire)
    }
}

impl Gate {
    fn renewed(&self, begun: Boottime, lease: Span) {
        let until = begun.as_millis() + lease.as_millis() * 2 / 3;
        self.open_until.store(until, Ordering::Release);
    }
}

impl WorkerSession {
    /// Begins a session. Where the process has the lock of its state folder, the file names the session before there
    /// is one: nobody can get the lock and miss it.
    pub(crate) async fn begin(
        cell: &Cell,
        process: &str,
        lease: Span,
        reach: &Reach,
        lock: Option<&StateLock>,
    ) -> Result<Self, StartError> {
        let begun = Boottime::now();
        let id = SessionId::generate();
        let place = match lock {
            Some(lock) => lock.name(id).await,
            None => None,
        };
        sessions::open_with_lock(cell, id, process, lease, place).await?;
        let gate = Arc::new(Gate {
            open_until: AtomicU64::new(0),
            lost: AtomicBool::new(false),
        });
        gate.renewed(begun, lease);
        let executors = Executors::new(gate.clone(), reach)?;
        Ok(Self {
            id,
            executors,
            gate,
            has_lock: AtomicBool::new(place.is_some()),
        })
    }

    /// Whether the lease certainly holds.
    pub fn is_live(&self) -> bool {
        self.gate.is_open()
    }

    /// The database confirmed the lease, asked for at `begun`.
    pub(crate) fn renewed(&self, begun: Boottime, lease: Span) {
        self.gate.renewed(begun, lease);
    }

    /// Has the row of a session that was begun without the lock say which lock its process has since then, once the
    /// file names it.
    pub(crate) async fn note_lock(&self, cell: &Cell, lock: &StateLock) -> Result<(), ReadError> {
        if self.has_lock.load(Ordering::Acquire) {
            return Ok(());
        }
        if let Some(place) = lock.name(self.id).await {
            sessions::note_lock(cell, self.id, place).await?;
            self.has_lock.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Whether the database said that the lease is over.
    pub(crate) fn is_lost(&self) -> bool {
        self.gate.lost.load(Ordering::Acquire)
    }

    /// The database says that the lease is over.
    pub(crate) fn lost(&self) {
        self.gate.lost.store(true, Ordering::Release);
    }
}
