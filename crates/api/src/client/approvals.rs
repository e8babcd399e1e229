//! Approvals.

use semel_model::{RunId, WaitId};

use super::transfer::{carry_out, read};
use super::{Answer, Client, ClientError};
use crate::types::{Approval, ApprovalFilter, Decide, DecidedApproval, Page};

impl Client {
    /// Lists open approvals, newest first; of one run or of all.
    pub async fn list_approvals(&self, run: Option<RunId>) -> Result<Page<Approval>, ClientError> {
        let filter = ApprovalFilter {
            run,
            ..ApprovalFilter::default()
        };
        self.list_approvals_by(&filter).await
    }

    /// Lists a page of approvals, newest first.
    pub async fn list_approvals_by(
        &self,
        filter: &ApprovalFilter,
    ) -> Result<Page<Approval>, ClientError> {
        read(self.get(&["v1", "approvals"]).query(filter)).await
    }

    /// One approval.
    pub async fn get_approval(&self, approval: WaitId) -> Result<Approval, ClientError> {
        read(self.get(&["v1", "approvals", &approval.to_string()])).await
    }

    /// Decides an approval. The same decision again gets the same answer.
    pub async fn decide_approval(
        &self,
        approval: WaitId,
        decide: &Decide,
    ) -> Result<Answer<DecidedApproval>, ClientError> {
        let path = ["v1", "approvals", &approval.to_string(), "decide"];
        carry_out(self.ask(reqwest::Method::POST, &path).json(decide)).await
    }
}
