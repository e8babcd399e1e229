//! Held deliveries, and deliveries that were refused.

use semel_model::{DuplicateId, FlowName};

use super::transfer::{carry_out, read};
use super::{Answer, Client, ClientError};
use crate::types::{
    AcceptAsNew, DecidedHeld, Duplicate, HeldReason, Page, RefusedDelivery, RefusedFilter,
};

impl Client {
    /// Lists what is held and not decided, of one flow or of all, those of the latest minute first.
    pub async fn list_held(&self, flow: Option<&FlowName>) -> Result<Page<Duplicate>, ClientError> {
        let mut query = vec![("held", "true")];
        query.extend(flow.map(|flow| ("flow", flow.as_str())));
        read(self.get(&["v1", "duplicates"]).query(&query)).await
    }

    /// Gives a held delivery a run of its own, under a new key.
    pub async fn accept_as_new(
        &self,
        duplicate: DuplicateId,
        accept: &AcceptAsNew,
        key: &str,
    ) -> Result<Answer<DecidedHeld>, ClientError> {
        let path = ["v1", "duplicates", &duplicate.to_string(), "accept-as-new"];
        carry_out(self.post(&path, key).json(accept)).await
    }

    /// Answers a held delivery with the existing run.
    pub async fn accept_as_repeat(
        &self,
        duplicate: DuplicateId,
        accept: &HeldReason,
        key: &str,
    ) -> Result<Answer<DecidedHeld>, ClientError> {
        let path = [
            "v1",
            "duplicates",
            &duplicate.to_string(),
            "accept-as-repeat",
        ];
        carry_out(self.post(&path, key).json(accept)).await
    }

    /// Dismisses a held delivery.
    pub async fn dismiss_held(
        &self,
        duplicate: DuplicateId,
        dismiss: &HeldReason,
        key: &str,
    ) -> Result<Answer<DecidedHeld>, ClientError> {
        let path = ["v1", "duplicates", &duplicate.to_string(), "dismiss"];
        carry_out(self.post(&path, key).json(dismiss)).await
    }

    /// Lists deliveries that were refused, latest first.
    pub async fn list_refused(
        &self,
        filter: &RefusedFilter,
    ) -> Result<Page<RefusedDelivery>, ClientError> {
        read(self.get(&["v1", "refusals"]).query(filter)).await
    }
}
