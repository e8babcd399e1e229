//! An engine that does nothing by itself: whoever tests every order of two commands takes and drives runs, and makes the
//! passes of services, when it wants. Nothing of the product starts one.

use std::sync::Arc;

use semel_store::Cell;

use super::Engine;
use crate::options::Options;
use crate::runtime::{Runtime, StartError};
use crate::services::{self, SinglePass};
use crate::turn::take::{RunToBegin, within_patience};

impl Engine {
    /// Begins a session and starts no service. Nothing renews the session, so its lease has to outlast the test.
    pub async fn start_idle(cell: Cell, options: Options) -> Result<Self, StartError> {
        let runtime = Arc::new(Runtime::start(cell, options, None).await?);
        Ok(Self {
            runtime,
            services: Arc::default(),
        })
    }

    /// Takes runs that are due, so many at the most, by the statement of the poller, and drives them until no turn is
    /// left. Says how many were taken.
    pub async fn drive_due(&self, most: usize) -> Result<usize, String> {
        let runtime = &self.runtime;
        let session = runtime.session();
        let mut taker = runtime.work.single.lock().await;
        let taken = within_patience(taker.take(session.id, most)).await;
        if taken.is_err() {
            taker.recover_link().await;
        }
        drop(taker);
        let taken = taken?;
        runtime.clock.set(taken.now);
        let begin = |taken: semel_store::queue::Taken| RunToBegin {
            holding: runtime.work.holdings.carry(session.id, taken.run),
            session: session.clone(),
            taken,
        };
        let runs: Vec<RunToBegin> = taken.taken.into_iter().map(begin).collect();
        let count = runs.len();
        runtime.begin_all(runs).await;
        self.until_idle().await;
        Ok(count)
    }

    /// Waits until no turn is left, nor what turns began.
    pub async fn until_idle(&self) {
        let turns = &self.runtime.work.turns;
        turns.close();
        turns.wait().await;
        turns.reopen();
    }

    /// Makes one pass of a service, and waits for what it began. Says whether another pass would follow at once.
    pub async fn pass(&self, of: SinglePass) -> Result<bool, String> {
        let passed = services::pass_once(&self.runtime, of).await;
        self.until_idle().await;
        passed.map_err(|error| error.to_string())
    }
}
