//! Retention: what is over is forgotten, in small batches.

use std::sync::Arc;
use std::time::Duration;

use semel_store::{ReadError, retain};

use crate::engine::Inner;

/// How often each process looks for what is over.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// How long a process rests between two full batches, so that forgetting never crowds out accepting.
const BATCH_PAUSE: Duration = Duration::from_millis(100);

/// Forgets what is over, for as long as the process lives.
pub async fn keep_forgetting(inner: Arc<Inner>) {
    loop {
        if let Err(error) = forget(&inner).await {
            tracing::warn!(%error, "could not forget what is over");
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Forgets everything that is over now.
pub async fn forget(inner: &Inner) -> Result<(), ReadError> {
    retain::make_partitions(&inner.cell).await?;
    retain::sweep(&inner.cell).await?;
    loop {
        let (forgotten, more) = retain::forget_keys(&inner.cell).await?;
        inner.metrics.keys_forgotten.add(forgotten);
        if !more {
            return Ok(());
        }
        tokio::time::sleep(BATCH_PAUSE).await;
    }
}
