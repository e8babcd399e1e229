//! A process of a rehearsal: an engine on threads of its own, which can be paused and ended.
//!
//! Ending one discards what it knew, its queued writes and its connections, as a crash does.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use semel_engine::{Engine, Options, Rehearsal};
use semel_store::Cell;
use semel_store::rehearsals::RehearsalSchema;
use tokio::runtime::{Builder, Runtime};

use crate::error::RehearseError;
use crate::stage::{Hall, ProcessStage};

/// The longest pause of a service.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// How many threads a process has.
const THREADS: usize = 1;

/// An engine on threads of its own.
pub(crate) struct Process {
    engine: Engine,
    stage: Arc<ProcessStage>,
    threads: Option<Runtime>,
}

impl Process {
    /// Starts an engine on a rehearsal's schema.
    pub(crate) async fn start(
        live: &Cell,
        schema: &RehearsalSchema,
        options: &Options,
        hall: &Arc<Hall>,
    ) -> Result<Self, RehearseError> {
        let threads = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("rehearsal")
            .on_thread_start(stand_back)
            .enable_all()
            .build()?;
        let stage = Arc::new(ProcessStage::new(hall.clone()));
        let rehearsal = Rehearsal {
            stage: stage.clone(),
            points: stage.clone(),
            pause_max: PAUSE_MAX,
        };
        let (cell, options) = (live.in_schema(schema), options.clone());
        let started = threads.spawn(Engine::rehearse(cell, options, rehearsal));
        let started = started.await;
        match started {
            Ok(Ok(engine)) => Ok(Self {
                engine,
                stage,
                threads: Some(threads),
            }),
            failed => {
                threads.shutdown_background();
                match failed {
                    Ok(Err(error)) => Err(error.into()),
                    Ok(Ok(_)) | Err(_) => Err(RehearseError::Stopped),
                }
            }
        }
    }

    /// Has something done by the process.
    ///
    /// # Errors
    ///
    /// Where it panics.
    pub(crate) async fn run<T, F>(&self, work: impl FnOnce(Engine) -> F) -> Result<T, RehearseError>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let Some(threads) = &self.threads else {
            return Err(RehearseError::Stopped);
        };
        let done = threads.spawn(work(self.engine.clone())).await;
        done.map_err(|_| RehearseError::Stopped)
    }

    /// Has something done by the process, without waiting for it.
    pub(crate) fn begin<F>(&self, work: impl FnOnce(Engine) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        if let Some(threads) = &self.threads {
            threads.spawn(work(self.engine.clone()));
        }
    }

    /// The stage, as the process sees it.
    pub(crate) fn stage(&self) -> &ProcessStage {
        &self.stage
    }

    /// Whether nothing moves in the process but what stands still.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.engine.count_in_hand() <= self.stage.count_held()
    }

    /// Pauses the process: what it holds can be taken over once its lease is over.
    pub(crate) fn pause(&self) {
        self.engine.suspend();
    }
}

/// How much less than the server's own work a rehearsal gets where processors are busy.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 5;

/// A rehearsal stands back behind what is live, and what its processes lose and take over belongs
/// into no log of the server.
fn stand_back() {
    // Of this thread alone. Where that cannot be, the rehearsal is as important as the rest.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, NICENESS);
    let silence = tracing::subscriber::set_default(tracing::subscriber::NoSubscriber::new());
    // It lasts as long as the thread.
    std::mem::forget(silence);
}

impl Drop for Process {
    fn drop(&mut self) {
        self.engine.suspend();
        if let Some(threads) = self.threads.take() {
            threads.shutdown_background();
        }
    }
}
