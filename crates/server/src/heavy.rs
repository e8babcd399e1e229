//! Work that takes a processor for a while: off the threads that serve requests, and little of it at once.

use std::time::Duration;

use semel_api::Code;
use semel_model::Span;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::error::ApiError;

/// How many such pieces of work there are at once. Others wait: a crowd that asks for texts to be compared
/// must not take every processor from runs.
const AT_ONCE: usize = 2;

/// How long one waits for its turn.
const PATIENCE: Duration = Duration::from_secs(10);

static PLACES: Semaphore = Semaphore::const_new(AT_ONCE);

/// Does a piece of work once there is a place for it.
///
/// # Errors
///
/// Where there is none for too long, or the work panicked.
pub(crate) async fn compute<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    let Ok(Ok(place)) = timeout(PATIENCE, PLACES.acquire()).await else {
        let detail = "too many texts are being worked through at this moment";
        let error = ApiError::new(Code::TooManyRequests, detail);
        return Err(error.retry_in(Span::from_secs(PATIENCE.as_secs())));
    };
    // The place is kept until the work ends, also where who asked for it has left.
    let working = tokio::task::spawn_blocking(move || {
        let done = work();
        drop(place);
        done
    });
    let done = working.await;
    done.map_err(|_| ApiError::internal("a piece of work panicked"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use semel_testkit::until;
    use semel_testkit::waiting::until_blocking;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn little_is_done_at_once_and_everything_gets_its_turn() {
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let open = Arc::new(AtomicBool::new(false));

        let all = (0..12).map(|number| {
            let (running, most, open) = (running.clone(), most.clone(), open.clone());
            compute(move || {
                let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                let look = || Ok(open.load(Ordering::SeqCst));
                until_blocking("the gate to open", look, |open| *open).unwrap();
                running.fetch_sub(1, Ordering::SeqCst);
                number
            })
        });
        // All have asked for a place before the first of them ends.
        let opening = async {
            let look = async || Ok(running.load(Ordering::SeqCst));
            let full = |running: &usize| *running >= AT_ONCE;
            until("work in every place", look, full).await.unwrap();
            open.store(true, Ordering::SeqCst);
        };
        let (done, ()) = tokio::join!(futures_util::future::join_all(all), opening);

        let done: Vec<usize> = done.into_iter().map(|it| it.unwrap_or(99)).collect();
        assert_eq!(done, (0..12).collect::<Vec<_>>());
        assert!(most.load(Ordering::SeqCst) <= AT_ONCE, "{most:?}");
    }
}
