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
use semel_store::{Cell, sessions};

use super::StartError;
use crate::boottime::Boottime;

/// One session and what belongs to it.
pub struct WorkerSession {
    /// The session.
    pub id: SessionId,
    /// Makes calls for as long as the session's gate is open.
    pub executors: Executors,
    gate: Arc<Gate>,
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
    /// Begins a session.
    pub async fn begin(
        cell: &Cell,
        process: &str,
        lease: Span,
        reach: &Reach,
    ) -> Result<Self, StartError> {
        let begun = Boottime::now();
        let id = SessionId::generate();
        sessions::open(cell, id, process, lease).await?;
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

    /// Whether the database said that the lease is over.
    pub(crate) fn is_lost(&self) -> bool {
        self.gate.lost.load(Ordering::Acquire)
    }

    /// The database says that the lease is over.
    pub(crate) fn lost(&self) {
        self.gate.lost.store(true, Ordering::Release);
    }
}
