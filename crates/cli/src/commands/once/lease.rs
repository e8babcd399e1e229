//! The lease of a hold: heartbeats, and how to tell that it is lost.
//!
//! Time is measured by `CLOCK_BOOTTIME`, which counts while the machine is suspended. A lease counts
//! from when a heartbeat that was answered was sent.

use std::cell::Cell;
use std::time::Duration;

use semel_api::types::HeartbeatOnce;
use semel_api::{Client, ClientError, Code};
use semel_engine::boottime::Boottime;

use super::limit::{Terms, silence_max};
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

    /// Whether a command may be started. A lease that was left alone for long, because this process
    /// was stopped, is renewed first; under one that is over another process may have begun.
    pub(super) async fn is_fresh(&self) -> bool {
        while self.is_silent() {
            if self.lost.get() || self.silence() >= self.span {
                return false;
            }
            self.send().await;
        }
        true
    }

    /// What a supervisor goes by from now on.
    pub(super) fn terms(&self) -> Terms {
        Terms {
            lease_ms: u64::try_from(self.span.as_millis()).unwrap_or(u64::MAX),
            answered_ms: self.answered.get().as_millis(),
        }
    }

    /// Sends heartbeats, every third of the lease, for as long as there is something to keep.
    /// `answered` gets the time of each that the server answered.
    pub(super) async fn keep(&self, answered: impl Fn(Boottime)) {
        while !self.lost.get() {
            self.until(self.span / 3).await;
            if self.send().await {
                answered(self.answered.get());
            }
        }
        std::future::pending::<()>().await;
    }

    /// Completes when the server says that the lease is lost, or does not answer for two thirds of
    /// it.
    pub(super) async fn is_lost(&self) {
        while !self.is_silent() {
            tokio::time::sleep(self.tick()).await;
        }
    }

    /// Whether the lease is lost, or was not renewed for two thirds of its time.
    pub(super) fn is_silent(&self) -> bool {
        self.lost.get() || self.silence() >= silence_max(self.span)
    }

    /// Sends a heartbeat, and says whether the server answered that the lease is renewed.
    async fn send(&self) -> bool {
        let sent = Boottime::now();
        match self.client.heartbeat_once(&self.beat, self.span / 3).await {
            Ok(_) => {
                self.answered.set(sent);
                return true;
            }
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
        false
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
