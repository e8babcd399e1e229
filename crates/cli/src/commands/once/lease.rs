//! The lease of a hold: heartbeats, and how to tell that it is lost.
//!
//! Time is measured by `CLOCK_BOOTTIME`, which counts while the machine is suspended. A lease counts
//! from when a heartbeat that was answered was sent.

use std::cell::Cell;
use std::time::Duration;

use semel_api::types::HeartbeatOnce;
use semel_api::{Client, ClientError, Code};
use semel_engine::boottime::Boottime;

use crate::commands::worker::passes;
use crate::output;

/// The longest time between two looks at the clock.
const TICK_MAX: Duration = Duration::from_secs(1);

/// Keeps a lease.
pub(super) struct Lease {
    client: Client,
    beat: HeartbeatOnce,
    span: Duration,
    /// When the latest heartbeat that was answered was sent.
    answered: Cell<Boottime>,
    /// Whether the server says that the hold is another's or over.
    lost: Cell<bool>,
}

impl Lease {
    /// A lease that was granted to a request sent at `since`.
    pub(super) fn new(
        client: Client,
        beat: HeartbeatOnce,
        span: Duration,
        since: Boottime,
    ) -> Self {
        Self {
            client,
            beat,
            span,
            answered: Cell::new(since),
            lost: Cell::new(false),
        }
    }

    /// Sends heartbeats, every third of the lease, for as long as there is something to keep.
    pub(super) async fn keep(&self) {
        while !self.lost.get() {
            self.until(self.span / 3).await;
            self.send().await;
        }
        std::future::pending::<()>().await;
    }

    /// Completes when the server says that the lease is lost, or does not answer for two thirds of
    /// it.
    pub(super) async fn is_lost(&self) {
        while !self.lost.get() && self.silence() < self.span * 2 / 3 {
            tokio::time::sleep(self.tick()).await;
        }
    }

    async fn send(&self) {
        let sent = Boottime::now();
        match self.client.heartbeat_once(&self.beat, self.span / 3).await {
            Ok(_) => self.answered.set(sent),
            Err(error) if is_refusal(&error) => {
                output::note("semel: the lease of the key is lost");
                self.lost.set(true);
            }
            Err(error) if passes(&error) => tokio::time::sleep(self.tick()).await,
            Err(error) => {
                output::note(&format!("semel: a heartbeat failed: {error}"));
                tokio::time::sleep(self.span / 3).await;
            }
        }
    }

    async fn until(&self, silence: Duration) {
        while self.silence() < silence {
            tokio::time::sleep(self.tick()).await;
        }
    }

    /// How long ago the latest heartbeat that was answered was sent.
    fn silence(&self) -> Duration {
        let (now, then) = (Boottime::now().as_millis(), self.answered.get().as_millis());
        Duration::from_millis(now.saturating_sub(then))
    }

    fn tick(&self) -> Duration {
        (self.span / 12).min(TICK_MAX)
    }
}

fn is_refusal(error: &ClientError) -> bool {
    match error {
        ClientError::Problem(problem) => {
            matches!(
                problem.code(),
                Some(Code::OnceNotHeld | Code::OnceNotFound | Code::OnceHeldByRun)
            )
        }
        ClientError::Address(_) | ClientError::Unreachable(_) | ClientError::Malformed { .. } => {
            false
        }
    }
}
