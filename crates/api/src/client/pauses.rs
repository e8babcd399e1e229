//! Pauses of flows and connections.

use reqwest::Method;
use semel_model::{FlowName, Label};

use super::transfer::{carry_out, read};
use super::{Answer, Client, ClientError};
use crate::types::{AskPause, AskResume, Page, Pause, PauseChange};

impl Client {
    /// Lists the flows and connections of the namespace that are paused.
    pub async fn list_pauses(&self) -> Result<Page<Pause>, ClientError> {
        read(self.get(&["v1", "pauses"])).await
    }

    /// Pauses a flow. Pausing it twice is the same as once.
    pub async fn pause_flow(
        &self,
        flow: &FlowName,
        ask: &AskPause,
        key: Option<&str>,
    ) -> Result<Answer<PauseChange>, ClientError> {
        let path = ["v1", "flows", flow.as_str(), "pause"];
        carry_out(self.ask_under(Method::POST, &path, key).json(ask)).await
    }

    /// Resumes a flow. Resuming it twice is the same as once.
    pub async fn resume_flow(
        &self,
        flow: &FlowName,
        ask: &AskResume,
        key: Option<&str>,
    ) -> Result<Answer<PauseChange>, ClientError> {
        let path = ["v1", "flows", flow.as_str(), "resume"];
        carry_out(self.ask_under(Method::POST, &path, key).json(ask)).await
    }

    /// Pauses a connection. Pausing it twice is the same as once.
    pub async fn pause_connection(
        &self,
        name: &Label,
        ask: &AskPause,
        key: Option<&str>,
    ) -> Result<Answer<PauseChange>, ClientError> {
        let path = ["v1", "connections", name.as_str(), "pause"];
        carry_out(self.ask_under(Method::POST, &path, key).json(ask)).await
    }

    /// Resumes a connection. Resuming it twice is the same as once.
    pub async fn resume_connection(
        &self,
        name: &Label,
        ask: &AskResume,
        key: Option<&str>,
    ) -> Result<Answer<PauseChange>, ClientError> {
        let path = ["v1", "connections", name.as_str(), "resume"];
        carry_out(self.ask_under(Method::POST, &path, key).json(ask)).await
    }
}
