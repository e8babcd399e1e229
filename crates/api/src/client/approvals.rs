//! Approvals.

use semel_model::{RunId, WaitId};

use super::transfer::{carry_out, read};
use super::{Answer, Client, ClientError};
use crate::types::{Approval, Decide, DecidedApproval, Page};

impl Client {
    /// Lists open approvals, newest first; of one run or of all.
    pub async fn list_approvals(&self, run: Option<RunId>) -> Result<Page<Approval>, ClientError> {
        self.list_approvals_where(run, false).await
    }

    /// Lists approvals, ended ones too, newest first; of one run or of all.
    pub async fn list_all_approvals(
        &self,
        run: Option<RunId>,
    ) -> Result<Page<Approval>, ClientError> {
        self.list_approvals_where(run, true).await
    }

    async fn list_approvals_where(
        &self,
        run: Option<RunId>,
        all: bool,
    ) -> Result<Page<Approval>, ClientError> {
        let mut query = vec![("all", all.to_string())];
        query.extend(run.map(|run| ("run", run.to_string())));
        read(self.get(&["v1", "approvals"]).query(&query)).await
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
