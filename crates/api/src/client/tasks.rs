//! Tasks.

use std::time::Duration;

use semel_model::EffectId;

use super::transfer::{carry_out, read};
use super::{Answer, Client, ClientError, PATIENCE};
use crate::types::{
    AnsweredTask, ClaimTasks, ClaimedTasks, CompleteTask, FailTask, Page, RenewTask, RenewedTask,
    Task, TaskFilter,
};

/// How long a heartbeat may take: a late one is followed by the next.
const RENEW_PATIENCE: Duration = Duration::from_secs(10);

impl Client {
    /// Asks for work. A repeat under the same key gets the same tasks, for as long as they are
    /// held.
    pub async fn claim_tasks(
        &self,
        claim: &ClaimTasks,
        key: &str,
    ) -> Result<ClaimedTasks, ClientError> {
        let wait = claim.wait.map_or(Duration::ZERO, |wait| wait.to_duration());
        let request = self.post(&["v1", "tasks", "claim"], key);
        read(request.timeout(PATIENCE + wait).json(claim)).await
    }

    /// Renews the worker's lease.
    pub async fn renew_task(
        &self,
        task: EffectId,
        renew: &RenewTask,
    ) -> Result<RenewedTask, ClientError> {
        let path = ["v1", "tasks", &task.to_string(), "heartbeat"];
        let request = self.ask(reqwest::Method::POST, &path);
        read(request.timeout(RENEW_PATIENCE).json(renew)).await
    }

    /// Says that a task is done. Saying it again is safe.
    pub async fn complete_task(
        &self,
        task: EffectId,
        complete: &CompleteTask,
    ) -> Result<Answer<AnsweredTask>, ClientError> {
        let path = ["v1", "tasks", &task.to_string(), "complete"];
        carry_out(self.ask(reqwest::Method::POST, &path).json(complete)).await
    }

    /// Says that a task did not happen, or may have. Saying it again is safe.
    pub async fn fail_task(
        &self,
        task: EffectId,
        fail: &FailTask,
    ) -> Result<Answer<AnsweredTask>, ClientError> {
        let path = ["v1", "tasks", &task.to_string(), "fail"];
        carry_out(self.ask(reqwest::Method::POST, &path).json(fail)).await
    }

    /// Lists tasks, newest first.
    pub async fn list_tasks(&self, filter: &TaskFilter) -> Result<Page<Task>, ClientError> {
        read(self.get(&["v1", "tasks"]).query(filter)).await
    }

    /// One task.
    pub async fn get_task(&self, task: EffectId) -> Result<Task, ClientError> {
        read(self.get(&["v1", "tasks", &task.to_string()])).await
    }
}
