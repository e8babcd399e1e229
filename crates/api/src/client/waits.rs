//! Waits.

use semel_model::{RunId, WaitId};

use super::transfer::{carry_out, read};
use super::{Answer, Client, ClientError};
use crate::types::{Called, CompleteWait, Page, Wait, WaitFilter};

impl Client {
    /// Lists open waits, newest first; of one run or of all.
    pub async fn list_waits(&self, run: Option<RunId>) -> Result<Page<Wait>, ClientError> {
        let filter = WaitFilter {
            run,
            ..WaitFilter::default()
        };
        self.list_waits_by(&filter).await
    }

    /// Lists a page of waits, newest first.
    pub async fn list_waits_by(&self, filter: &WaitFilter) -> Result<Page<Wait>, ClientError> {
        read(self.get(&["v1", "waits"]).query(filter)).await
    }

    /// Shows a wait.
    pub async fn get_wait(&self, wait: WaitId) -> Result<Wait, ClientError> {
        read(self.get(&["v1", "waits", &wait.to_string()])).await
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
