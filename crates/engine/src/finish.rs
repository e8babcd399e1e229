//! Finishing what was begun, even where the caller stops awaiting it.
//!
//! A server drops the future of a client that hangs up. Accepting a delivery must not end like
//! that: its run may be committed under this process's lease, with the intent of its first effect,
//! and an intent that no worker follows would become a doubt.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::runtime::Runtime;

/// A future that continues as a task of its own when it is dropped before its end.
struct Finish<T: Send + 'static> {
    future: Option<BoxFuture<'static, T>>,
    tasks: TaskTracker,
    /// Makes a stop wait for it from its beginning.
    _token: TaskTrackerToken,
}

impl<T: Send + 'static> Finish<T> {
    /// Wraps a future; `tasks` are waited for before the process stops.
    fn new(tasks: TaskTracker, future: BoxFuture<'static, T>) -> Self {
        Self {
            future: Some(future),
            _token: tasks.token(),
            tasks,
        }
    }
}

impl Runtime {
    /// Work that continues as a task of its own when its caller stops awaiting it. A stop waits for
    /// it.
    pub fn finish<T, F>(&self, work: F) -> impl Future<Output = T> + Send + use<T, F>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        self.finish_boxed(Box::pin(work))
    }

    /// The same for work that is in a box already.
    pub(crate) fn finish_boxed<T: Send + 'static>(
        &self,
        work: BoxFuture<'static, T>,
    ) -> impl Future<Output = T> + Send + use<T> {
        Finish::new(self.work.turns.clone(), work)
    }
}

impl<T: Send + 'static> Future for Finish<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // One that panics is gone.
        let Some(mut future) = self.future.take() else {
            unreachable!("a future that has ended is not polled")
        };
        let polled = future.as_mut().poll(context);
        if polled.is_pending() {
            self.future = Some(future);
        }
        polled
    }
}

impl<T: Send + 'static> Drop for Finish<T> {
    fn drop(&mut self) {
        // Without a runtime the process is at its end, and its lease will expire.
        if let (Some(future), Ok(runtime)) = (self.future.take(), Handle::try_current()) {
            let rest = async move { drop(future.await) };
            self.tasks.spawn_on(rest, &runtime);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn work_finishes_after_its_caller_stops_waiting() {
        let tasks = TaskTracker::new();
        let (begin, begun) = oneshot::channel::<()>();
        let (end, ended) = oneshot::channel::<()>();
        let mut work = Finish::new(
            tasks.clone(),
            Box::pin(async move {
                let _ = begun.await;
                let _ = end.send(());
            }),
        );
        assert!(futures_util::poll!(&mut work).is_pending());

        drop(work);
        let _ = begin.send(());

        assert!(ended.await.is_ok());
        tasks.close();
        tasks.wait().await;
    }

    #[tokio::test]
    async fn the_value_goes_to_the_caller_that_waits() {
        let tasks = TaskTracker::new();
        assert_eq!(Finish::new(tasks.clone(), Box::pin(async { 7 })).await, 7);
        assert!(tasks.is_empty());
    }
}
