//! The backlog of a namespace: new deliveries are refused while too many of its runs wait for a server.
//!
//! For what comes from outside. An event, an instant of a schedule, a call of another flow is committed
//! already: refusing it would lose it.

use std::sync::Arc;
use std::time::Instant;

use semel_model::ClaimId;
use semel_store::{ReadError, claims, queue};

use super::{Inbound, IntakeError};
use crate::runtime::{Backlog, Runtime};

impl Runtime {
    /// Refuses a delivery of a namespace whose backlog is full. A repeat of a known key is not refused: it
    /// starts nothing.
    pub(super) async fn must_have_room(
        self: &Arc<Self>,
        inbound: &Inbound,
    ) -> Result<(), IntakeError> {
        let release = &inbound.release;
        let namespaces = self.catalogue.namespaces();
        let own = namespaces.iter().find(|it| it.id == release.namespace_id);
        let Some(most) = own.and_then(|own| own.backlog_max) else {
            return Ok(());
        };
        if !self.has_backlog(release.namespace_id, most).await? {
            return Ok(());
        }
        let (space, key) = (inbound.space, &inbound.key);
        let claim = ClaimId::derive_in(space, &release.namespace, &release.flow.name, key);
        if claims::find(self.cell.of(claim), claim).await?.is_some() {
            return Ok(());
        }
        self.metrics.backlog_refused.add_one();
        Err(IntakeError::BacklogFull { most })
    }

    /// Whether so many runs of a namespace are due and wait for a server.
    async fn has_backlog(
        self: &Arc<Self>,
        namespace_id: i32,
        most: i32,
    ) -> Result<bool, ReadError> {
        match self.local.backlogs.look(namespace_id, Instant::now()) {
            Backlog::Known(is_full) => Ok(is_full),
            Backlog::Lately(is_full) => {
                let runtime = self.clone();
                tokio::spawn(async move {
                    if let Err(error) = runtime.count_backlog(namespace_id, most).await {
                        tracing::debug!(%error, "failed to count the runs that wait");
                    }
                });
                Ok(is_full)
            }
            Backlog::Unknown => self.count_backlog(namespace_id, most).await,
        }
    }

    async fn count_backlog(&self, namespace_id: i32, most: i32) -> Result<bool, ReadError> {
        let most = i64::from(most);
        let waiting = queue::count_backlog(self.cell.every(), namespace_id, most).await?;
        let is_full = waiting >= most;
        self.local
            .backlogs
            .note(namespace_id, is_full, Instant::now());
        Ok(is_full)
    }
}
