//! Cancelling and resuming many runs.

use semel_model::RunJobId;

use super::transfer::{carry_out, read};
use super::{Answer, Client, ClientError};
use crate::types::{AskRunJob, Page, RunJob, RunJobFilter, RunJobPlan, StopRunJob};

impl Client {
    /// The runs that would be cancelled or resumed. Changes nothing.
    pub async fn plan_run_job(&self, ask: &AskRunJob) -> Result<RunJobPlan, ClientError> {
        let key = semel_model::DeliveryId::generate().to_string();
        read(self.post(&["v1", "run-jobs", "preview"], &key).json(ask)).await
    }

    /// Cancels or resumes the runs of a plan.
    pub async fn make_run_job(
        &self,
        ask: &AskRunJob,
        key: &str,
    ) -> Result<Answer<RunJob>, ClientError> {
        carry_out(self.post(&["v1", "run-jobs"], key).json(ask)).await
    }

    /// Stops a job: what is left of it is left alone.
    pub async fn stop_run_job(
        &self,
        job: RunJobId,
        stop: &StopRunJob,
        key: &str,
    ) -> Result<Answer<RunJob>, ClientError> {
        let path = ["v1", "run-jobs", &job.to_string(), "stop"];
        carry_out(self.post(&path, key).json(stop)).await
    }

    /// Lists jobs, newest first.
    pub async fn list_run_jobs(&self, filter: &RunJobFilter) -> Result<Page<RunJob>, ClientError> {
        read(self.get(&["v1", "run-jobs"]).query(filter)).await
    }

    /// One job.
    pub async fn get_run_job(&self, job: RunJobId) -> Result<RunJob, ClientError> {
        read(self.get(&["v1", "run-jobs", &job.to_string()])).await
    }
}
