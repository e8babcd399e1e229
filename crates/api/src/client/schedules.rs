//! Schedules.

use reqwest::Method;
use semel_model::FlowName;

use super::transfer::{carry_out, read};
use super::{Answer, Client, ClientError};
use crate::types::{
    FireSchedule, FiredSchedule, Instant, InstantFilter, Page, PauseSchedule, PausedSchedule,
    Schedule, Tick, TickFilter,
};

impl Client {
    /// Lists the live schedules of the namespace, by flow.
    pub async fn list_schedules(&self) -> Result<Page<Schedule>, ClientError> {
        read(self.get(&["v1", "schedules"])).await
    }

    /// The schedule of a flow.
    pub async fn get_schedule(&self, flow: &FlowName) -> Result<Schedule, ClientError> {
        read(self.get(&["v1", "schedules", flow.as_str()])).await
    }

    /// Lists the ticks of a schedule, the latest first.
    pub async fn list_ticks(
        &self,
        flow: &FlowName,
        filter: &TickFilter,
    ) -> Result<Page<Tick>, ClientError> {
        let path = ["v1", "schedules", flow.as_str(), "ticks"];
        read(self.get(&path).query(filter)).await
    }

    /// Lists instants that a schedule names, in order.
    pub async fn list_instants(
        &self,
        flow: &FlowName,
        filter: &InstantFilter,
    ) -> Result<Page<Instant>, ClientError> {
        let path = ["v1", "schedules", flow.as_str(), "instants"];
        read(self.get(&path).query(filter)).await
    }

    /// Pauses a schedule. Pausing it twice is the same as once.
    pub async fn pause_schedule(
        &self,
        flow: &FlowName,
        ask: &PauseSchedule,
        key: Option<&str>,
    ) -> Result<Answer<PausedSchedule>, ClientError> {
        let path = ["v1", "schedules", flow.as_str(), "pause"];
        carry_out(self.ask_under(Method::POST, &path, key).json(ask)).await
    }

    /// Resumes a schedule. Resuming it twice is the same as once.
    pub async fn resume_schedule(
        &self,
        flow: &FlowName,
        ask: &PauseSchedule,
        key: Option<&str>,
    ) -> Result<Answer<PausedSchedule>, ClientError> {
        let path = ["v1", "schedules", flow.as_str(), "resume"];
        carry_out(self.ask_under(Method::POST, &path, key).json(ask)).await
    }

    /// Fires an instant by hand. One that has its run keeps it.
    pub async fn fire_schedule(
        &self,
        flow: &FlowName,
        ask: &FireSchedule,
        key: Option<&str>,
    ) -> Result<Answer<FiredSchedule>, ClientError> {
        let path = ["v1", "schedules", flow.as_str(), "fire"];
        carry_out(self.ask_under(Method::POST, &path, key).json(ask)).await
    }
}
