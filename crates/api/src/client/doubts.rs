//! Doubts of one step that are settled together.

use super::transfer::{carry_out, read};
use super::{Answer, Client, ClientError};
use crate::types::{GroupedDoubts, SettleGroup};

impl Client {
    /// Lists the doubts of one step, with the digest by which they can be settled.
    pub async fn preview_settlement(
        &self,
        group: &SettleGroup,
    ) -> Result<GroupedDoubts, ClientError> {
        let key = semel_model::DeliveryId::generate().to_string();
        let path = ["v1", "doubts", "settle", "preview"];
        read(self.post(&path, &key).json(group)).await
    }

    /// Settles the doubts of one step, where they are those of the digest.
    pub async fn settle_group(
        &self,
        group: &SettleGroup,
        key: &str,
    ) -> Result<Answer<GroupedDoubts>, ClientError> {
        carry_out(self.post(&["v1", "doubts", "settle"], key).json(group)).await
    }
}
