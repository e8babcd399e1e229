//! Batches: a little is deleted at a time, with a pause after each, so that deleting never crowds out accepting.

use std::time::Duration;

use futures_util::TryFutureExt as _;
use semel_store::ReadError;

/// The pause after a batch that found something.
pub(super) const BATCH_PAUSE: Duration = Duration::from_millis(100);

/// The most batches of one kind in one pass: a pass ends before long, also where rows expire as fast as they are
/// deleted, and the next one goes on.
pub(super) const BATCHES_MAX: u32 = 10;

/// Deletes batch after batch, at most [`BATCHES_MAX`], until one finds nothing. Says whether there may be more.
pub(super) async fn delete_all<F>(mut batch: impl FnMut() -> F + Send) -> Result<bool, ReadError>
where
    F: Future<Output = Result<u64, ReadError>> + Send,
{
    repeat(|| batch().map_ok(|count| count > 0)).await
}

/// Repeats a batch, at most [`BATCHES_MAX`] times, while it says that there may be more. Says whether there still may be.
pub(super) async fn repeat<F>(mut batch: impl FnMut() -> F + Send) -> Result<bool, ReadError>
where
    F: Future<Output = Result<bool, ReadError>> + Send,
{
    for _ in 0..BATCHES_MAX {
        if !batch().await? {
            return Ok(false);
        }
        tokio::time::sleep(BATCH_PAUSE).await;
    }
    Ok(true)
}
