//! Replays of many runs.

use semel_model::ReplayPlanId;

use super::transfer::{carry_out, read};
use super::{Answer, Client, ClientError};
use crate::types::{
    ChangePlan, Page, PlanReplay, PlannedRun, PlannedRunFilter, ReplayPlan, ReplayPlanFilter,
};

impl Client {
    /// Freezes which runs are replayed together.
    pub async fn plan_replay(
        &self,
        plan: &PlanReplay,
        key: &str,
    ) -> Result<Answer<ReplayPlan>, ClientError> {
        carry_out(self.post(&["v1", "replay-plans"], key).json(plan)).await
    }

    /// Lists plans, newest first.
    pub async fn list_replay_plans(
        &self,
        filter: &ReplayPlanFilter,
    ) -> Result<Page<ReplayPlan>, ClientError> {
        read(self.get(&["v1", "replay-plans"]).query(filter)).await
    }

    /// One plan.
    pub async fn get_replay_plan(&self, plan: ReplayPlanId) -> Result<ReplayPlan, ClientError> {
        read(self.get(&["v1", "replay-plans", &plan.to_string()])).await
    }

    /// Lists runs of a plan.
    pub async fn list_planned_runs(
        &self,
        plan: ReplayPlanId,
        filter: &PlannedRunFilter,
    ) -> Result<Page<PlannedRun>, ClientError> {
        let path = ["v1", "replay-plans", &plan.to_string(), "runs"];
        read(self.get(&path).query(filter)).await
    }

    /// Applies, pauses or stops a plan, as `verb` says.
    pub async fn change_replay_plan(
        &self,
        plan: ReplayPlanId,
        verb: &str,
        change: &ChangePlan,
        key: &str,
    ) -> Result<Answer<ReplayPlan>, ClientError> {
        let path = ["v1", "replay-plans", &plan.to_string(), verb];
        carry_out(self.post(&path, key).json(change)).await
    }
}
