//! What the engine of a rehearsal has, and the engine that serves has not: a stage in place of the
//! executors, and crash points.
//!
//! Both are a field of the [`Runtime`](crate::Runtime) that only
//! [`Engine::rehearse`](crate::Engine::rehearse) fills. No setting, header, row or environment
//! variable leads there.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use semel_model::RunId;
use semel_steps::DestinationStage;

/// What a rehearsal adds to an engine.
#[derive(Clone)]
pub struct Rehearsal {
    /// Answers in place of the executors.
    pub stage: Arc<dyn DestinationStage>,
    /// Where processes end.
    pub points: Arc<dyn CrashPoints>,
    /// The longest pause of a service: a rehearsal has no time to wait.
    pub pause_max: Duration,
}

/// Decides at each commit point whether the process ends there.
pub trait CrashPoints: Send + Sync {
    /// A commit point was reached. A process that ends here does not come back: the future never
    /// completes.
    fn reach<'a>(&'a self, point: CrashPoint<'a>) -> BoxFuture<'a, ()>;
}

/// A place before or after a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrashPoint<'a> {
    /// What is committed, and whether before or after: `intent.after`.
    pub name: &'static str,
    /// The namespace of the run.
    pub namespace_id: i32,
    /// The run.
    pub run: RunId,
    /// The step, where the run stands at one.
    pub step: &'a str,
}
