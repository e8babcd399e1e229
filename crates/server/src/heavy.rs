//! Work that takes a processor for a while: off the threads that serve requests, and little of it at once.

use std::sync::LazyLock;
use std::time::Duration;

use semel_api::Code;
use semel_model::Span;

use crate::error::ApiError;
use crate::places::FairPlaces;

/// How many such pieces of work there are at once. Others wait: a crowd that asks for texts to be compared
/// must not take every processor from runs.
const AT_ONCE: usize = 3;

/// How many of them are of one namespace, which must not take the places of the others.
const EACH_AT_ONCE: usize = 2;

/// How long one waits for its turn.
const PATIENCE: Duration = Duration::from_secs(10);

static PLACES: LazyLock<FairPlaces<i32>> = LazyLock::new(|| FairPlaces::new(AT_ONCE, EACH_AT_ONCE));

/// Does a piece of work of a namespace once there is a place for it.
///
/// # Errors
///
/// Where there is none for too long, or the work panicked.
pub(crate) async fn compute<T: Send + 'static>(
    namespace_id: i32,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    let Some(place) = PLACES.wait(namespace_id, PATIENCE).await else {
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
            compute(-1 - number % 4, move || {
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

        let done: Vec<i32> = done.into_iter().map(|it| it.unwrap_or(99)).collect();
        assert_eq!(done, (0..12).collect::<Vec<_>>());
        assert!(most.load(Ordering::SeqCst) <= AT_ONCE, "{most:?}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_namespace_that_keeps_its_places_busy_leaves_one_to_the_others() {
        let (running, open) = (
            Arc::new(AtomicUsize::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let busy = (0..EACH_AT_ONCE).map(|_| {
            let (running, open) = (running.clone(), open.clone());
            compute(-11, move || {
                running.fetch_add(1, Ordering::SeqCst);
                let look = || Ok(open.load(Ordering::SeqCst));
                until_blocking("the other to be done", look, |open| *open).unwrap();
            })
        });
        let other = async {
            let look = async || Ok(running.load(Ordering::SeqCst));
            let full = |running: &usize| *running >= EACH_AT_ONCE;
            until("its share to be busy", look, full).await.unwrap();
            let done = compute(-12, || "done").await;
            open.store(true, Ordering::SeqCst);
            done
        };
        let (_, other) = tokio::join!(futures_util::future::join_all(busy), other);

        assert_eq!(other.unwrap(), "done");
    }
}
