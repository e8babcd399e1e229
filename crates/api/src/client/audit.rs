//! The audit record.

use super::transfer::read;
use super::{Client, ClientError};
use crate::types::{AuditFilter, AuditRecord, ChainFilter, Page, RemovedFilter, RemovedStretch};

impl Client {
    /// Lists what operators did, latest first.
    pub async fn list_audit(&self, filter: &AuditFilter) -> Result<Page<AuditRecord>, ClientError> {
        read(self.get(&["v1", "audit"]).query(filter)).await
    }

    /// Reads the sealed chain of the record, in its order.
    pub async fn read_audit_chain(
        &self,
        filter: &ChainFilter,
    ) -> Result<Page<AuditRecord>, ClientError> {
        read(self.get(&["v1", "audit", "chain"]).query(filter)).await
    }

    /// Lists the stretches of the chain that retention removed, in its order.
    pub async fn list_removed_audit(
        &self,
        filter: &RemovedFilter,
    ) -> Result<Page<RemovedStretch>, ClientError> {
        read(self.get(&["v1", "audit", "removed"]).query(filter)).await
    }
}
