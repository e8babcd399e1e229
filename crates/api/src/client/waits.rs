//! Waits.

use semel_model::{RunId, WaitId};

use super::transfer::{carry_out, read};
use super::{Answer, Client, ClientError};
use crate::types::{Called, CompleteWait, Page, Wait};

impl Client {
    /// Lists open waits, newest first; of one run or of all.
    pub async fn list_waits(&self, run: Option<RunId>) -> Result<Page<Wait>, ClientError> {
        self.list_waits_where(run, false).await
    }

    /// Lists waits, ended ones too, newest first; of one run or of all.
    pub async fn list_all_waits(&self, run: Option<RunId>) -> Result<Page<Wait>, ClientError> {
        self.list_waits_where(run, true).await
    }

    async fn list_waits_where(
        &self,
        run: Option<RunId>,
        all: bool,
    ) -> Result<Page<Wait>, ClientError> {
        let mut query = vec![("all", all.to_string())];
        query.extend(run.map(|run| ("run", run.to_string())));
        read(self.get(&["v1", "waits"]).query(&query)).await
    }

    /// Completes a wait in place of its callback.
    pub async fn complete_wait(
        &self,
        wait: WaitId,
        complete: &CompleteWait,
        key: &str,
    ) -> Result<Answer<Called>, ClientError> {
        let path = ["v1", "waits", &wait.to_string(), "complete"];
        carry_out(self.post(&path, key).json(complete)).await
    }
}
