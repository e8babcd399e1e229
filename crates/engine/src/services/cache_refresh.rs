//! Refreshes what this process caches of the configuration: releases, connections and secrets.

use std::sync::Arc;
use std::time::Duration;

use crate::runtime::Runtime;

/// How often a process asks whether its cache is stale.
const REFRESH_EVERY: Duration = Duration::from_millis(500);

/// Looks for changes of the configuration for as long as the process lives.
pub(crate) async fn keep_fresh(runtime: Arc<Runtime>) {
    loop {
        tokio::time::sleep(REFRESH_EVERY).await;
        if let Err(error) = runtime.catalogue.refresh().await {
            tracing::debug!(%error, "failed to refresh the catalogue");
        }
        if let Err(error) = runtime.vault.refresh().await {
            tracing::debug!(%error, "failed to refresh the vault");
        }
    }
}
